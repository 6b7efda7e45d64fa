package tube

import (
	"maps"
	"slices"
	"strings"
)

// A policy is for a tube, or for a pattern: all tubes whose names begin with what is before its *.
// What applies to a tube is found tag by tag: the tube's policy, that of the longest pattern, and
// so on down to "*".

// policies has the policies by the names of tubes and by patterns.
type policies struct {
	own      map[string]*Policy
	patterns int    // how many of them are for patterns
	stamp    uint32 // grows when one of them changes

	// merged caches what applies to existing tubes; nil in it is nothing. It is used only if
	// there are patterns.
	merged map[string]*Policy
}

// IsPattern reports whether a policy of that name is for all tubes that begin so.
func IsPattern(name string) bool { return strings.HasSuffix(name, "*") }

// PatternsOf returns the patterns that a tube belongs to, the longest first.
func PatternsOf(tube string) []string {
	patterns := make([]string, 0, len(tube)+1)
	for n := len(tube); n >= 0; n-- {
		patterns = append(patterns, tube[:n]+"*")
	}
	return patterns
}

// SetPolicy sets the policy of a tube or a pattern; nil removes it. The policy must not be changed
// after that. No tube of it need exist.
func (m *groups) SetPolicy(name string, p *Policy) {
	m.policies.set(name, p)
	m.limitsChanged(name)
	if m.journal != nil {
		m.journal.PolicySet(name, p)
	}
}

// Policy returns the policy of a tube or pattern itself, nil if it has none.
func (m *jobs) Policy(name string) *Policy { return m.policies.own[name] }

// Policies returns the names of the tubes and patterns that have a policy, in their order.
func (m *jobs) Policies() []string { return slices.Sorted(maps.Keys(m.policies.own)) }

// policyOf returns what applies to a tube, nil if that is nothing.
func (m *jobs) policyOf(tube string) *Policy { return m.policies.of(tube, m.tubes[tube] != nil) }

func (p *policies) set(name string, policy *Policy) {
	before := len(p.own)
	if policy == nil {
		delete(p.own, name)
	} else {
		p.own[name] = policy
	}
	if IsPattern(name) {
		p.patterns += len(p.own) - before
	}
	p.merged = nil
	p.stamp++
}

// any reports whether there is a policy.
func (p *policies) any() bool { return len(p.own) > 0 }

// of returns what applies to a tube, nil if that is nothing. exists says that there is the tube.
func (p *policies) of(tube string, exists bool) *Policy {
	if p.patterns == 0 {
		return p.own[tube]
	}
	if merged, cached := p.merged[tube]; cached {
		return merged
	}
	merged := p.own[tube]
	for _, pattern := range PatternsOf(tube) {
		merged = merged.Over(p.own[pattern])
	}
	if exists {
		if p.merged == nil {
			p.merged = make(map[string]*Policy)
		}
		p.merged[tube] = merged
	}
	return merged
}

// ofTube is of for a tube that exists.
func (p *policies) ofTube(t *Tube) *Policy {
	if t.policyStamp != p.stamp {
		p.refresh(t)
	}
	return t.policy
}

// limitsOf returns the limits of a tube.
func (p *policies) limitsOf(t *Tube) *Limits {
	if t.policyStamp != p.stamp {
		p.refresh(t)
	}
	return &t.limits
}

// limit reports whether a tube has limits of its own.
func (p *policies) limit(t *Tube) bool { return p.any() && *p.limitsOf(t) != (Limits{}) }

// refresh finds out what applies to t, after a policy has changed.
func (p *policies) refresh(t *Tube) {
	t.policy, t.policyStamp, t.limits = p.of(t.name, true), p.stamp, Limits{}
	if t.policy != nil {
		t.limits = t.policy.StartLimits()
	}
}

// unchecked are the tubes and lanes whose limits may have changed since they were updated.
type unchecked struct {
	tubes  int    // those in Machine.order before this index
	prefix string // with which their names begin
	lanes  []*lane
	alarm  alarm
}

const (
	// tubesAtOnce is how many tubes are checked at once when the policy of a pattern changes; the next Ticks
	// continue.
	tubesAtOnce = 128

	// lanesPerTube is how many lanes become unchecked in the time in which a tube is checked.
	lanesPerTube = 32
)

// limitsChanged is called when the policy of a tube or a pattern has changed. The next Ticks check the tubes of a
// pattern, and the lanes of all tubes. A limit that has become narrower holds at once, see mayTake.
func (m *groups) limitsChanged(name string) {
	prefix, pattern := strings.CutSuffix(name, "*")
	if !pattern {
		if t := m.tubes[name]; t != nil {
			m.tubeLimitsChanged(t)
		}
		return
	}
	u := &m.unchecked
	if u.tubes > 0 && u.prefix != prefix {
		prefix = "" // those of another pattern are not all checked yet
	}
	u.tubes, u.prefix = len(m.order), prefix
	m.checkTubes(tubesAtOnce)
}

// checkTubes updates about n of the unchecked tubes. A tube that is removed from Machine.order is replaced by
// the last one, so those before the index may include tubes that are checked already, but lack none.
func (m *groups) checkTubes(n int) {
	u := &m.unchecked
	for u.tubes = min(u.tubes, len(m.order)); n > 0 && u.tubes > 0; n-- {
		u.tubes--
		if t := m.order[u.tubes]; strings.HasPrefix(t.name, u.prefix) {
			before := len(u.lanes)
			m.tubeLimitsChanged(t)
			n -= (len(u.lanes) - before) / lanesPerTube
		}
	}
	m.rearmUnchecked()
}

// rearmUnchecked sets the alarm of the unchecked tubes and lanes.
func (m *groups) rearmUnchecked() {
	at := Never
	if u := &m.unchecked; u.tubes > 0 || len(u.lanes) > 0 {
		at = 0
	}
	m.alarms.set(&m.unchecked.alarm, at)
}

func (m *groups) tubeLimitsChanged(t *Tube) {
	m.recheckTokens(t.throttle, m.policies.limitsOf(t).Rates)
	if m.updateTakeable(t) {
		m.addWakeUp(t)
	}
	if t.lanes == nil {
		return
	}
	for l := range t.lanes.byName.all() {
		m.unchecked.lanes = append(m.unchecked.lanes, l)
	}
	m.rearmUnchecked()
}

// checkNext updates one of the unchecked lanes, or if there are none a tube.
func (m *groups) checkNext(now Instant) {
	u := &m.unchecked
	last := len(u.lanes) - 1
	if last < 0 {
		m.checkTubes(1)
		return
	}
	l := u.lanes[last]
	u.lanes[last] = nil
	if u.lanes = u.lanes[:last]; last == 0 {
		u.lanes = nil
	}
	m.rearmUnchecked()
	if l.tube != nil {
		m.checkRates(now, l)
		m.updateLane(l)
	}
}

// Over returns p, with the tags it does not set taken from other. Both can be nil, and are not
// changed.
func (p *Policy) Over(other *Policy) *Policy {
	if p == nil || other == nil {
		if p == nil {
			return other
		}
		return p
	}
	merged := *p
	merged.Rules = p.Rules.Over(other)
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
	merged.Limits = p.Limits.Over(other.Limits)
	merged.GroupLimits = p.GroupLimits.Over(other.GroupLimits)
	if p.GroupOrder == NoGroupOrder {
		merged.GroupOrder = other.GroupOrder
	}
	return &merged
}
