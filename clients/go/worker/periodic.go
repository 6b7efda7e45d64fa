package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"redstalk/clients/go/client"
)

// Periodic is a job that the servers put at certain times, whether a worker runs or not. Each worker sets its schedules when it starts, which changes
// nothing if they are the same; the last one wins. A schedule that the server refuses, as an invalid time or one that the user may not set, ends [Worker.Run]
// with an error; other errors are logged, and it is tried again while jobs are handled.
//
// A schedule that is no longer in the program stays, since other programs may have set it: delete it by package inspect, by the command
// redstalk or in the console.
type Periodic struct {
	When client.Schedule // without its Tube, which is that of Job
	Job  client.NewJob   // mostly a [client.TypedJob]; [client.At] and [client.OnDuplicate] cannot be among its options
}

// setSchedules sets the schedules until the server has accepted all, or refused one.
func (r *run) setSchedules(ctx context.Context) {
	left := slices.Sorted(maps.Keys(r.config.Schedules))
	for pause := firstPause; len(left) > 0 && ctx.Err() == nil; {
		var failures error
		left = slices.DeleteFunc(left, func(name string) bool {
			err := r.setSchedule(ctx, name)
			if err != nil {
				failures = errors.Join(failures, fmt.Errorf("schedule %s: %w", name, err))
			}
			return err == nil
		})
		if failures == nil {
			return
		}
		if _, final := verdict(failures); final && !errors.Is(failures, client.ErrUnauthorized) {
			r.broken <- failures
			return
		}
		pause = r.pause(ctx, pause, "a schedule cannot be set", failures)
	}
}

func (r *run) setSchedule(ctx context.Context, name string) error {
	p := r.config.Schedules[name]
	p.When.Tube = p.Job.Tube
	return r.client.SetSchedule(ctx, name, p.When, p.Job.Body, p.Job.Options...)
}
