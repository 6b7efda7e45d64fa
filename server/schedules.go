package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file has the commands about schedules. Each can take several steps in the store, so it runs on a
// goroutine of its own, see question.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.SetSchedule:     {planSetSchedule, answerAsked},
		protocol.GetSchedule:     {planGetSchedule, answerAsked},
		protocol.ListSchedules:   {planListSchedules, answerAsked},
		protocol.DeleteSchedule:  {planScheduleChange((*schedule.Service).Delete), answerAsked},
		protocol.PauseSchedule:   {planScheduleChange((*schedule.Service).Pause), answerAsked},
		protocol.ResumeSchedule:  {planScheduleChange((*schedule.Service).Resume), answerAsked},
		protocol.RunSchedule:     {planRunSchedule, answerAsked},
		protocol.PreviewSchedule: {planPreviewSchedule, answerAsked},
	})
}

// errForbidden is the error of what the client may not do, though it knows of the tube.
var errForbidden = errors.New("permission denied")

// mayWith returns who may do something with schedules: those who have all of these rights on its tube. A
// schedule of a tube on which the client has no right at all is not found.
func (s *session) mayWith(all access.Right) schedule.May {
	if s.principal == nil {
		return nil
	}
	user := s.principal.user
	return func(tubeName string) error {
		switch has := user.On(tubeName); {
		case has == access.Nothing:
			return queue.ErrNotFound
		case has&all != all:
			return errForbidden
		}
		return nil
	}
}

// mayList is mayWith for commands that change nothing: one of two rights is enough.
func (s *session) mayList() schedule.May {
	list, admin := s.mayWith(access.List), s.mayWith(access.Admin)
	if list == nil {
		return nil
	}
	return func(tubeName string) error {
		if list(tubeName) == nil {
			return nil
		}
		return admin(tubeName)
	}
}

func planSetSchedule(s *session, c *protocol.Command, r *request) {
	set := scheduleOf(c)
	takeBuffer(c).Release()
	c.Body = nil
	may := s.mayWith(access.Admin | access.Put)
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		return func(s *session) { s.out.Done(protocol.SetSchedule) }, s.schedules.Set(ctx, set, may)
	})
}

// scheduleOf translates a set-schedule for package tube. The body is a copy.
func scheduleOf(c *protocol.Command) *tube.Schedule {
	t, tags := c.Tags.Schedule, new(tube.Tags)
	setTags(tags, c.Tags)
	return &tube.Schedule{
		Name: c.Key, Tube: string(c.Name), Pri: c.Pri, TTR: c.TTR, Body: slices.Clone(c.Body), Tags: tags,
		Timing: timingOf(t), Overlap: tube.Overlap(t.Overlap),
		CatchUp: t.CatchUp, HasCatchUp: t.HasCatchUp, CatchUpAll: t.CatchUpAll,
	}
}

// timingOf translates when a schedule puts jobs.
func timingOf(t *protocol.ScheduleTags) tube.Timing {
	return tube.Timing{Cron: t.Cron, Every: t.Every, Zone: t.Zone, From: instantOf(t.From), Until: instantOf(t.Until), Spread: t.Spread}
}

// instantOf converts milliseconds since the Unix epoch.
func instantOf(ms int64) tube.Instant { return tube.Instant(ms) * tube.Instant(time.Millisecond) }

// planScheduleChange returns the plan of a command that changes a schedule and answers with a word.
func planScheduleChange(change func(*schedule.Service, context.Context, string, schedule.May) error) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		name, verb, may := c.Key, c.Verb, s.mayWith(access.Admin|access.Put)
		s.ask(r, func(ctx context.Context) (func(*session), error) {
			return func(s *session) { s.out.Done(verb) }, change(s.schedules, ctx, name, may)
		})
	}
}

func planRunSchedule(s *session, c *protocol.Command, r *request) {
	name, may := c.Key, s.mayWith(access.Admin|access.Put)
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		a, err := s.schedules.Put(ctx, name, may)
		return func(s *session) { answerPut(s, nil, &a) }, err
	})
}

func planGetSchedule(s *session, c *protocol.Command, r *request) {
	name, may := c.Key, s.mayList()
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		record, _, err := s.schedules.Get(ctx, name, may)
		return func(s *session) { s.out.OK(s.schedulePage(record)) }, err
	})
}

// schedulePage returns what the client sees of a schedule: what it puts, as the tags that set it, where it stands, and
// what came of it.
func (s *session) schedulePage(record *tube.Schedule) []byte {
	var p protocol.Page
	size, view := len(record.Body), s.sight(record.Tube)
	record = view.Schedule(record)
	p.Bare("name", record.Name)
	p.Bare("tube", record.Tube)
	p.Uint("pri", uint64(record.Pri))
	p.Uint("ttr", uint64(record.TTR))
	p.Int("size", int64(size))
	if view.SeesSchedules() {
		sum := sha256.Sum256(record.Body)
		p.Bare("body-sha256", hex.EncodeToString(sum[:]))
	}
	addTiming(&p, &record.Timing)
	p.Bare("overlap", protocol.Overlap(record.Overlap).String())
	if record.HasCatchUp {
		p.Bare("catch-up", field.Durations(record.CatchUp))
	}
	if record.CatchUpAll > 0 {
		p.Uint("catch-up-all", uint64(record.CatchUpAll))
	}
	if record.Tags != nil {
		addPutTags(&p, record.Tags)
	}
	p.Bool("paused", record.Paused)
	for _, n := range scheduleNumbers(record) {
		p.Int(n.word, n.number)
	}
	p.Bare("last-result", lastResult(record))
	return p.Bytes()
}

// addTiming adds when a schedule puts jobs, as tags.
func addTiming(p *protocol.Page, t *tube.Timing) {
	if t.Cron != "" {
		p.Quoted("cron", t.Cron)
	}
	if t.Every > 0 {
		p.Bare("every", field.Durations(t.Every))
	}
	if t.Zone != "" {
		p.Bare("tz", t.Zone)
	}
	if t.From > 0 {
		p.Int("from", msOf(t.From))
	}
	if t.Until > 0 {
		p.Int("until", msOf(t.Until))
	}
	if t.Spread > 0 {
		p.Bare("jitter", field.Durations(t.Spread))
	}
}

// addPutTags adds the tags that the jobs of a schedule get.
func addPutTags(p *protocol.Page, t *tube.Tags) {
	if t.HasDelay {
		p.Bare("delay", field.Durations(t.Delay))
	}
	if t.Key != "" {
		p.Quoted("key", t.Key)
	}
	if t.Group != "" {
		p.Quoted("group", t.Group)
	}
	addBatchTags(p, t)
	addFields(p, &tube.Policy{Rules: t.Rules, Expire: t.Expire}, "retry-jitter")
	if notes := t.Notes(); notes != nil {
		addNotes(p, notes)
	}
}

// addBatchTags adds the tags about batches.
func addBatchTags(p *protocol.Page, t *tube.Tags) {
	if t.Batch != "" {
		p.Quoted("batch", t.Batch)
	}
	if t.BatchTTL != 0 {
		p.Bare("batch-ttl", field.Durations(t.BatchTTL))
	}
	switch {
	case t.After != "" && t.AfterAll:
		p.Quoted("after-all", t.After)
	case t.After != "":
		p.Quoted("after", t.After)
	}
}

type wordNumber struct {
	word   string
	number int64
}

// scheduleNumbers returns the numbers of a schedule; 0 for times that are not known.
func scheduleNumbers(record *tube.Schedule) []wordNumber {
	r := &record.Results
	due := record.Due
	if due == tube.Never {
		due = 0
	}
	return []wordNumber{
		{"next-ms", msOf(record.Next)}, {"due-ms", msOf(due)}, {"last-ms", msOf(record.Last)},
		{"put", int64(r.Put)}, {"overlapped", int64(r.Overlapped)}, {"refused", int64(r.Refused)},
		{"missed", int64(record.Missed)}, {"stopped", int64(record.Stopped)},
		{"last-put-ms", msOf(r.At)}, {"last-nominal-ms", msOf(r.Nominal)}, {"last-id", int64(r.ID)},
	}
}

// lastResult returns the word for what came of the last put.
func lastResult(record *tube.Schedule) string { return cmp.Or(record.Results.LastWord(), "none") }

// msOf converts an instant to milliseconds since the Unix epoch.
func msOf(i tube.Instant) int64 { return int64(i) / int64(time.Millisecond) }

func planListSchedules(s *session, c *protocol.Command, r *request) {
	count, cursor, may := c.MaxJobs, c.Cursor, s.mayList()
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		list, next, err := s.schedules.List(ctx, count, cursor, may)
		return func(s *session) { s.out.OK(schedulesPage(list, next)) }, err
	})
}

// schedulesPage returns the page of list-schedules: the cursor of the next page, and a line for each
// schedule.
func schedulesPage(list []*tube.Schedule, next string) []byte {
	var p protocol.Page
	p.Word("next", next)
	p.List("schedules", len(list))
	for _, record := range list {
		m := new(protocol.FlowMap)
		m.Bare("name", record.Name)
		m.Bare("tube", record.Tube)
		if record.Cron != "" {
			m.Quoted("cron", record.Cron)
		} else {
			m.Bare("every", field.Durations(record.Every))
		}
		if record.Zone != "" {
			m.Bare("tz", record.Zone)
		}
		m.Bool("paused", record.Paused)
		for _, n := range scheduleNumbers(record) {
			m.Int(n.word, n.number)
		}
		m.Bare("last-result", lastResult(record))
		p.Flow(m)
	}
	return p.Bytes()
}

func planPreviewSchedule(s *session, c *protocol.Command, r *request) {
	name, n, may := c.Key, int(c.MaxJobs), s.mayList()
	var expression *tube.Timing
	if c.Tags != nil {
		t := timingOf(c.Tags.Schedule)
		expression = &t
	}
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		var list []time.Time
		var err error
		if expression != nil {
			now := tube.Instant(time.Now().UnixNano())
			list, err = schedule.Preview(expression, now, now, n)
		} else {
			list, err = s.schedules.Preview(ctx, name, n, may)
		}
		return func(s *session) { s.out.OK(timesPage(list)) }, err
	})
}

// timesPage returns a list of times with their zones.
func timesPage(list []time.Time) []byte {
	var p protocol.Page
	for _, t := range list {
		p.Item(t.Format(time.RFC3339))
	}
	return p.Bytes()
}
