package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"redstalk/storage/embedded"
	"redstalk/storage/redact"
	"redstalk/storage/redis/fsck"
)

// fsck is `redstalkd fsck [--repair] OPTIONS`: it compares the jobs in Redis with
// the queues, or checks the directory of an embedded engine, and reports faults on stdout. The
// options are those of the server; it uses --store and --namespace.
func (m *Main) fsck(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) error {
	n := len(args)
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--repair" })
	s, err := configure(args, env, stdout)
	if err != nil || s == nil {
		return err
	}
	out := &fsckOutput{stdout: stdout, progress: newProgress(stderr), repair: len(args) < n}
	switch scheme, _, _ := strings.Cut(s.engine.url, ":"); {
	case redisSchemes[scheme]:
		return out.redis(ctx, s)
	case scheme == "embedded":
		ctx, cancel := m.untilSignal(ctx)
		defer cancel()
		s.engine.log = newLog(stderr, s)
		return out.embedded(ctx, s)
	}
	return failure(exitUsage, "fsck is for jobs in Redis or in a directory, and --store is %s", redact.URL(s.engine.url))
}

// fsckOutput is what a fsck writes.
type fsckOutput struct {
	stdout   io.Writer
	progress *progress
	repair   bool
	wrong    int // faults
}

func (o *fsckOutput) print(format string, args ...any) {
	o.progress.clear()
	fmt.Fprintf(o.stdout, format+"\n", args...)
}

func (o *fsckOutput) redis(ctx context.Context, s *settings) error {
	report := func(partition int, what string) { o.print("{%d} %s", partition, what) }
	jobs, err := fsck.Check(ctx, fsck.Options{
		URL: s.engine.url, Namespace: s.engine.namespace, Timeout: s.engine.timeout,
	}, o.repair, fsck.Report{
		Found: func(partition int, what string) {
			o.wrong++
			report(partition, what)
		},
		Skipped:  report,
		Progress: o.progress.show,
	})
	o.progress.clear()
	switch {
	case errors.Is(err, fsck.ErrInstances):
		return failure(exitUsage, "%w", redact.Error(s.engine.url, err))
	case err != nil:
		return describe(s.engine, err)
	}
	o.print("%d jobs, %d faults", jobs, o.wrong)
	if o.wrong > 0 && !o.repair {
		return failure(exitWrong, "there are faults; stop all instances and say fsck --repair")
	}
	return nil
}

func (o *fsckOutput) embedded(ctx context.Context, s *settings) error {
	if err := s.useImported(); err != nil {
		return err
	}
	jobs, left, err := embedded.Fsck(ctx, embedded.Options{
		Dir: strings.TrimPrefix(s.engine.url, "embedded:"), OpenFiles: tableFiles(descriptors()), Log: s.engine.log,
	}, o.repair, embedded.FsckReport{
		Found: func(what string) {
			o.wrong++
			o.print("%s", oneLine(what))
		},
		Skipped:  func(what string) { o.print("%s", what) },
		Progress: o.progress.show,
	})
	o.progress.clear()
	if err != nil {
		return describe(s.engine, err)
	}
	o.print("%d jobs, %d faults", jobs, o.wrong)
	switch {
	case left > 0 && o.repair:
		return failure(exitWrong, "%d faults cannot be repaired", left)
	case left > 0:
		return failure(exitWrong, "there are faults; say fsck --repair")
	}
	return nil
}
