package tube

import (
	"slices"
	"strings"
)

// Facts are what is known of a job beyond what every job has. Most jobs have none.
type Metadata struct {
	Key string
	Rules

	// FailuresBefore and DeliveriesBefore are what has to be taken off the counters: those
	// that do not count any more, because the job was kicked when it was parked. Of a job
	// that was moved to another tube, whose counters have begun anew, they are less than
	// zero, modulo 2^32.
	FailuresBefore, DeliveriesBefore uint32

	Parked      Parked
	PendingDead string // parked: the dead-letter tube to which it is on its way; "" if to none
	Lease       uint64 // the token of the last lease; 0: it was never leased
	FromTube    string // a dead-letter job: where it was exhausted
	FromID      uint64 // and as which job
}

// Failures and Deliveries are what Rules.After counts, of a job with these counters.
func (f *Metadata) Failures(c *Counters) uint32 { return c.Failures() - f.FailuresBefore }

// Deliveries is like Failures.
func (f *Metadata) Deliveries(c *Counters) uint32 { return c.Deliveries() - f.DeliveriesBefore }

// facts is how the Machine keeps Facts: a job with nothing but a key needs little memory.
type metadata struct {
	name string    // see keyName; "" without a key
	more *Metadata // all but the Key; nil if all of that is zero
}

// noFacts is what a job has that has no facts.
var noMetadata Metadata

// keyName is how the Machine names a key: by its tube, too. No name of a tube has a zero
// byte in it.
func keyName(tube, key string) string { return tube + "\x00" + key }

// splitName is the reverse of keyName.
func splitName(name string) (tube, key string) {
	tube, key, _ = strings.Cut(name, "\x00")
	return tube, key
}

// factsOf returns the facts of j but for its key. They must not be changed.
func (m *Machine) metadataOf(j *Job) *Metadata {
	if j.hasMetadata {
		if f := m.metadata[j.self]; f.more != nil {
			return f.more
		}
	}
	return &noMetadata
}

// changeFacts returns the facts of j but for its key, to be changed.
func (m *Machine) changeMetadata(j *Job) *Metadata {
	f := m.metadata[j.self]
	if !j.hasMetadata || f.more == nil {
		j.hasMetadata = true
		f.more = new(Metadata)
		m.metadata[j.self] = f
	}
	return f.more
}

// keyOf returns the key of j, "" if it has none.
func (m *Machine) keyOf(j *Job) string {
	if !j.hasMetadata {
		return ""
	}
	_, key := splitName(m.metadata[j.self].name)
	return key
}

// allFacts returns the facts of j, nil if it has none.
func (m *Machine) allMetadata(j *Job) *Metadata {
	if !j.hasMetadata {
		return nil
	}
	all := new(Metadata)
	m.copyMetadata(j, all)
	return all
}

// copyFacts copies the facts of j.
func (m *Machine) copyMetadata(j *Job, to *Metadata) {
	*to = *m.metadataOf(j)
	to.Key = m.keyOf(j)
}

// setFacts gives j, which has none, its facts. The key must be free.
func (m *Machine) setMetadata(j *Job, of Metadata) {
	var f metadata
	if of.Key != "" {
		f.name = keyName(m.tubeOf(j).name, of.Key)
		m.keys[f.name] = j.self
	}
	of.Key = ""
	if !of.zero() {
		m.share(&of.Rules)
		f.more = &of
	}
	j.hasMetadata = true
	m.metadata[j.self] = f
}

// share has rules that are like those of the last job have the same memory behind them: most jobs
// of a tube have the same, and the collector would visit those of each.
func (m *Machine) share(r *Rules) {
	last := &m.lastRules
	if r.Dead == last.Dead {
		r.Dead = last.Dead
	}
	if len(r.Retry) > 0 && slices.Equal(r.Retry, last.Retry) {
		r.Retry = last.Retry
	}
	if !r.empty() {
		*last = *r
	}
}

// zero tells whether there is nothing in f but perhaps a key.
func (f *Metadata) zero() bool {
	return f.Rules.empty() && f.FailuresBefore == 0 && f.DeliveriesBefore == 0 && f.Parked == NotParked && f.PendingDead == "" &&
		f.Lease == 0 && f.FromTube == ""
}

// rulesOf returns the rules that hold for j: its own, and for the rest those of its tube.
func (m *Machine) rulesOf(j *Job) Rules {
	return m.metadataOf(j).Rules.Over(m.policies[m.tubeOf(j).name])
}
