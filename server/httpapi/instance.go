package httpapi

import (
	"context"
	"time"
)

// serverInfo is what is known of the instance and of its store.
type serverInfo struct {
	ID         string  `json:"id" doc:"of this run of the instance"`
	Version    string  `json:"version"`
	Uptime     float64 `json:"uptime" doc:"seconds"`
	Draining   bool    `json:"draining"`
	MaxJobSize int     `json:"max_job_size" doc:"bytes"`
	Hostname   string  `json:"hostname"`
	PID        int     `json:"pid"`

	Connections int64 `json:"connections" doc:"of the beanstalk door of this instance"`
	Waiting     int64 `json:"waiting" doc:"reserves that wait on this instance, of all doors"`

	Instances uint64 `json:"instances" doc:"that share the store; 0 if only one can"`
	Tubes     uint64 `json:"tubes"`
	Ready     uint64 `json:"ready"`
	Urgent    uint64 `json:"urgent"`
	Reserved  uint64 `json:"reserved"`
	Delayed   uint64 `json:"delayed"`
	Buried    uint64 `json:"buried"`
	Jobs      uint64 `json:"jobs" doc:"ever put"`
	Timeouts  uint64 `json:"timeouts"`
}

type serverOutput struct{ Body serverInfo }

func (d *Door) server(ctx context.Context, _ *struct{}) (*serverOutput, error) {
	s, err := d.queue.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return &serverOutput{serverInfo{
		ID: s.ID, Version: s.Version, Uptime: s.Process.Uptime.Round(time.Millisecond).Seconds(), Draining: s.Draining, MaxJobSize: s.MaxJobSize,
		Hostname: s.Machine.Hostname, PID: s.Process.PID, Connections: s.Connections, Waiting: s.Waiting, Instances: s.Instances,
		Tubes: s.Tubes, Ready: s.Ready, Urgent: s.Urgent, Reserved: s.Reserved, Delayed: s.Delayed, Buried: s.Buried,
		Jobs: s.Jobs, Timeouts: s.Timeouts,
	}}, nil
}

func (d *Door) drain(context.Context, *struct{}) (*noOutput, error) {
	d.queue.Drain()
	d.log.Info("draining: every put is refused from now on")
	return nil, nil
}

func (d *Door) undrain(context.Context, *struct{}) (*noOutput, error) {
	d.queue.Undrain()
	d.log.Info("not draining: puts are accepted from now on")
	return nil, nil
}
