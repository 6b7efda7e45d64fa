package httpapi

import (
	"context"
	"time"

	"redstalk/server/access"
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

func (svc *service) server(ctx context.Context, _ *struct{}) (*serverOutput, error) {
	s, err := svc.queue.Stats(ctx)
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

func (svc *service) drain(context.Context, *struct{}) (*noOutput, error) {
	svc.queue.Drain()
	svc.log.Info("draining: puts are refused from now on")
	return nil, nil
}

func (svc *service) undrain(context.Context, *struct{}) (*noOutput, error) {
	svc.queue.Undrain()
	svc.log.Info("not draining: puts are accepted from now on")
	return nil, nil
}

type callerOutput struct{ Body callerInfo }

// callerInfo is the user of a request and its rights.
type callerInfo struct {
	User       string   `json:"user,omitempty" doc:"missing if there is no users file"`
	Person     string   `json:"person,omitempty" doc:"who has signed on as this user at a trusted proxy"`
	Anonymous  bool     `json:"anonymous,omitempty" doc:"there is a users file, and the request has no credentials"`
	Everywhere []string `json:"everywhere" nullable:"false" doc:"rights on all tubes and on the instance"`
	Somewhere  []string `json:"somewhere" nullable:"false" doc:"rights on at least one tube"`

	Tubes map[string][]string `json:"tubes,omitempty" nullable:"false" doc:"rights on the tubes in the query"`
}

type callerInput struct {
	Tube []string `query:"tube,explode" maxItems:"1000" doc:"tubes whose rights to return"`
}

func (svc *service) caller(ctx context.Context, in *callerInput) (*callerOutput, error) {
	info := callerInfo{Everywhere: rightNames(access.All), Somewhere: rightNames(access.All)}
	on := func(string) access.Right { return access.All }
	if u := access.UserIn(ctx); u != nil {
		info.User, info.Person, info.Anonymous, on = u.Name(), u.Person(), u == svc.access.Anonymous(), u.On
		info.Everywhere, info.Somewhere = rightNames(u.Everywhere()), rightNames(u.Anywhere())
	}
	if len(in.Tube) > 0 {
		info.Tubes = make(map[string][]string, len(in.Tube))
	}
	for _, name := range in.Tube {
		info.Tubes[name] = rightNames(on(name))
	}
	return &callerOutput{info}, nil
}

// rightNames returns the names of rights.
func rightNames(all access.Right) []string {
	return append([]string{}, all.Words()...) // not nil
}
