package httpapi

import (
	"context"
	"errors"
	"reflect"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/tube"
)

// policyInfo is the policy of a tube, or of all tubes of a pattern: the defaults for its jobs, its quotas and its push target.
type policyInfo struct {
	RuleOptions
	QuotaJobs  *uint64 `json:"quota_jobs,omitempty" doc:"the maximum number of jobs in the tube"`
	QuotaBytes *uint64 `json:"quota_bytes,omitempty" doc:"the maximum total size of their bodies, in bytes"`
	KeepBytes  *uint64 `json:"keep_bytes,omitempty" doc:"the maximum total size of the records of ended jobs, in bytes; the default is 64 MiB"`

	GroupConcurrency *uint32 `json:"group_concurrency,omitempty" minimum:"1" maximum:"1000000" doc:"the maximum number of reserved jobs of each group"`
	GroupRate        *string `json:"group_rate,omitempty" maxLength:"64" doc:"the maximum number of reserves of each group in any period of each length, such as 100/m,1000/h"`
	GroupOrder       *string `json:"group_order,omitempty" enum:"fair,strict" doc:"strict: one job of a group at a time, in order"`
	LimitOptions

	Push            *string   `json:"push,omitempty" minLength:"8" maxLength:"512" doc:"the http or https URL to which the jobs are sent (webhook)"`
	PushConcurrency *uint32   `json:"push_concurrency,omitempty" minimum:"1" maximum:"10000" doc:"the maximum number of concurrent calls of each instance"`
	PushTimeout     *duration `json:"push_timeout,omitempty" doc:"the timeout of a call, at most an hour"`
	PushRate        *string   `json:"push_rate,omitempty" doc:"the maximum rate of calls, such as 100/s, 100/m or 100/h"`
}

type policyInput struct {
	TubePath
	Empty bool `query:"empty" doc:"answer {} instead of 404 if the tube has no policy"`
}

type policyOutput struct{ Body policyInfo }

func (svc *service) policy(ctx context.Context, in *policyInput) (*policyOutput, error) {
	p, err := svc.queue.Policy(ctx, in.Tube)
	if in.Empty && errors.Is(err, queue.ErrNotFound) {
		return new(policyOutput), nil
	}
	if err != nil {
		return nil, err
	}
	return &policyOutput{policyOptions.of(p)}, nil
}

// audited returns the policy without what may be secret in the URL of a target.
func (info *policyInfo) audited() policyInfo {
	shown := *info
	if info.Push != nil {
		push := protocol.HideURL(*info.Push)
		shown.Push = &push
	}
	return shown
}

type setPolicyInput struct {
	TubePath
	Body policyInfo
}

func (svc *service) setPolicy(ctx context.Context, in *setPolicyInput) (*noOutput, error) {
	info := &in.Body
	if note := actIn(ctx); note != nil {
		note.values = info.audited()
	}
	p := new(tube.Policy)
	if err := policyOptions.read(info, p); err != nil {
		return nil, err
	}
	if p.Push.URL == "" && p.Push != (tube.Push{}) {
		return nil, invalid("push: it is missing, and the other push fields need it")
	}
	if p.Dead != "" {
		if err := checkRedirect(ctx, in.Tube, p.Dead); err != nil {
			return nil, err
		}
	}
	if p.Push.URL != "" {
		if tube.IsPattern(in.Tube) {
			return nil, invalid("push: it must be in the policy of a tube, not of a pattern")
		}
		if err := checkRedirect(ctx, in.Tube, ""); err != nil {
			return nil, err
		}
	}
	if reflect.ValueOf(info).Elem().IsZero() {
		p = nil
	}
	return nil, svc.queue.SetPolicy(ctx, in.Tube, p)
}

func (svc *service) deletePolicy(ctx context.Context, in *TubePath) (*noOutput, error) {
	return nil, svc.queue.SetPolicy(ctx, in.Tube, nil)
}
