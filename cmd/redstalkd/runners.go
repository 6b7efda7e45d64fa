package main

import (
	"context"
	"sync"

	"redstalk/server/jobbatch"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/server/tally"
)

// runners do what is due in a store without a client asking for it: they put the jobs of schedules, let
// after-jobs of batches run, and record what happens.
type runners struct {
	schedules *schedule.Service
	batches   *jobbatch.Service
	history   *tally.Recorder

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// newRunners returns the runners of a queue's store. They do nothing before start.
func (p *program) newRunners(q *queue.Queue) *runners {
	r := &runners{schedules: schedule.New(q, p.log), batches: jobbatch.New(q, p.log), history: tally.New(q, p.log), cancel: func() {}}
	p.observer.Records(&r.schedules.Counts, &r.batches.Counts)
	return r
}

func (r *runners) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.ended.Go(func() { r.schedules.Run(ctx) })
	r.ended.Go(func() { r.batches.Run(ctx) })
	r.ended.Go(func() { r.history.Run(ctx) })
}

// stop ends what start has begun, and waits until it has ended.
func (r *runners) stop() {
	r.cancel()
	r.ended.Wait()
}
