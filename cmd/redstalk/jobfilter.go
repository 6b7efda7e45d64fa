package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/filter"
)

// This file has the filter that lists of jobs, replay and search share.

func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "group", Usage: "only jobs of this `GROUP`"},
		&cli.StringFlag{Name: "key", Usage: "only the job with this `KEY`"},
		&cli.StringFlag{Name: "batch", Usage: "only members of this `BATCH`, and jobs after it"},
		&cli.StringFlag{Name: "schedule", Usage: "only jobs that this `SCHEDULE` has put"},
		&cli.StringFlag{Name: "reason", Usage: "only jobs with this `TEXT` in the reason of the last failure, or in why the server parked them"},
		&cli.StringFlag{Name: "whole-reason", Usage: "only jobs with this `REASON`, as parked --reasons shows it"},
		&cli.StringFlag{Name: "since", Usage: "only jobs that failed last at this `TIME` or later, or were put then if they have not failed: a time as --at of put, or a duration ago such as 2h"},
		&cli.StringFlag{Name: "until", Usage: "the same at this `TIME` or before"},
		&cli.UintFlag{Name: "attempts", Usage: "only jobs that were delivered at least `N` times"},
		&cli.StringSliceFlag{Name: "meta", Usage: "only jobs that were put with `NAME=VALUE`; can be repeated"},
		&cli.StringFlag{Name: "body", Usage: "only jobs with this `TEXT` in the body, in upper or lower case; a JSON object or array is compared by value, and the body may contain more"},
	}
}

// jobFilter is a filter of jobs that are listed with list-jobs.
type jobFilter struct {
	*filter.Matcher
	listed  *filter.Matcher // the part that the properties in a list decide
	details bool            // further properties are needed
}

// jobFilter returns the filter of the flags, with a text; nil if nothing is filtered.
func (t *task) jobFilter(text string) (*jobFilter, error) {
	f := filter.Filter{
		Text: text, Group: t.String("group"), Key: t.String("key"), Batch: t.String("batch"), Schedule: t.String("schedule"),
		Reason: t.String("reason"), WholeReason: t.String("whole-reason"), Attempts: uint32(t.Uint("attempts")), Body: t.String("body"),
	}
	var err error
	if f.Since, err = pastTime(t.String("since")); err != nil {
		return nil, err
	}
	if f.Until, err = pastTime(t.String("until")); err != nil {
		return nil, err
	}
	for _, pair := range t.StringSlice("meta") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, usage("--meta: %q is not NAME=VALUE", pair)
		}
		if f.Meta == nil {
			f.Meta = make(map[string]string)
		}
		f.Meta[name] = value
	}
	listed := filter.Filter{Group: f.Group, Key: f.Key, Batch: f.Batch, Schedule: f.Schedule, Reason: f.Reason, WholeReason: f.WholeReason}
	details := f.Text != "" || !f.Since.IsZero() || !f.Until.IsZero() || f.Attempts > 0 || f.Meta != nil
	if !details && f.Body+f.Group+f.Key+f.Batch+f.Schedule+f.Reason+f.WholeReason == "" {
		return nil, nil
	}
	return &jobFilter{filter.New(f), filter.New(listed), details}, nil
}

// pastTime reads a point in time, or how long ago it is; "" is the zero time.
func pastTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := parseDuration(text); err == nil {
		return time.Now().Add(-ago), nil
	}
	return parseTime(text)
}

// foundJob is a job that matches.
type foundJob struct {
	*job
	In      filter.Found `json:"in,omitempty"`      // where the text of a search is
	Excerpt string       `json:"excerpt,omitempty"` // of the body, if that was read
}

// whyFailed returns the reason of the last failure; if none is known, why the server has parked the job, or that it is a dead letter; "" if it
// has not failed.
func whyFailed(j *job) string {
	reason := cmp.Or(j.Reason, j.Parked)
	if reason == "" && j.isDeadLetter() {
		return filter.DeadLetter
	}
	return reason
}

// properties returns what a filter has to know of a job.
func (j *job) properties(now time.Time) *filter.Job {
	p := &filter.Job{
		ID: j.ID, FromID: j.FromID, Key: j.Key, Group: j.Group, Batch: j.Batch, After: j.After + j.AfterAll, Schedule: j.Schedule, Reason: whyFailed(j),
		Meta: maps.All(j.Meta), Attempts: max(j.Reserves, uint32(len(j.Attempts))), At: now.Add(-time.Duration(j.Age) * time.Second),
	}
	failed := j.Failed
	if len(j.Attempts) > 0 {
		failed = max(failed, j.Attempts[0].Ended)
	}
	if failed > 0 {
		p.At = time.UnixMilli(failed)
	}
	return p
}

// matching returns those of listed jobs that match, in the same order. If f is nil, all do.
func (t *task) matching(f *jobFilter, jobs []*job) ([]foundJob, error) {
	found, now := make([]foundJob, 0, len(jobs)), time.Now()
	for _, j := range jobs {
		if f != nil {
			if verdict, _ := f.listed.Properties(j.properties(now)); verdict == filter.No {
				continue
			}
		}
		found = append(found, foundJob{job: j})
	}
	if f == nil {
		return found, nil
	}
	if err := t.checkReadable(f, jobs); err != nil {
		return nil, err
	}
	if f.details {
		if err := t.readDetails(found); err != nil {
			return nil, err
		}
	}
	var inDoubt []int // the indices of jobs whose body decides
	for i := range found {
		j := &found[i]
		if j.job == nil {
			continue
		}
		verdict, in := f.Properties(j.properties(now))
		switch j.In = in; verdict {
		case filter.No:
			j.job = nil
		case filter.BodySays:
			inDoubt = append(inDoubt, i)
		}
	}
	err := t.readBodies(f, found, inDoubt)
	return slices.DeleteFunc(found, func(j foundJob) bool { return j.job == nil }), err
}

// checkReadable returns an error if the user may not read the reasons or headers that a filter is about: they would look as if
// there were none.
func (t *task) checkReadable(f *jobFilter, jobs []*job) error {
	flag := "--reason"
	if f.Reason+f.WholeReason == "" {
		flag = "--meta"
	}
	if f.Reason+f.WholeReason == "" && f.Meta == nil || len(jobs) == 0 {
		return nil
	}
	return t.pipeline("reading a job", 1, func(out []byte, _ int) []byte { return fmt.Appendf(out, "peek %d\r\n", jobs[0].ID) }, func(_ int, r *client.Reply) error {
		if r.Word == client.Forbidden {
			return replyError(flag, r)
		}
		return nil
	})
}

// readDetails reads the properties that lists do not have. The job of an element that is gone by now becomes nil.
func (t *task) readDetails(found []foundJob) error {
	return t.pipeline("reading jobs", len(found), func(out []byte, i int) []byte { return fmt.Appendf(out, "stats-job %d\r\n", found[i].ID) }, func(i int, r *client.Reply) error {
		switch r.Word {
		case client.OK:
			found[i].readPage(client.Page(r.Body))
		case client.NotFound:
			found[i].job = nil
		default:
			return replyError(fmt.Sprintf("job %d", found[i].ID), r)
		}
		return nil
	})
}

// readBodies decides about the jobs in doubt. The job of an element that does not match becomes nil.
func (t *task) readBodies(f *jobFilter, found []foundJob, inDoubt []int) error {
	return t.pipeline("reading jobs", len(inDoubt), func(out []byte, i int) []byte { return fmt.Appendf(out, "peek %d\r\n", found[inDoubt[i]].ID) }, func(i int, r *client.Reply) error {
		j := &found[inDoubt[i]]
		switch r.Word {
		case client.Found:
			matches, in, at := f.BodyOf(r.Body, j.In)
			if !matches {
				j.job = nil
				return nil
			}
			j.In, j.Excerpt = in, excerptAt(r.Body, at)
		case client.NotFound:
			j.job = nil
		case client.Forbidden:
			if f.Body != "" {
				return replyError("--body", r)
			}
			j.job, t.unread = nil, true
		default:
			return replyError(fmt.Sprintf("job %d", j.ID), r)
		}
		return nil
	})
}

// excerptAt returns the part of a body around an offset; the beginning if that is negative.
func excerptAt(body []byte, at int) string {
	from := max(0, min(at, len(body))-excerptBytes/8)
	for from > 0 && from < len(body) && body[from]&0xC0 == 0x80 { // in the middle of a character
		from++
	}
	return printable(body[from:min(len(body), from+excerptBytes)])
}

// reasonCounts counts jobs by their reasons.
type reasonCounts map[string]int

// add counts jobs.
func (c reasonCounts) add(jobs []foundJob) {
	for _, j := range jobs {
		c[whyFailed(j.job)]++
	}
}

// reasons returns the reasons, the most frequent first.
func (c reasonCounts) reasons() []string {
	return slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b)) })
}

// table returns the counts as a table.
func (c reasonCounts) table() *table {
	b := &table{head: []string{"JOBS", "REASON"}, text: 1}
	for _, reason := range c.reasons() {
		b.add(fmt.Sprint(c[reason]), oneLine(reason))
	}
	return b
}

// summary returns the most frequent reasons in brackets.
func (c reasonCounts) summary() string {
	var words []string
	for i, reason := range c.reasons() {
		if i == 3 {
			words = append(words, fmt.Sprintf("%d more", len(c)-i))
			break
		}
		words = append(words, fmt.Sprintf("%s %d", oneLine(reason), c[reason]))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// checkTubes checks names of tubes on the command line.
func checkTubes(names []string) error {
	for _, name := range names {
		if !protocol.ValidName([]byte(name)) {
			return usage("%q is not the name of a tube", name)
		}
	}
	return nil
}
