package httpapi

import (
	"context"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/tube"
)

// This file has the operations about schedules.

func (svc *service) scheduleOperations() []*row {
	const path, one = "/v1/schedules", "/v1/schedules/{schedule}"
	set := doc("setSchedule", "Create a schedule, or replace it", 204, "If its times stay the same, it keeps its place and its pause.")
	set.MaxBodyBytes = svc.jsonLimit()
	setRow := typed(svc, Operation{"PUT", one, rightOf(protocol.SetSchedule), OfSchedule}, set, svc.setSchedule)
	run := typed(svc, Operation{"POST", one + "/run", rightOf(protocol.RunSchedule), OfSchedule}, doc("runSchedule", "Put a job of a schedule now", 201,
		"The times of the schedule do not change by that."), svc.runSchedule)
	setRow.extraStatuses, run.extraStatuses = []int{413, 507}, []int{409, 507}
	return []*row{
		typed(svc, Operation{"GET", path, rightOf(protocol.ListSchedules), Listed}, doc("schedules", "List schedules", 200,
			"Sorted by name, without the bodies of their jobs."), svc.listSchedules),
		typed(svc, Operation{"GET", one, rightOf(protocol.GetSchedule), OfSchedule}, doc("schedule", "Get a schedule", 200, ""), svc.schedule),
		setRow, run,
		typed(svc, Operation{"DELETE", one, rightOf(protocol.DeleteSchedule), OfSchedule}, doc("deleteSchedule", "Delete a schedule", 204, "Its jobs stay."), svc.deleteSchedule),
		typed(svc, Operation{"POST", one + "/pause", rightOf(protocol.PauseSchedule), OfSchedule}, doc("pauseSchedule", "Pause a schedule", 204, ""), svc.pauseSchedule),
		typed(svc, Operation{"POST", one + "/resume", rightOf(protocol.ResumeSchedule), OfSchedule}, doc("resumeSchedule", "End the pause of a schedule", 204,
			"Times that have passed meanwhile are skipped."), svc.resumeSchedule),
		typed(svc, Operation{"GET", one + "/preview", rightOf(protocol.PreviewSchedule), OfSchedule}, doc("previewSchedule", "The next times of a schedule", 200, ""), svc.previewSchedule),
		typed(svc, Operation{"GET", "/v1/preview", rightOf(protocol.PreviewSchedule), Listed}, doc("preview", "The next times of a schedule that is not set", 200, ""), svc.preview),
	}
}

// SchedulePath is a schedule in a path.
type SchedulePath struct {
	Schedule string `path:"schedule" minLength:"1" maxLength:"100" doc:"write / as %2F"`
}

// checkName returns the problem for a name that is not the name of a schedule.
func (in *SchedulePath) checkName() error {
	if !protocol.ValidSchedule([]byte(in.Schedule)) {
		return invalid("schedule: %q is not the name of a schedule: that of a tube, of at most %d bytes", in.Schedule, protocol.MaxSchedule)
	}
	return nil
}

// mayReadSchedules says which schedules the user of a request may see.
func mayReadSchedules(ctx context.Context) schedule.May {
	return maySchedules(ctx, func(has Right) bool { return has&(access.List|access.Admin) != 0 })
}

// mayChangeSchedules says which schedules the user of a request may change or run.
func mayChangeSchedules(ctx context.Context) schedule.May {
	return maySchedules(ctx, func(has Right) bool { return has&access.Admin != 0 && has&access.Put != 0 })
}

// maySchedules says on which tubes the rights of the user of a request are enough. Without any right on its
// tube, a schedule is not found.
func maySchedules(ctx context.Context, enough func(has Right) bool) schedule.May {
	u := access.UserIn(ctx)
	if u == nil {
		return nil
	}
	return func(tubeName string) error {
		switch has := u.On(tubeName); {
		case has == access.Nothing:
			return queue.ErrNotFound
		case !enough(has):
			return forbidden()
		}
		return nil
	}
}

// recordsInput is the query of a page of schedules or batches.
type recordsInput struct {
	Cursor string `query:"cursor" maxLength:"100" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"a page can have fewer although there are more"`
}

type schedulesOutput struct{ Body schedulesPage }

// schedulesPage is a page of schedules.
type schedulesPage struct {
	Schedules []ScheduleInfo `json:"schedules" nullable:"false"`
	Next      string         `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (svc *service) listSchedules(ctx context.Context, in *recordsInput) (*schedulesOutput, error) {
	list, next, err := svc.schedules.List(ctx, uint32(in.Limit), in.Cursor, mayReadSchedules(ctx))
	if err != nil {
		return nil, err
	}
	page := schedulesPage{Schedules: make([]ScheduleInfo, len(list)), Next: next}
	for i, s := range list {
		page.Schedules[i] = scheduleInfoOf(access.SightIn(ctx, s.Tube).Schedule(s))
	}
	return &schedulesOutput{page}, nil
}

type scheduleOutput struct{ Body scheduleWithBody }

func (svc *service) schedule(ctx context.Context, in *SchedulePath) (*scheduleOutput, error) {
	if err := in.checkName(); err != nil {
		return nil, err
	}
	s, _, err := svc.schedules.Get(ctx, in.Schedule, mayReadSchedules(ctx))
	if err != nil {
		return nil, err
	}
	return &scheduleOutput{scheduleWithBodyOf(ctx, s)}, nil
}

type setScheduleInput struct {
	SchedulePath
	Body scheduleSettings
}

func (svc *service) setSchedule(ctx context.Context, in *setScheduleInput) (*noOutput, error) {
	if err := in.checkName(); err != nil {
		return nil, err
	}
	if note := actIn(ctx); note != nil {
		shown := in.Body
		shown.Body, shown.Base64 = nil, nil // a job's body is in no log
		note.values = shown
	}
	set, err := in.Body.schedule(in.Schedule)
	if err != nil {
		return nil, err
	}
	for _, need := range []struct {
		right Right
		tube  string
	}{{access.Admin, set.Tube}, {access.Put, set.Tube}, {access.Put, set.Tags.Dead}} {
		if err := checkOtherTube(ctx, need.right, need.tube); err != nil {
			return nil, err
		}
	}
	if u := access.UserIn(ctx); u != nil {
		if err := checkBatches(u, set.Tags); err != nil {
			return nil, err
		}
	}
	return nil, svc.schedules.Set(ctx, set, mayChangeSchedules(ctx))
}

// change calls a method of the service for a schedule.
func (in *SchedulePath) change(ctx context.Context, change func(ctx context.Context, name string, may schedule.May) error) (*noOutput, error) {
	if err := in.checkName(); err != nil {
		return nil, err
	}
	return nil, change(ctx, in.Schedule, mayChangeSchedules(ctx))
}

func (svc *service) deleteSchedule(ctx context.Context, in *SchedulePath) (*noOutput, error) {
	return in.change(ctx, svc.schedules.Delete)
}

func (svc *service) pauseSchedule(ctx context.Context, in *SchedulePath) (*noOutput, error) {
	return in.change(ctx, svc.schedules.Pause)
}

func (svc *service) resumeSchedule(ctx context.Context, in *SchedulePath) (*noOutput, error) {
	return in.change(ctx, svc.schedules.Resume)
}

func (svc *service) runSchedule(ctx context.Context, in *SchedulePath) (*putOutput, error) {
	if err := in.checkName(); err != nil {
		return nil, err
	}
	a, err := svc.schedules.Put(context.WithoutCancel(ctx), in.Schedule, mayChangeSchedules(ctx))
	if err == nil {
		err = putFailure(&a)
	}
	if err != nil {
		return nil, err
	}
	return &putOutput{putAnswer{ID: a.ID, State: stateWord(a.State), Duplicate: a.Outcome != tube.PutNew}}, nil
}

type previewOutput struct{ Body previewInfo }

// previewInfo has the next times of a schedule.
type previewInfo struct {
	Times []string `json:"times" nullable:"false" format:"date-time" doc:"in the time zone of the schedule; fewer than requested if there are no more"`
}

func previewInfoOf(times []time.Time, err error) (*previewOutput, error) {
	info := previewInfo{Times: make([]string, len(times))}
	for i, t := range times {
		info.Times[i] = t.Format(time.RFC3339Nano)
	}
	return &previewOutput{info}, err
}

// PreviewCount is the number of times in a query.
type PreviewCount struct {
	Count int `query:"count" minimum:"1" maximum:"1000" default:"10" doc:"how many times"`
}

type previewScheduleInput struct {
	SchedulePath
	PreviewCount
}

func (svc *service) previewSchedule(ctx context.Context, in *previewScheduleInput) (*previewOutput, error) {
	if err := in.checkName(); err != nil {
		return nil, err
	}
	return previewInfoOf(svc.schedules.Preview(ctx, in.Schedule, in.Count, mayReadSchedules(ctx)))
}

type previewInput struct {
	Cron  string `query:"cron" maxLength:"256" doc:"a cron expression; instead of every"`
	Every string `query:"every" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"the time from one job to the next; the first one is after that"`
	Zone  string `query:"tz" maxLength:"256" doc:"the time zone of the expression; UTC by default" example:"Europe/Berlin"`
	From  int64  `query:"from" minimum:"0" maximum:"9223372036853" doc:"the earliest time, in milliseconds since the Unix epoch"`
	Until int64  `query:"until" minimum:"0" maximum:"9223372036853" doc:"the latest time, in milliseconds since the Unix epoch"`
	PreviewCount
}

func (svc *service) preview(_ context.Context, in *previewInput) (*previewOutput, error) {
	timing := tube.Timing{Cron: in.Cron, Zone: in.Zone, From: instantOf(in.From), Until: instantOf(in.Until)}
	if in.Every != "" {
		every, err := parseDuration(in.Every)
		if err != nil {
			return nil, invalid("every: %v", err)
		}
		timing.Every = time.Duration(every)
	}
	if in.Cron == "" && in.Every == "" {
		return nil, errNoTimes
	}
	now := tube.Instant(time.Now().UnixNano())
	return previewInfoOf(schedule.Preview(&timing, now, now, in.Count))
}
