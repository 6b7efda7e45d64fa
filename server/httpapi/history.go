package httpapi

import (
	"context"

	"redstalk/protocol"
	"redstalk/tube"
)

// This file has the operations that show what happened in hours and days.

func (svc *service) historyOperations() []*row {
	const what = "Counts of hours for 7 days, of days for 90, in UTC, from the earliest on. Hours and days in which nothing was counted are missing."
	return []*row{
		typed(svc, Operation{"GET", "/v1/history", rightOf(protocol.History), NoTube}, doc("history", "What happened in all tubes together", 200, what), svc.history),
		typed(svc, Operation{"GET", "/v1/tubes/{tube}/history", rightOf(protocol.HistoryTube), InPath}, doc("tubeHistory", "What happened in a tube", 200,
			what+" The 1,000 busiest tubes of an hour or a day are counted by name."), svc.tubeHistory),
	}
}

// HistoryQuery says which hours or days are wanted.
type HistoryQuery struct {
	Period string `query:"period" enum:"hours,days" default:"hours"`
	Count  uint64 `query:"count" minimum:"1" maximum:"168" default:"168" doc:"how many hours or days, the present one included"`
}

type tubeHistoryInput struct {
	TubePath
	HistoryQuery
}

type historyOutput struct{ Body historyInfo }

// historyInfo is what happened in some hours or days.
type historyInfo struct {
	Now     int64         `json:"now" doc:"the time of the store, milliseconds since 1970"`
	Periods []historyTime `json:"periods" nullable:"false"`
}

// historyTime is what happened in an hour or a day.
type historyTime struct {
	Begin   int64  `json:"begin" doc:"when it began, milliseconds since 1970"`
	Put     uint64 `json:"put" doc:"jobs added"`
	Started uint64 `json:"started" doc:"deliveries"`
	Done    uint64 `json:"done" doc:"jobs deleted by their holders"`
	Failed  uint64 `json:"failed" doc:"deliveries that ended with a release, a bury, or the TTR"`
	Parked  uint64 `json:"parked" doc:"jobs that were parked or went to a dead-letter tube"`
	Expired uint64 `json:"expired" doc:"jobs whose time was over"`
	First   uint64 `json:"first" doc:"first deliveries"`
	WaitMS  uint64 `json:"wait_ms" doc:"how long the jobs of first waited, in sum"`
	RunMS   uint64 `json:"run_ms" doc:"how long the jobs of done ran, in sum"`
}

func (svc *service) history(ctx context.Context, in *HistoryQuery) (*historyOutput, error) {
	return svc.tallies(ctx, "", in)
}

func (svc *service) tubeHistory(ctx context.Context, in *tubeHistoryInput) (*historyOutput, error) {
	return svc.tallies(ctx, in.Tube, &in.HistoryQuery)
}

// tallies returns the history of a tube, with "" of all tubes together.
func (svc *service) tallies(ctx context.Context, name string, in *HistoryQuery) (*historyOutput, error) {
	period := tube.Hours
	if in.Period == tube.Days.String() {
		period = tube.Days
	}
	all, now, err := svc.queue.Tallies(ctx, name, period, int(in.Count))
	if err != nil {
		return nil, err
	}
	info := historyInfo{Now: msOf(now), Periods: []historyTime{}}
	for i := range all {
		t := &all[i].Tally
		info.Periods = append(info.Periods, historyTime{
			Begin: msOf(all[i].Begin), Put: t[tube.TallyPuts], Started: t[tube.TallyStarted], Done: t[tube.TallyDone], Failed: t[tube.TallyFailed],
			Parked: t[tube.TallyParked], Expired: t[tube.TallyExpired], First: t[tube.TallyFirst], WaitMS: t[tube.TallyWait], RunMS: t[tube.TallyRun],
		})
	}
	return &historyOutput{info}, nil
}
