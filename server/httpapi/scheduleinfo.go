package httpapi

import (
	"bytes"
	"context"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/tube"
)

// This file has the description of schedules in requests and answers.

// TimingOptions say when a schedule puts its jobs.
type TimingOptions struct {
	Cron  *string   `json:"cron,omitempty" minLength:"1" maxLength:"256" doc:"five fields, or six that begin with seconds, or a word such as @daily; instead of every"`
	Every *duration `json:"every,omitempty" doc:"the time from one job to the next, at least a second"`
	Zone  *string   `json:"tz,omitempty" minLength:"1" maxLength:"256" doc:"the time zone of cron, such as Europe/Berlin; UTC by default"`
	From  *int64    `json:"from,omitempty" minimum:"1" maximum:"9223372036853" doc:"the earliest time of a job, in milliseconds since the Unix epoch"`
	Until *int64    `json:"until,omitempty" minimum:"1" maximum:"9223372036853" doc:"the latest time of a job, in milliseconds since the Unix epoch"`

	Spread     *duration `json:"spread,omitempty" doc:"over which time the jobs of different schedules are distributed, so that not all are put at once; at most 24h"`
	Overlap    *string   `json:"overlap,omitempty" enum:"skip,replace,allow,buffer-one" doc:"what happens if the job before is still there; the default is skip"`
	CatchUp    *duration `json:"catch_up,omitempty" doc:"how late a job can be put that was missed; the default is the time to the next one, at most 1h"`
	CatchUpAll *uint32   `json:"catch_up_all,omitempty" minimum:"1" maximum:"1000" doc:"the maximum number of missed jobs that are put; without it only the latest one"`
}

// errNoTimes is the problem of a schedule without times.
var errNoTimes = invalid("cron: there must be one of cron and every")

// set sets the fields of a schedule.
func (o *TimingOptions) set(s *tube.Schedule) error {
	if o.Cron == nil && o.Every == nil {
		return errNoTimes
	}
	if o.Overlap != nil {
		overlap, ok := protocol.ParseOverlap(*o.Overlap)
		if !ok {
			return invalid("overlap: %q is not skip, replace, allow or buffer-one", *o.Overlap)
		}
		s.Overlap = tube.Overlap(overlap)
	}
	s.Timing = tube.Timing{
		Cron: value(o.Cron), Every: time.Duration(value(o.Every)), Zone: value(o.Zone),
		From: instantOf(value(o.From)), Until: instantOf(value(o.Until)), Spread: time.Duration(value(o.Spread)),
	}
	s.CatchUp, s.HasCatchUp, s.CatchUpAll = time.Duration(value(o.CatchUp)), o.CatchUp != nil, value(o.CatchUpAll)
	return nil
}

// timingOptionsOf describes when a schedule puts its jobs.
func timingOptionsOf(s *tube.Schedule) TimingOptions {
	o := TimingOptions{
		Cron: pointer(s.Cron), Every: pointer(duration(s.Every)), Zone: pointer(s.Zone), From: pointer(msOf(s.From)), Until: pointer(msOf(s.Until)),
		Spread: pointer(duration(s.Spread)), Overlap: &protocol.OverlapWords[s.Overlap], CatchUpAll: pointer(s.CatchUpAll),
	}
	if s.HasCatchUp {
		o.CatchUp = (*duration)(&s.CatchUp)
	}
	return o
}

// value returns what p points to, or zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// pointer returns a pointer to a value, nil if that is zero.
func pointer[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// instantOf converts milliseconds since the Unix epoch.
func instantOf(ms int64) tube.Instant { return tube.Instant(ms) * tube.Instant(time.Millisecond) }

// msOf converts an instant to milliseconds since the Unix epoch.
func msOf(i tube.Instant) int64 { return int64(i) / int64(time.Millisecond) }

// scheduleSettings is what is set of a schedule.
type scheduleSettings struct {
	Tube string `json:"tube" minLength:"1" maxLength:"200" doc:"the tube of its jobs"`
	TimingOptions
	Body   jsonValue `json:"body,omitempty" doc:"of its jobs: a string is the body itself; of any other value the JSON text is the body"`
	Base64 *[]byte   `json:"body_base64,omitempty" doc:"the body in base64, instead of body"`
	Terms
}

// schedule returns the schedule that the settings describe.
func (in *scheduleSettings) schedule(name string) (*tube.Schedule, error) {
	switch {
	case !protocol.ValidName([]byte(in.Tube)):
		return nil, invalidTube("tube", in.Tube)
	case in.At != nil:
		return nil, invalid("at: the jobs of a schedule are due when they are put")
	case in.OnDuplicate != nil:
		return nil, invalid("on_duplicate: overlap decides that")
	}
	s := &tube.Schedule{Name: name, Tube: in.Tube}
	if err := in.TimingOptions.set(s); err != nil {
		return nil, err
	}
	var err error
	if s.Body, err = (&newJob{Body: in.Body, Base64: in.Base64}).body(); err != nil {
		return nil, err
	}
	if s.Pri, s.TTR, err = in.priorityAndTTR(); err != nil {
		return nil, err
	}
	s.Tags, err = in.tags()
	return s, err
}

// ScheduleInfo describes a schedule.
type ScheduleInfo struct {
	Name string `json:"name"`
	Tube string `json:"tube"`
	TimingOptions
	Terms

	Paused bool  `json:"paused"`
	Next   int64 `json:"next_ms,omitempty" doc:"the time of the next job, in milliseconds since the Unix epoch; missing if there is none"`
	Due    int64 `json:"due_ms,omitempty" doc:"when that job will be put, in milliseconds since the Unix epoch; missing while the schedule is paused"`
	Last   int64 `json:"last_ms,omitempty" doc:"the last time that has passed, in milliseconds since the Unix epoch"`

	Put        uint64 `json:"put" doc:"jobs put"`
	Overlapped uint64 `json:"overlapped" doc:"jobs not put because another one was there"`
	Refused    uint64 `json:"refused" doc:"jobs not put because the tube had reached its quota, or the batch was sealed"`
	Missed     uint64 `json:"missed" doc:"jobs not put because no server was there in time"`
	Stopped    uint64 `json:"stopped" doc:"jobs not put because the schedule was paused"`

	LastResult  string `json:"last_result,omitempty" enum:"put,overlapped,refused,sealed" doc:"what came of the last put; missing if there was none"`
	LastPut     int64  `json:"last_put_ms,omitempty" doc:"when that was, in milliseconds since the Unix epoch"`
	LastNominal int64  `json:"last_nominal_ms,omitempty" doc:"the time for which that was, in milliseconds since the Unix epoch"`
	LastID      uint64 `json:"last_id,omitempty" doc:"the job that was put, or that has prevented it"`
}

// scheduleWithBody describes a schedule and has the body of its jobs.
type scheduleWithBody struct {
	ScheduleInfo
	Body   *string `json:"body,omitempty" doc:"if it is UTF-8"`
	Base64 string  `json:"body_base64,omitempty" doc:"if it is not" format:"base64"`

	Hidden   bool `json:"hidden,omitempty" doc:"the user lacks the right read, so body and meta are left out"`
	Redacted bool `json:"redacted,omitempty" doc:"values of the body are hidden, since the user lacks the right admin"`
}

func scheduleInfoOf(s *tube.Schedule) ScheduleInfo {
	r := &s.Results
	info := ScheduleInfo{
		Name: s.Name, Tube: s.Tube, TimingOptions: timingOptionsOf(s), Terms: termsOf(s),
		Paused: s.Paused, Next: msOf(s.Next), Last: msOf(s.Last),
		Put: r.Put, Overlapped: r.Overlapped, Refused: r.Refused, Missed: s.Missed, Stopped: s.Stopped,
		LastResult: r.LastWord(), LastPut: msOf(r.At), LastNominal: msOf(r.Nominal), LastID: r.ID,
	}
	if s.Due != tube.Never {
		info.Due = msOf(s.Due)
	}
	return info
}

// scheduleWithBodyOf describes a schedule for the user of a request.
func scheduleWithBodyOf(ctx context.Context, s *tube.Schedule) scheduleWithBody {
	view := access.SightIn(ctx, s.Tube)
	shown := view.Schedule(s)
	info := scheduleWithBody{ScheduleInfo: scheduleInfoOf(shown)}
	if info.Hidden = !view.SeesSchedules(); !info.Hidden {
		info.Redacted = !bytes.Equal(shown.Body, s.Body)
		info.Body, info.Base64 = textOrBase64(shown.Body)
	}
	return info
}

// termsOf describes the options of the jobs of a schedule.
func termsOf(s *tube.Schedule) (t Terms) {
	ttr := duration(time.Duration(s.TTR) * time.Second)
	t.Priority, t.TTR = &s.Pri, &ttr
	tags := s.Tags
	if tags == nil {
		return t
	}
	if tags.HasDelay {
		t.Delay = (*duration)(&tags.Delay)
	}
	t.Key, t.Group, t.Trace = pointer(tags.Key), pointer(tags.Group), pointer(tags.Trace)
	t.Batch, t.BatchTTL = pointer(tags.Batch), pointer(duration(tags.BatchTTL))
	if tags.AfterAll {
		t.AfterAll = pointer(tags.After)
	} else {
		t.After = pointer(tags.After)
	}
	for _, m := range tags.Meta {
		if t.Meta == nil {
			t.Meta = make(map[string]string, len(tags.Meta))
		}
		t.Meta[m.Name] = m.Value
	}
	t.RuleOptions = ruleOptions.of(&tube.Policy{Rules: tags.Rules, Expire: tags.Expire})
	return t
}
