package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"redstalk/storage"
	"redstalk/storage/beanstalkd"
	"redstalk/storage/redact"
	"redstalk/tube"
)

// cutOptions removes the options of a subcommand from a command line. names has their names, and
// true for those that take a value. It returns the rest, and the values by name; a switch has its
// own name as value.
func cutOptions(args []string, names map[string]bool) (rest []string, values map[string]string, err error) {
	values = make(map[string]string)
	for i := 0; i < len(args); i++ {
		name, value, attached := strings.Cut(args[i], "=")
		takes, ok := names[name]
		switch {
		case !ok:
			rest = append(rest, args[i])
			continue
		case takes && !attached:
			if i++; i == len(args) {
				return nil, nil, usageError("flag %s needs a value", name)
			}
			value = args[i]
		case !takes && attached:
			return nil, nil, usageError("flag %s takes no value", name)
		case !takes:
			value = name
		}
		if value == "" {
			return nil, nil, usageError("flag %s needs a value", name)
		}
		values[name] = value
	}
	return rest, values, nil
}

// requireStore fails unless the settings name a store.
func requireStore(s *settings, command string) error {
	if !s.given["store"] && !s.given["binlog"] {
		return usageError("%s needs --store, or REDSTALK_STORE", command)
	}
	return nil
}

// untilSignal returns a context that is canceled by SIGTERM or SIGINT.
func (m *Main) untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case sig := <-m.Signals:
				if sig == syscall.SIGTERM || sig == syscall.SIGINT {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// importJobs is `redstalkd import --from DIR [--dry-run] [--ids FILE] OPTIONS`: it imports the jobs
// of a beanstalkd binlog. It reports on stderr. If jobs get new ids, the list of them
// is written to stdout or to a file.
func (m *Main) importJobs(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) error {
	args, said, err := cutOptions(args, map[string]bool{"--from": true, "--ids": true, "--dry-run": false})
	if err != nil {
		return err
	}
	s, err := configure(args, env, stdout)
	if err != nil || s == nil {
		return err
	}
	if said["--from"] == "" {
		return usageError("import needs --from DIR, where beanstalkd has its binlog")
	}
	dry := said["--dry-run"] != ""
	if err := requireStore(s, "import"); err != nil && !dry {
		return err
	}
	l, err := retryWhileTaken(ctx, s, func() (*beanstalkd.Binlog, error) {
		return readBinlog(said["--from"], newProgress(stderr), func(line string) { fmt.Fprintln(stderr, line) })
	})
	if err != nil {
		return err
	}
	defer l.Close()
	if !dry {
		ctx, cancel := m.untilSignal(ctx)
		defer cancel()
		if err = s.refuseChanged(said["--from"]); err == nil {
			err = importLog(ctx, s, l, &importReport{ids: stdout, file: said["--ids"], line: stderr})
		}
	}
	if err == nil && len(l.Damage) > 0 {
		err = failure(exitWrong, "the binlog is damaged: what could be read was %s", map[bool]string{true: "counted", false: "imported"}[dry])
	}
	return err
}

// readBinlog reads a binlog, and reports its damage and its contents.
func readBinlog(dir string, progress *progress, report func(line string)) (*beanstalkd.Binlog, error) {
	l, err := beanstalkd.Open(dir, progress.show)
	progress.clear()
	switch {
	case errors.Is(err, beanstalkd.ErrLocked):
		return nil, failure(exitLocked, "%w", err)
	case err != nil:
		return nil, failure(exitFailure, "%w", err)
	}
	for _, d := range l.Damage {
		report("damaged: " + d.String())
	}
	report(fmt.Sprintf("%s: %d files, %d records, %d jobs, %d bytes of bodies; the last id is %d", dir, l.Files, l.Records, l.Len(), l.Bytes(), l.LastID))
	report(beanstalkd.Count(l).String())
	return l, nil
}

// importReport is where an import reports.
type importReport struct {
	line io.Writer // for people
	ids  io.Writer // the list of ids
	file string    // a file for that list instead; "": none
}

// importLog imports a parsed binlog into the store of the settings.
func importLog(ctx context.Context, s *settings, l *beanstalkd.Binlog, to *importReport) (err error) {
	s.engine.log = newLog(to.line, s)
	s.engine.logging = &logging{to.line, func(line string) { io.WriteString(to.line, line) }}
	if err := s.useImported(); err != nil {
		return err
	}
	store, err := retryWhileTaken(ctx, s, func() (storage.Store, error) { return openStore(ctx, s.engine) })
	if err != nil {
		return describe(s.engine, err)
	}
	defer func() {
		if closeErr := store.Close(); err == nil && closeErr != nil {
			err = failure(exitFailure, "closing the store %s: %w", redact.URL(s.engine.url), redact.Error(s.engine.url, closeErr))
		}
	}()
	store.Listen(nopListener{})
	progress := newProgress(to.line)
	r, err := beanstalkd.Import(ctx, store, l, func(n int) { progress.show("jobs", n) })
	progress.clear()
	switch {
	case ctx.Err() != nil:
		return failure(exitFailure, "the import was interrupted: run the same command again to continue")
	case err != nil:
		return failure(exitFailure, "%w: when that is fixed, run the same command again to continue", redact.Error(s.engine.url, err))
	}
	fmt.Fprintf(to.line, "imported %d jobs into %s; %d were there already\n", r.Jobs, redact.URL(s.engine.url), r.Imported)
	if r.KeepIDs {
		fmt.Fprintln(to.line, "all jobs have the ids that they had")
		return nil
	}
	return to.list(&r, l)
}

// list writes the old and the new ids of jobs.
func (to *importReport) list(r *beanstalkd.Result, l *beanstalkd.Binlog) (err error) {
	out := to.ids
	if to.file != "" {
		f, err := os.Create(to.file)
		if err != nil {
			return failure(exitFailure, "writing the list of ids: %w", err)
		}
		defer f.Close()
		out = f
	}
	fmt.Fprintln(to.line, "jobs have other ids than they had: each line of the list is the old one and the new one")
	b := bufio.NewWriter(out)
	err = r.IDs(l, func(id beanstalkd.Renamed) error {
		_, err := fmt.Fprintln(b, id.Old, id.New)
		return err
	})
	if err = errors.Join(err, b.Flush()); err != nil {
		return failure(exitFailure, "writing the list of ids: %w", err)
	}
	return nil
}

// nopListener is the listener of a store from which nothing is served.
type nopListener struct{}

func (nopListener) WakeUp(string) bool         { return false }
func (nopListener) Waiting(string) int         { return 0 }
func (nopListener) RecordsDue(tube.RecordKind) {}
func (nopListener) Due(time.Duration)          {}

func (nopListener) JobEnded(uint64)            {}
func (nopListener) ClockSetBack(time.Duration) {}
