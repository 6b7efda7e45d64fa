package tube

import (
	"maps"
	"slices"
)

// SetPolicy sets the policy of a tube; nil removes it. The policy must not be changed after
// that. The tube need not exist.
func (m *Machine) SetPolicy(tube string, p *Policy) {
	if p == nil {
		delete(m.policies, tube)
	} else {
		m.policies[tube] = p
	}
	if m.journal != nil {
		m.journal.PolicySet(tube, p)
	}
}

// Policy returns the policy of a tube, nil if it has none.
func (m *Machine) Policy(tube string) *Policy { return m.policies[tube] }

// Policies returns the names of the tubes that have a policy, in the order of the names.
func (m *Machine) Policies() []string { return slices.Sorted(maps.Keys(m.policies)) }
