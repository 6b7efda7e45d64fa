package httpapi

import (
	"context"
	"errors"
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/tube"
)

// policyInfo is the policy of a tube: what holds for jobs that do not say otherwise.
type policyInfo struct {
	Retry       []duration `json:"retry,omitempty" nullable:"false" maxItems:"32" doc:"how long to wait after the first, second … failure"`
	Max         *uint32    `json:"max,omitempty" minimum:"1" maximum:"1000000" doc:"how often a job is delivered at most"`
	Dead        *string    `json:"dead,omitempty" minLength:"1" maxLength:"200" doc:"the tube where exhausted jobs go"`
	KeyTTL      *duration  `json:"key_ttl,omitempty" doc:"how long a key stays taken when its job is gone"`
	OnDuplicate *duplicate `json:"on_duplicate,omitempty" doc:"what happens if a job has the key of a new one"`
	QuotaJobs   *uint64    `json:"quota_jobs,omitempty" doc:"how many jobs the tube may have"`
	QuotaBytes  *uint64    `json:"quota_bytes,omitempty" doc:"how many bytes their bodies may have together"`

	Push            *string   `json:"push,omitempty" minLength:"8" maxLength:"512" doc:"the URL to which the jobs are sent: http or https"`
	PushConcurrency *uint32   `json:"push_concurrency,omitempty" minimum:"1" maximum:"10000" doc:"how many calls at a time each instance makes"`
	PushTimeout     *duration `json:"push_timeout,omitempty" doc:"how long a call may take, an hour at most"`
	PushRate        *string   `json:"push_rate,omitempty" doc:"how many calls there may be, such as 100/s, 100/m or 100/h"`
}

type policyOutput struct{ Body policyInfo }

type policyInput struct {
	TubePath
	Empty bool `query:"empty" doc:"a tube without a policy is answered {} instead of 404"`
}

func (d *Door) policy(ctx context.Context, in *policyInput) (*policyOutput, error) {
	p, err := d.queue.Policy(ctx, in.Tube)
	if in.Empty && errors.Is(err, queue.ErrNotFound) {
		return new(policyOutput), nil
	}
	if err != nil {
		return nil, err
	}
	return &policyOutput{policyInfoOf(p)}, nil
}

func policyInfoOf(p *tube.Policy) policyInfo {
	var info policyInfo
	for _, wait := range p.Retry {
		info.Retry = append(info.Retry, duration(wait))
	}
	if p.Max > 0 {
		info.Max = &p.Max
	}
	if p.Dead != "" {
		info.Dead = &p.Dead
	}
	if p.HasKeyTTL {
		info.KeyTTL = (*duration)(&p.KeyTTL)
	}
	if p.OnDuplicate != tube.NotSaid {
		info.OnDuplicate = (*duplicate)(&p.OnDuplicate)
	}
	if p.HasQuotaJobs {
		info.QuotaJobs = &p.QuotaJobs
	}
	if p.HasQuotaBytes {
		info.QuotaBytes = &p.QuotaBytes
	}
	info.showPush(&p.Push)
	return info
}

type setPolicyInput struct {
	TubePath
	Body policyInfo
}

func (d *Door) setPolicy(ctx context.Context, in *setPolicyInput) (*noOutput, error) {
	info := &in.Body
	p := new(tube.Policy)
	var err error
	if p.Rules, err = rulesOf(info.Retry, info.Max, info.Dead, info.KeyTTL); err != nil {
		return nil, err
	}
	if p.Dead != "" {
		if err := checkRedirect(ctx, in.Tube, p.Dead); err != nil {
			return nil, err
		}
	}
	if info.OnDuplicate != nil {
		p.OnDuplicate = tube.OnDuplicate(*info.OnDuplicate)
	}
	if info.QuotaJobs != nil {
		p.QuotaJobs, p.HasQuotaJobs = *info.QuotaJobs, true
	}
	if info.QuotaBytes != nil {
		p.QuotaBytes, p.HasQuotaBytes = *info.QuotaBytes, true
	}
	if p.Push, err = info.push(); err != nil {
		return nil, err
	}
	if p.Push.URL != "" {
		if err := checkRedirect(ctx, in.Tube, ""); err != nil {
			return nil, err
		}
	}
	if info.empty() {
		p = nil
	}
	return nil, d.queue.SetPolicy(ctx, in.Tube, p)
}

// empty tells whether the policy says nothing.
func (p *policyInfo) empty() bool {
	return p.Retry == nil && p.Max == nil && p.Dead == nil && p.KeyTTL == nil && p.OnDuplicate == nil && p.QuotaJobs == nil && p.QuotaBytes == nil &&
		p.Push == nil
}

// showPush shows where jobs are sent, if they are.
func (p *policyInfo) showPush(its *tube.Push) {
	if its.URL != "" {
		p.Push = &its.URL
	}
	if its.Concurrency > 0 {
		p.PushConcurrency = &its.Concurrency
	}
	if its.Timeout > 0 {
		p.PushTimeout = (*duration)(&its.Timeout)
	}
	if its.Rate > 0 {
		rate := protocol.PushRate{Calls: its.Rate, Every: its.RateEvery}.String()
		p.PushRate = &rate
	}
}

// push returns where jobs are to be sent.
func (p *policyInfo) push() (its tube.Push, err error) {
	if p.Push == nil {
		if p.PushConcurrency != nil || p.PushTimeout != nil || p.PushRate != nil {
			return its, invalid("push: it is missing, and without it the others mean nothing")
		}
		return its, nil
	}
	if its.URL = *p.Push; !protocol.ValidPushURL([]byte(its.URL)) {
		return its, invalid("push: it is no URL of http or https, or it has a user or a fragment, or more than %d bytes", protocol.MaxPushURL)
	}
	if p.PushConcurrency != nil {
		if its.Concurrency = *p.PushConcurrency; its.Concurrency < 1 || its.Concurrency > protocol.MaxPushConcurrency {
			return its, invalid("push_concurrency: it has to be from 1 to %d", protocol.MaxPushConcurrency)
		}
	}
	if p.PushTimeout != nil {
		if its.Timeout = time.Duration(*p.PushTimeout); its.Timeout <= 0 || its.Timeout > protocol.MaxPushTimeout {
			return its, invalid("push_timeout: it has to be from 1ms to %v", protocol.MaxPushTimeout)
		}
	}
	if p.PushRate != nil {
		rate, ok := protocol.ParsePushRate([]byte(*p.PushRate))
		if !ok {
			return its, invalid("push_rate: it has to be such as 100, 100/s, 100/m or 100/h, up to %d", protocol.MaxPushRate)
		}
		its.Rate, its.RateEvery = rate.Calls, rate.Every
	}
	return its, nil
}

func (d *Door) deletePolicy(ctx context.Context, in *TubePath) (*noOutput, error) {
	return nil, d.queue.SetPolicy(ctx, in.Tube, nil)
}
