package httpapi

import (
	"context"
	"time"
)

// serverInfo describes the instance and the totals of its store.
type serverInfo struct {
	ID         string  `json:"id" doc:"identifies this run of the instance"`
	Version    string  `json:"version"`
	Uptime     float64 `json:"uptime" doc:"seconds"`
	Draining   bool    `json:"draining"`
	MaxJobSize int     `json:"max_job_size" doc:"bytes"`
	Hostname   string  `json:"hostname"`
	PID        int     `json:"pid"`

	Connections int64 `json:"connections" doc:"open connections to the beanstalk port of this instance"`
	Waiting     int64 `json:"waiting" doc:"reserves that wait on this instance, over any protocol"`

	Instances uint64 `json:"instances" doc:"instances that share the store; 0 if the engine cannot be shared"`
	Tubes     uint64 `json:"tubes"`
	Ready     uint64 `json:"ready"`
	Urgent    uint64 `json:"urgent"`
	Reserved  uint64 `json:"reserved"`
	Delayed   uint64 `json:"delayed"`
	Buried    uint64 `json:"buried"`
	Jobs      uint64 `json:"jobs" doc:"jobs put so far"`
	Timeouts  uint64 `json:"timeouts"`
}

type serverOutput struct{ Body serverInfo }

func (api *API) server(ctx context.Context, _ *struct{}) (*serverOutput, error) {
	s, err := api.queue.Stats(ctx)
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

func (api *API) drain(context.Context, *struct{}) (*noOutput, error) {
	api.queue.Drain()
	api.log.Info("draining: puts are refused from now on")
	return nil, nil
}

func (api *API) undrain(context.Context, *struct{}) (*noOutput, error) {
	api.queue.Undrain()
	api.log.Info("not draining: puts are accepted from now on")
	return nil, nil
}
