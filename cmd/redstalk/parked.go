package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func parkedCommand() *cli.Command {
	return &cli.Command{
		Name: "parked", ArgsUsage: "[TUBE...]", Action: withConn(anyNumber, parked),
		Usage:       "list the jobs that have failed for good: parked jobs and dead letters (extension list-jobs)",
		Description: "SINCE is when the job failed last, or became a dead letter; \"after\" is the time of the put, if that is not recorded.",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "tube", Aliases: []string{"t"}, Usage: "`TUBE`, like an argument; can be repeated"},
			&cli.UintFlag{Name: "count", Aliases: []string{"n"}, Value: 100, Usage: "list at most `N` jobs"},
			&cli.BoolFlag{Name: "all", Usage: "list all jobs"},
			&cli.BoolFlag{Name: "reasons", Usage: "only count them by reason"},
		}, filterFlags()...),
	}
}

func parked(t *task) error {
	most := uint64(t.Uint("count"))
	if t.Bool("all") || t.Bool("reasons") {
		most = 1 << 62
	}
	names := append(t.StringSlice("tube"), t.Args().Slice()...)
	if err := checkTubes(names); err != nil {
		return err
	}
	f, err := t.jobFilter("")
	if err != nil {
		return err
	}
	if err := t.require("list-jobs", "parked"); err != nil {
		return err
	}
	missing, err := t.firstMissing(names)
	if err != nil {
		return err
	}
	if t.Bool("reasons") {
		err = t.countParked(names, f)
	} else {
		err = t.listParked(names, f, most)
	}
	return cmp.Or(err, missing)
}

// firstMissing returns the error for a tube that does not exist, if there is one.
func (t *task) firstMissing(names []string) (missing, err error) {
	for _, name := range names {
		if err := t.checkTube(name); codeOf(err) == exitNothing && err != nil {
			missing = err
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

func (t *task) countParked(names []string, f *jobFilter) error {
	counts := make(reasonCounts)
	err := t.allParked(names, f, 1<<62, func(jobs []foundJob) error {
		counts.add(jobs)
		return nil
	})
	if err != nil {
		return err
	}
	return t.result(counts, counts.table().print)
}

func (t *task) listParked(names []string, f *jobFilter, most uint64) error {
	b := &table{head: []string{"ID", "TUBE", "REASON", "SINCE", "BODY"}, left: 5}
	err := t.allParked(names, f, most, func(jobs []foundJob) error {
		some, err := t.withExcerpts(jobs)
		for _, j := range some {
			if t.Bool("json") && err == nil {
				err = t.printJSON(&j)
			}
			b.add(fmt.Sprint(j.ID), j.Tube, reasonText(j.job), sinceText(j.job, time.Now()), oneLine(j.Excerpt))
		}
		return err
	})
	if err == nil && !t.Bool("json") {
		err = b.print(t.out)
	}
	return err
}

// isDeadLetter reports whether a job came to its tube as a dead letter.
func (j *job) isDeadLetter() bool { return j.FromTube != "" && j.FromTube != j.Tube }

// reasonText is why a job has failed for good.
func reasonText(j *job) string {
	var words []string
	if j.isDeadLetter() {
		words = append(words, "from "+j.FromTube)
	}
	if j.Parked != "" {
		words = append(words, j.Parked)
	}
	if j.Reason != "" && j.Reason != j.Parked {
		words = append(words, oneLine(j.Reason))
	}
	return strings.Join(words, ": ")
}

// failedAt returns when a job failed last, or became a dead letter; the zero time if that is not known.
func failedAt(j *job, now time.Time) time.Time {
	switch {
	case j.Failed > 0:
		return time.UnixMilli(j.Failed)
	case j.isDeadLetter():
		return now.Add(-time.Duration(j.Age) * time.Second)
	}
	return time.Time{}
}

func sinceText(j *job, now time.Time) string {
	at := failedAt(j, now)
	const layout = "2006-01-02 15:04:05 -0700"
	if at.IsZero() {
		return "after " + now.Add(-time.Duration(j.Age)*time.Second).Format(layout)
	}
	return at.Format(layout) + " (" + formatSeconds(int64(max(now.Sub(at), 0)/time.Second)) + " ago)"
}

// oneLine returns the beginning of a text, on one line.
func oneLine(text string) string {
	const most = 60
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}

// excerptBytes is the length of the beginning of a body.
const excerptBytes = 160

// withExcerpts adds the beginnings of the bodies, as far as there is no excerpt. Jobs that are gone by now are left out.
func (t *task) withExcerpts(jobs []foundJob) ([]foundJob, error) {
	missing := []int{}
	for i := range jobs {
		if jobs[i].Excerpt == "" {
			missing = append(missing, i)
		}
	}
	err := t.pipeline("reading jobs", len(missing), func(out []byte, i int) []byte { return fmt.Appendf(out, "peek %d\r\n", jobs[missing[i]].ID) }, func(i int, r *client.Reply) error {
		j := &jobs[missing[i]]
		switch r.Word {
		case client.Found:
			j.Excerpt = excerptAt(r.Body, 0)
		case client.NotFound:
			j.job = nil
		case client.Forbidden: // the user may only list
		default:
			return replyError(fmt.Sprintf("job %d", j.ID), r)
		}
		return nil
	})
	return slices.DeleteFunc(jobs, func(j foundJob) bool { return j.job == nil }), err
}

// allParked passes the jobs of some tubes, or of all if there is no name, that have failed for good and match to
// take, a part at a time, up to most of them.
func (t *task) allParked(names []string, f *jobFilter, most uint64, take func([]foundJob) error) error {
	var err error
	if len(names) == 0 {
		if names, err = t.names("listing tubes", "list-tubes"); err != nil {
			return err
		}
		slices.Sort(names)
	}
	targets, err := t.deadLetterTubes()
	if err != nil {
		return err
	}
	for _, name := range names {
		isTarget := targets[name]
		for _, state := range []string{"buried", "delayed", "ready"} {
			if state != "buried" && !isTarget {
				if first, err := t.firstIsDeadLetter(name, state); err != nil {
					return err
				} else if !first {
					continue
				}
			}
			err := t.allJobs(name, state, 1<<62, func(jobs []*job) error {
				failed := slices.DeleteFunc(jobs, func(j *job) bool { return j.Parked == "" && !j.isDeadLetter() })
				return t.takeMatching(f, failed, &most, take)
			})
			if err != nil {
				return ignoreEnough(err)
			}
		}
	}
	return t.Context.Context.Err()
}

// firstIsDeadLetter reports whether the first job of a tube in a state came there as a dead letter.
func (t *task) firstIsDeadLetter(name, state string) (bool, error) {
	first, _, err := t.pageOfJobs(name, state, 1, "")
	return err == nil && len(first) > 0 && first[0].isDeadLetter(), err
}

// errEnough ends allJobs.
var errEnough = errors.New("no more jobs are wanted")

// ignoreEnough returns nil for errEnough.
func ignoreEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (t *task) endAt(most uint64) error {
	if most == 0 {
		return errEnough
	}
	return nil
}

// deadLetterTubes returns the tubes that a policy names as dead-letter tube, as far as the user may read
// policies.
func (t *task) deadLetterTubes() (map[string]bool, error) {
	targets := make(map[string]bool)
	if has, err := t.supports("policy"); err != nil || !has {
		return targets, err
	}
	names, err := t.names("listing policies", "list-policies")
	if err != nil {
		return targets, nil // the user lacks the right
	}
	err = t.pipeline("reading policies", len(names), func(out []byte, i int) []byte { return fmt.Appendf(out, "get-policy %s\r\n", names[i]) }, func(_ int, r *client.Reply) error {
		if r.Word == client.OK {
			dead, _ := client.Page(r.Body).Value("dead")
			targets[unquoted(dead)] = true
		}
		return nil
	})
	return targets, err
}
