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
