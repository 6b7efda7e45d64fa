package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"redstalk/storage"
	"redstalk/storage/beanstalkd"
	"redstalk/storage/redact"
)

// export is `redstalkd export --to DIR [--format binlog] OPTIONS`: it writes all jobs of the store
// as a binlog that beanstalkd can open. It reports on stdout.
func (m *Main) export(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) (err error) {
	args, said, err := cutOptions(args, map[string]bool{"--to": true, "--format": true})
	if err != nil {
		return err
	}
	s, err := configure(args, env, stdout)
	if err != nil || s == nil {
		return err
	}
	switch format := said["--format"]; {
	case said["--to"] == "":
		return usageError("export needs --to DIR, for the binlog")
	case format != "" && format != "binlog":
		return usageError("--format: %q is not binlog, which is all there is", format)
	}
	if err := requireStore(s, "export"); err != nil {
		return err
	}
	ctx, cancel := m.untilSignal(ctx)
	defer cancel()
	s.engine.log, s.engine.logging = newLog(stderr, s), &logging{stderr, func(line string) { io.WriteString(stderr, line) }}
	if err := s.useImported(); err != nil {
		return err
	}
	store, err := retryWhileTaken(ctx, s, func() (storage.Store, error) { return openStore(ctx, s.engine) })
	if err != nil {
		return describe(s.engine, err)
	}
	defer store.Close()
	store.Listen(nopListener{})
	progress := newProgress(stderr)
	n, err := beanstalkd.Export(ctx, store, said["--to"], func(n int) { progress.show("jobs", n) })
	progress.clear()
	switch {
	case errors.Is(err, beanstalkd.ErrTaken):
		return failure(exitUsage, "%w: choose an empty directory", err)
	case err != nil:
		return failure(exitFailure, "%w", redact.Error(s.engine.url, err))
	}
	printExport(stdout, said["--to"], &n)
	return nil
}

// beanstalkdReads is the largest body, in bytes, that a beanstalkd without -z reads from its binlog: there
// it counts the CR LF as well.
const beanstalkdReads = defaultMaxJobSize - 2

func printExport(stdout io.Writer, dir string, n *beanstalkd.Exported) {
	fmt.Fprintf(stdout, "exported %d jobs to %s\n", n.Jobs, dir)
	if n.Reserved > 0 {
		fmt.Fprintf(stdout, "%d of them are reserved, and will be ready\n", n.Reserved)
	}
	if n.Extended > 0 {
		fmt.Fprintf(stdout, "%d of them have keys, rules, texts or a history that beanstalkd does not know, and lose them\n", n.Extended)
	}
	if n.Largest > beanstalkdReads {
		fmt.Fprintf(stdout, "the largest body has %d bytes: start beanstalkd with -z %d, or it loses jobs when it reads\n", n.Largest, n.Largest+2)
	}
}
