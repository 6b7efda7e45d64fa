package web

import (
	"context"

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
}

type policyOutput struct{ Body policyInfo }

func (d *Door) policy(ctx context.Context, in *TubePath) (*policyOutput, error) {
	p, err := d.queue.Policy(ctx, in.Tube)
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
	if err := checkOther(ctx, Put, p.Dead); err != nil {
		return nil, err
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
	if info.empty() {
		p = nil
	}
	return nil, d.queue.SetPolicy(ctx, in.Tube, p)
}

// empty tells whether the policy says nothing.
func (p *policyInfo) empty() bool {
	return p.Retry == nil && p.Max == nil && p.Dead == nil && p.KeyTTL == nil && p.OnDuplicate == nil && p.QuotaJobs == nil && p.QuotaBytes == nil
}

func (d *Door) deletePolicy(ctx context.Context, in *TubePath) (*noOutput, error) {
	return nil, d.queue.SetPolicy(ctx, in.Tube, nil)
}
