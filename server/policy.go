package server

import (
	"cmp"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file translates tags between the protocol and the rules, and has the commands about policies.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.SetPolicy:    {planSetPolicy, answerSetPolicy},
		protocol.GetPolicy:    {planGetPolicy, answerGetPolicy},
		protocol.ListPolicies: {planListPolicies, func(s *session, _ *request, a *storage.Answer) { s.list(s.administered(a.Names)) }},
	})
}

// rulesOf returns the rules that tags set: about failures and keys.
func rulesOf(t *protocol.Tags) tube.Rules {
	r := tube.Rules{Retry: t.Retry, Doubled: t.Doubled, Max: t.Max, Dead: t.Dead, KeyTTL: t.KeyTTL, HasKeyTTL: t.HasKeyTTL, OnExpire: tube.OnExpire(t.OnExpire)}
	if t.HasJitter {
		r.Jitter = tube.JitterOf(t.Jitter)
	}
	return r
}

// lifetimeOf returns how long tags let a job live.
func lifetimeOf(t *protocol.Tags) tube.Lifetime {
	if !t.HasExpire {
		return tube.NoLifetime
	}
	return tube.LifetimeOf(t.Expire)
}

// setTags translates the tags of a put for package tube.
func setTags(to *tube.Tags, t *protocol.Tags) {
	if t.Reason != "" && t.FailedAt == 0 {
		t.FailedAt = time.Now().UnixMilli()
	}
	*to = tube.Tags{
		Delay: t.Delay, HasDelay: t.HasDelay, At: instantOf(t.At), HasAt: t.HasAt,
		Key: t.Key, OnDuplicate: tube.OnDuplicate(t.OnDuplicate), Rules: rulesOf(t), Expire: lifetimeOf(t),
		Meta: metaOf(t.Meta), Trace: t.Trace, Group: t.Group,
		ExpiresAt: instantOf(t.ExpireAt), Reason: t.Reason, FailedAt: instantOf(t.FailedAt), Occurrence: occurrenceOf(t.Schedule),
		Batch: t.Batch.Name, BatchTTL: t.Batch.TTL, After: cmp.Or(t.Batch.After, t.Batch.AfterAll), AfterAll: t.Batch.AfterAll != "",
	}
}

// occurrenceOf returns which schedule has put a copy, nil if none has.
func occurrenceOf(t *protocol.ScheduleTags) *tube.Occurrence {
	if t == nil || t.Name == "" {
		return nil
	}
	return &tube.Occurrence{Schedule: t.Name, Nominal: instantOf(t.Nominal)}
}

// metaOf translates tags meta for package tube.
func metaOf(all []protocol.Meta) (meta []tube.Meta) {
	for _, m := range all {
		meta = append(meta, tube.Meta(m))
	}
	return meta
}

func planSetPolicy(s *session, c *protocol.Command, r *request) {
	var p *tube.Policy
	if t := c.Tags; t != nil {
		p = &tube.Policy{
			Rules: rulesOf(t), Expire: lifetimeOf(t), OnDuplicate: tube.OnDuplicate(t.OnDuplicate), QuotaJobs: t.QuotaJobs, QuotaBytes: t.QuotaBytes,
			HasQuotaJobs: t.HasQuotaJobs, HasQuotaBytes: t.HasQuotaBytes, Push: pushOf(&t.Push),
			Limits: limitsOf(t.Limits), GroupLimits: limitsOf(t.GroupLimits), GroupOrder: tube.GroupOrder(t.GroupOrder),
		}
	}
	if !s.queue.MayPush(p) {
		r.reply = func(s *session) { s.out.Forbidden() }
		return
	}
	r.name = string(c.Name)
	s.addOp(r, storage.Op{Kind: storage.SetPolicy, Tube: string(c.Name), Args: &storage.Args{Policy: p}})
}

// pushOf translates the tags about a push for package tube.
func pushOf(p *protocol.Push) tube.Push {
	return tube.Push{URL: p.URL, Concurrency: p.Concurrency, Timeout: p.Timeout, Rate: p.Rate.Calls, RateEvery: p.Rate.Every}
}

func answerSetPolicy(s *session, r *request, _ *storage.Answer) {
	s.queue.PolicyChanged(r.name)
	s.out.Done(r.verb)
}

func planGetPolicy(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.GetPolicy, Tube: string(c.Name)})
}

func planListPolicies(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Policies})
}

// addRules adds rules and a lifetime as tags; jitter is the word for that of the retries.
func addRules(page *protocol.Page, r *tube.Rules, expire tube.Lifetime, jitter string) {
	if r.Retry != nil {
		page.Bare("retry", protocol.RetryText(r.Retry, r.Doubled))
	}
	if r.Jitter != tube.NoJitter {
		page.Uint(jitter, uint64(r.Percent()))
	}
	if r.Max > 0 {
		page.Uint("max", uint64(r.Max))
	}
	if r.Dead != "" {
		page.Bare("dead", r.Dead)
	}
	if r.HasKeyTTL {
		page.Bare("key-ttl", protocol.Durations([]time.Duration{r.KeyTTL}))
	}
	if expire != tube.NoLifetime {
		page.Bare("expire", protocol.Durations([]time.Duration{expire.Duration()}))
	}
	if r.OnExpire != tube.NoOnExpire {
		page.Bare("on-expire", protocol.OnExpireWords[r.OnExpire])
	}
}

// answerGetPolicy writes a policy as the tags that set it.
func answerGetPolicy(s *session, _ *request, a *storage.Answer) {
	var page protocol.Page
	p := a.Result.Policy
	addRules(&page, &p.Rules, p.Expire, "jitter")
	if p.OnDuplicate != tube.NotSaid {
		page.Bare("on-duplicate", protocol.OnDuplicate(p.OnDuplicate).String())
	}
	if p.HasQuotaJobs {
		page.Uint("quota-jobs", p.QuotaJobs)
	}
	if p.HasQuotaBytes {
		page.Uint("quota-bytes", p.QuotaBytes)
	}
	addLimits(&page, "group-", p.GroupLimits)
	if p.GroupOrder != tube.NoGroupOrder {
		page.Bare("group-order", protocol.GroupOrderWords[p.GroupOrder])
	}
	addLimits(&page, "", p.Limits)
	addPush(&page, &p.Push)
	s.out.OK(page.Bytes())
}

func addPush(page *protocol.Page, p *tube.Push) {
	if p.URL != "" {
		page.Quoted("push", p.URL)
	}
	if p.Concurrency > 0 {
		page.Uint("push-concurrency", uint64(p.Concurrency))
	}
	if p.Timeout > 0 {
		page.Bare("push-timeout", protocol.Durations([]time.Duration{p.Timeout}))
	}
	if p.Rate > 0 {
		page.Bare("push-rate", protocol.PushRate{Calls: p.Rate, Every: p.RateEvery}.String())
	}
}
