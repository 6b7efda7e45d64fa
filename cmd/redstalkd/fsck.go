package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"redstalk/storage/redact"
	"redstalk/storage/redis/fsck"
)

// fsck is `redstalkd fsck [--repair] OPTIONS`: it compares the jobs in Redis with
// the queues, and reports faults on stdout. The options are those of the
// server; it uses --store and --namespace.
func (m *Main) fsck(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) error {
	n := len(args)
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--repair" })
	repair := len(args) < n
	s, err := configure(args, env, stdout)
	if err != nil || s == nil {
		return err
	}
	if scheme, _, _ := strings.Cut(s.engine.url, ":"); !redisSchemes[scheme] {
		return failure(exitUsage, "fsck is for jobs in Redis, and --store is %s", redact.URL(s.engine.url))
	}
	wrong, progress := 0, newProgress(stderr)
	report := func(partition int, what string) {
		progress.clear()
		fmt.Fprintf(stdout, "{%d} %s\n", partition, what)
	}
	jobs, err := fsck.Check(ctx, fsck.Options{
		URL: s.engine.url, Namespace: s.engine.namespace, Timeout: s.engine.timeout,
	}, repair, fsck.Report{
		Found: func(partition int, what string) {
			wrong++
			report(partition, what)
		},
		Skipped:  report,
		Progress: progress.show,
	})
	progress.clear()
	switch {
	case errors.Is(err, fsck.ErrInstances):
		return failure(exitUsage, "%w", redact.Error(s.engine.url, err))
	case err != nil:
		return describe(s.engine, err)
	}
	fmt.Fprintf(stdout, "%d jobs, %d faults\n", jobs, wrong)
	if wrong > 0 && !repair {
		return failure(exitWrong, "there are faults; stop all instances and say fsck --repair")
	}
	return nil
}
