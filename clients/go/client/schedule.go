package client

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A Schedule says at which times the server puts jobs.
type Schedule struct {
	Tube  string
	Cron  string        // an expression such as "30 2 * * 1-5", or @daily; empty: Every
	Every time.Duration // the time from one job to the next, at least a second; 0: Cron
	Zone  string        // the time zone of Cron, such as Europe/Berlin; empty: UTC

	From, Until time.Time     // the first and the last possible time; zero: none
	Spread      time.Duration // each job is put later by a part of it, so that not all schedules put at once; 0: none

	Overlap    Overlap       // what happens if the job before is still there; empty: Skip
	CatchUp    time.Duration // how late a job can be put if it was missed; 0: until the next one is due, at most an hour
	CatchUpAll int           // how many missed jobs are put; 0: the latest one
}

// An Overlap says what happens if the job of a schedule is still there when the next one is due.
type Overlap string

// What happens if the job before is still there.
const (
	SkipNext   Overlap = "skip"       // nothing is put; the default
	ReplaceJob Overlap = "replace"    // the job is deleted, even if it is reserved
	AllowBoth  Overlap = "allow"      // there can be any number of jobs
	BufferOne  Overlap = "buffer-one" // one is put, which starts when the running one has ended
)

// SetSchedule creates a schedule, or replaces the one with that name. If its times stay the same, it keeps its place, so it
// is safe to set a schedule at each start of a program. The options are those of its jobs; [At] and [OnDuplicate] cannot be
// among them. What is wrong with the schedule, also its expression or time zone, is an [ErrInvalid].
//
// Package inspect lists, pauses and deletes schedules.
func (c *Client) SetSchedule(ctx context.Context, name string, s Schedule, body []byte, opts ...PutOption) error {
	o := putOptions{pri: DefaultPriority, ttr: DefaultTTR}
	for _, opt := range opts {
		opt(&o)
	}
	if o.err == nil {
		o.err = checkTube(s.Tube)
	}
	if o.err == nil && checkTube(name) != nil {
		o.err = invalid("schedule %q", name)
	}
	if o.err == nil && !o.at.IsZero() {
		o.err = invalid("a schedule with At")
	}
	if o.err != nil {
		return fmt.Errorf("set-schedule: %w", o.err)
	}
	if body == nil {
		body = noBody
	}
	line := fmt.Sprintf("set-schedule %s %s %d %d %d%s", name, s.Tube, o.pri, max(seconds(o.ttr), 1), len(body), s.tags(&o))
	reply, err := c.Exec(ctx, Command{Line: line, Body: body, Repeat: true, Needs: Schedules})
	if err == nil && reply.Word != "SET" {
		err = fmt.Errorf("set-schedule: unexpected reply %s", reply.Word)
	}
	return err
}

// RunSchedule puts a job of a schedule now. If the job before is still there and prevents it, the receipt is about that
// job, as that of a [Client.Put] whose key is taken.
func (c *Client) RunSchedule(ctx context.Context, name string) (r Receipt, err error) {
	reply, err := c.Exec(ctx, Command{Line: "run-schedule " + name, Needs: Schedules})
	if err == nil {
		err = r.read(&reply)
	}
	return r, err
}

// tags returns the tags of the schedule and of its jobs, each with a space before it.
func (s *Schedule) tags(o *putOptions) (line string) {
	add := func(name, value string) { line += " " + name + ":" + value }
	ms := func(name string, d time.Duration) {
		if d > 0 {
			add(name, strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)+"ms")
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, strconv.FormatInt(t.UnixMilli(), 10))
		}
	}
	if s.Cron != "" {
		add("cron", quote(s.Cron))
	}
	if s.Zone != "" {
		add("tz", quote(s.Zone))
	}
	if s.Overlap != "" {
		add("overlap", string(s.Overlap))
	}
	if s.CatchUpAll > 0 {
		add("catch-up-all", strconv.Itoa(s.CatchUpAll))
	}
	ms("every", s.Every)
	ms("jitter", s.Spread)
	ms("catch-up", s.CatchUp)
	ms("delay", o.delay)
	at("from", s.From)
	at("until", s.Until)
	for _, t := range o.tags {
		add(t.name, t.value)
	}
	return line
}
