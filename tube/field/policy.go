package field

import (
	"slices"
	"time"
)

// Policy is what applies to the jobs of a tube that do not say otherwise, and the tube's
// quotas. A policy is never changed, only replaced.
type Policy struct {
	Rules
	Expire        Lifetime
	OnDuplicate   OnDuplicate
	QuotaJobs     uint64 // how many jobs the tube can have
	QuotaBytes    uint64 // how many bytes their bodies can have together
	HasQuotaJobs  bool
	HasQuotaBytes bool
	KeepBytes     uint64 // bound of the records of ended jobs, see tube.Ended.Bytes
	HasKeepBytes  bool
	Limits        Limits     // of the tube
	GroupLimits   Limits     // of each of its groups
	GroupOrder    GroupOrder // within a group
	Push          Push       // where the jobs are sent; the zero value: nowhere
}

// Push says that the jobs of a tube are sent to a URL (a webhook) instead of waiting for a
// reserve. The contract is docs/push.md. A value that is not set is zero.
type Push struct {
	URL         string        // valid by [ValidPushURL]; "": nothing is sent
	Concurrency uint32        // calls at a time, per instance
	Timeout     time.Duration // of one call; whole milliseconds
	Rate        uint32        // calls per RateEvery
	RateEvery   time.Duration // one of RatePeriods; 0 if Rate is 0
}

const (
	// MaxPushConcurrency is the largest Push.Concurrency.
	MaxPushConcurrency = 10_000
	// MaxPushTimeout is the longest Push.Timeout.
	MaxPushTimeout = time.Hour
)

// Over returns p, with the tags it does not set taken from other. Both can be nil, and are not
// changed.
func (p *Policy) Over(other *Policy) *Policy {
	if p == nil {
		return other
	}
	if other == nil {
		return p
	}
	merged := *p
	merged.Rules = p.Rules.Over(&other.Rules)
	if p.Expire == NoLifetime {
		merged.Expire = other.Expire
	}
	if p.OnDuplicate == NotSaid {
		merged.OnDuplicate = other.OnDuplicate
	}
	if !p.HasQuotaJobs {
		merged.QuotaJobs, merged.HasQuotaJobs = other.QuotaJobs, other.HasQuotaJobs
	}
	if !p.HasQuotaBytes {
		merged.QuotaBytes, merged.HasQuotaBytes = other.QuotaBytes, other.HasQuotaBytes
	}
	if !p.HasKeepBytes {
		merged.KeepBytes, merged.HasKeepBytes = other.KeepBytes, other.HasKeepBytes
	}
	merged.Limits = p.Limits.Over(other.Limits)
	merged.GroupLimits = p.GroupLimits.Over(other.GroupLimits)
	if p.GroupOrder == NoGroupOrder {
		merged.GroupOrder = other.GroupOrder
	}
	return &merged
}

// RulesOver returns the rules r of a job, with what they do not set taken from p, which can be nil.
func (p *Policy) RulesOver(r Rules) Rules {
	if p == nil {
		return r
	}
	return r.Over(&p.Rules)
}

// Admits reports whether a tube that has this many jobs, with this many bytes in their bodies,
// can get one more of size bytes. p may be nil.
func (p *Policy) Admits(jobs, bytes, size uint64) bool {
	if p == nil {
		return true
	}
	return (!p.HasQuotaJobs || jobs < p.QuotaJobs) && (!p.HasQuotaBytes || bytes+size <= p.QuotaBytes)
}

// StartLimits returns the limits of a tube: Limits, and the rate of a webhook.
func (p *Policy) StartLimits() Limits {
	limits := p.Limits
	for i, period := range RatePeriods {
		if n := p.Push.Rate; n > 0 && p.Push.RateEvery == period && (limits.Rates[i] == 0 || n < limits.Rates[i]) {
			limits.Rates[i] = n
		}
	}
	return limits
}

// OfPolicy are the rows of Policy, with those of its Rules, in the order of its stored text.
var OfPolicy = slices.Concat(liftAll(OfRules[:expireAt]), []Field[Policy]{expire}, liftAll(OfRules[expireAt:]), ofPolicy)

// expireAt is the place of expire among the rows of Rules: before on-expire.
var expireAt = slices.IndexFunc(OfRules, func(f Field[Rules]) bool { return f.Name == "on-expire" })

// A job has no such field: what is stored with it is when it expires.
var expire = duration(Field[Policy]{
	Name: "expire", In: everywhere, Capability: "expire", Value: "DURATION", Help: "`DURATION` for which the job is worth doing, from when it is first due",
	Stored: Stored{Tag: 25},
}, func(p *Policy) (time.Duration, bool) { return p.Expire.Duration(), p.Expire != NoLifetime }, func(p *Policy, d time.Duration) { p.Expire = LifetimeOf(d) })

var ofPolicy = []Field[Policy]{
	word(Field[Policy]{
		Name: "on-duplicate", In: onPut, Value: "WHAT", Help: "`WHAT` to do if a job has the key: keep, replace or fail", Stored: Stored{Tag: 12},
	}, OnDuplicateWords, func(p *Policy) *OnDuplicate { return &p.OnDuplicate }),
	known(Field[Policy]{Name: "quota-jobs", In: InPolicy, Value: "N", Help: "at most `N` jobs in the tube", Stored: Stored{Tag: 13}},
		func(p *Policy) (*uint64, *bool) { return &p.QuotaJobs, &p.HasQuotaJobs }),
	known(Field[Policy]{Name: "quota-bytes", In: InPolicy, Value: "N", Help: "at most `N` bytes in the bodies of its jobs", Stored: Stored{Tag: 14}},
		func(p *Policy) (*uint64, *bool) { return &p.QuotaBytes, &p.HasQuotaBytes }),
	count(Field[Policy]{Name: "concurrency", In: limits, Value: "N", Help: "at most `N` reserved jobs"},
		MaxLimit, func(p *Policy) *uint32 { return &p.Limits.Concurrency }),
	rates(Field[Policy]{Name: "rate", In: limits, Value: "RATES", Help: "at most so many reserves, such as `RATES` of 100/m,1000/h"},
		func(p *Policy) *Rates { return &p.Limits.Rates }),
	count(Field[Policy]{Name: "group-concurrency", In: InPolicy, Value: "N", Help: "at most `N` reserved jobs of each group"},
		MaxLimit, func(p *Policy) *uint32 { return &p.GroupLimits.Concurrency }),
	rates(Field[Policy]{Name: "group-rate", In: InPolicy, Value: "RATES", Help: "at most so many reserves of jobs of each group, such as `RATES` of 100/m,1000/h"},
		func(p *Policy) *Rates { return &p.GroupLimits.Rates }),
	word(Field[Policy]{
		Name: "group-order", In: InPolicy, Value: "ORDER", Help: "`ORDER` of the jobs of a group: fair, or strict for one at a time", Stored: Stored{Tag: 30},
	}, GroupOrderWords, func(p *Policy) *GroupOrder { return &p.GroupOrder }),
	text(Field[Policy]{Name: "push", In: InPolicy, Quoted: true, Value: "URL", Help: "`URL` to which the jobs are sent", Stored: Stored{Tag: 15}},
		ValidPushURL, func(p *Policy) *string { return &p.Push.URL }),
	count(Field[Policy]{
		Name: "push-concurrency", In: InPolicy, Value: "N", Help: "at most `N` concurrent calls of each instance", Stored: Stored{Name: "push-calls", Tag: 16},
	}, MaxPushConcurrency, func(p *Policy) *uint32 { return &p.Push.Concurrency }),
	pushTimeout, pushRate, pushEvery,
	known(Field[Policy]{Name: "keep-bytes", In: InPolicy, Capability: "results", Value: "N", Help: "at most `N` bytes in the records of ended jobs", Stored: Stored{Tag: 40}},
		func(p *Policy) (*uint64, *bool) { return &p.KeepBytes, &p.HasKeepBytes }),
}

// limits are the commands that limit a tube or a group.
const limits = InPolicy | InGroup

var pushTimeout = func() Field[Policy] {
	f := duration(Field[Policy]{Name: "push-timeout", In: InPolicy, Value: "DURATION", Help: "`DURATION` that a call may take", Stored: Stored{Tag: 17}},
		func(p *Policy) (time.Duration, bool) { return p.Push.Timeout, p.Push.Timeout != 0 }, func(p *Policy, d time.Duration) { p.Push.Timeout = d })
	f.Min, f.Max = 1, inMS(MaxPushTimeout)
	return f
}()

// pushRate and pushEvery are one tag.
var (
	pushRate = func() Field[Policy] {
		f := count(Field[Policy]{Name: "push-rate", In: InPolicy, Value: "RATE", Help: "`RATE` of calls at most, such as 100/s"},
			MaxLimit, func(p *Policy) *uint32 { return &p.Push.Rate })
		f.Kind = Rate
		f.parse = func(p *Policy, text []byte) bool {
			n, every, ok := ParseRate(text)
			if ok {
				p.Push.Rate, p.Push.RateEvery = n, every
			}
			return ok
		}
		f.format = func(p *Policy) string { return RateText(p.Push.Rate, p.Push.RateEvery) }
		return f
	}()
	pushEvery = duration(Field[Policy]{Name: "push-every"},
		func(p *Policy) (time.Duration, bool) { return p.Push.RateEvery, p.Push.RateEvery != 0 }, func(p *Policy, d time.Duration) { p.Push.RateEvery = d })
)

func liftAll(rows []Field[Rules]) (lifted []Field[Policy]) {
	for _, f := range rows {
		lifted = append(lifted, lift(f))
	}
	return lifted
}
