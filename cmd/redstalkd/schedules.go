package main

import (
	"context"
	"sync"

	"redstalk/server/queue"
	"redstalk/server/schedule"
)

// runningSchedules puts the jobs of the schedules of a store.
type runningSchedules struct {
	*schedule.Service
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// newSchedules returns the schedules of a queue's store. Nothing is put before start.
func (p *program) newSchedules(q *queue.Queue) *runningSchedules {
	s := &runningSchedules{Service: schedule.New(q, p.log), cancel: func() {}}
	p.observer.Scheduling(&s.Counts)
	return s
}

// start begins to put jobs.
func (s *runningSchedules) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.ended.Go(func() { s.Run(ctx) })
}

// stop ends that, and waits until it has ended.
func (s *runningSchedules) stop() {
	s.cancel()
	s.ended.Wait()
}
