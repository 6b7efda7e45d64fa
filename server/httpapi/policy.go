package httpapi

import (
	"context"
	"errors"
	"reflect"
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/tube"
	"redstalk/tube/field"
)

// policyInfo is the policy of a tube, or of all tubes of a pattern: the defaults for its jobs, its quotas and its push target.
type policyInfo struct {
	RuleOptions
	QuotaJobs  *uint64 `json:"quota_jobs,omitempty" doc:"the maximum number of jobs in the tube"`
	QuotaBytes *uint64 `json:"quota_bytes,omitempty" doc:"the maximum total size of their bodies, in bytes"`

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
	return &policyOutput{policyInfoOf(p)}, nil
}

func policyInfoOf(p *tube.Policy) policyInfo {
	info := policyInfo{RuleOptions: ruleOptionsOf(&p.Rules, p.Expire)}
	if p.OnDuplicate != tube.NotSaid {
		info.OnDuplicate = (*duplicate)(&p.OnDuplicate)
	}
	if p.HasQuotaJobs {
		info.QuotaJobs = &p.QuotaJobs
	}
	if p.HasQuotaBytes {
		info.QuotaBytes = &p.QuotaBytes
	}
	group := limitOptionsOf(p.GroupLimits)
	info.LimitOptions, info.GroupConcurrency, info.GroupRate = limitOptionsOf(p.Limits), group.Concurrency, group.Rate
	if p.GroupOrder != tube.NoGroupOrder {
		info.GroupOrder = &field.GroupOrderWords[p.GroupOrder]
	}
	info.showPush(&p.Push)
	return info
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
	var err error
	if p.Rules, p.OnDuplicate, err = info.rules(); err != nil {
		return nil, err
	}
	p.Expire = info.lifetime()
	if p.Dead != "" {
		if err := checkRedirect(ctx, in.Tube, p.Dead); err != nil {
			return nil, err
		}
	}
	if info.QuotaJobs != nil {
		p.QuotaJobs, p.HasQuotaJobs = *info.QuotaJobs, true
	}
	if info.QuotaBytes != nil {
		p.QuotaBytes, p.HasQuotaBytes = *info.QuotaBytes, true
	}
	if err := info.setLimits(p); err != nil {
		return nil, err
	}
	if p.Push, err = info.push(); err != nil {
		return nil, err
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

// setLimits sets the limits of a policy.
func (p *policyInfo) setLimits(to *tube.Policy) (err error) {
	if to.Limits, err = p.limits(""); err != nil {
		return err
	}
	group := LimitOptions{p.GroupConcurrency, p.GroupRate}
	if to.GroupLimits, err = group.limits("group_"); err != nil || p.GroupOrder == nil {
		return err
	}
	if !field.Named(field.OfPolicy, "group-order").Parse(to, []byte(*p.GroupOrder)) {
		return invalid("group_order: %q is not fair or strict", *p.GroupOrder)
	}
	return nil
}

// showPush sets the push fields from the push target of a policy.
func (p *policyInfo) showPush(push *tube.Push) {
	if push.URL != "" {
		p.Push = &push.URL
	}
	if push.Concurrency > 0 {
		p.PushConcurrency = &push.Concurrency
	}
	if push.Timeout > 0 {
		p.PushTimeout = (*duration)(&push.Timeout)
	}
	if push.Rate > 0 {
		rate := field.RateText(push.Rate, push.RateEvery)
		p.PushRate = &rate
	}
}

// push returns the push target that the push fields describe.
func (p *policyInfo) push() (push tube.Push, err error) {
	if p.Push == nil {
		if p.PushConcurrency != nil || p.PushTimeout != nil || p.PushRate != nil {
			return push, invalid("push: it is missing, and the other push fields need it")
		}
		return push, nil
	}
	if push.URL = *p.Push; !field.ValidPushURL([]byte(push.URL)) {
		return push, invalid("push: it must be an http or https URL without user and fragment, of at most %d bytes", field.MaxPushURL)
	}
	if p.PushConcurrency != nil {
		if push.Concurrency = *p.PushConcurrency; push.Concurrency < 1 || push.Concurrency > field.MaxPushConcurrency {
			return push, invalid("push_concurrency: it must be from 1 to %d", field.MaxPushConcurrency)
		}
	}
	if p.PushTimeout != nil {
		if push.Timeout = time.Duration(*p.PushTimeout); push.Timeout <= 0 || push.Timeout > field.MaxPushTimeout {
			return push, invalid("push_timeout: it must be from 1ms to %v", field.MaxPushTimeout)
		}
	}
	if p.PushRate != nil {
		var ok bool
		if push.Rate, push.RateEvery, ok = field.ParseRate([]byte(*p.PushRate)); !ok {
			return push, invalid("push_rate: it must be a rate such as 100, 100/s, 100/m or 100/h, at most %d", field.MaxLimit)
		}
	}
	return push, nil
}

func (svc *service) deletePolicy(ctx context.Context, in *TubePath) (*noOutput, error) {
	return nil, svc.queue.SetPolicy(ctx, in.Tube, nil)
}
