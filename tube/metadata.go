package tube

import (
	"slices"
	"strings"
)

// Metadata is what is known of a job beyond what every job has. Most jobs have none.
type Metadata struct {
	Key   string
	Group string
	Rules // those of its put, see OwnRules

	// FailuresBefore and DeliveriesBefore are subtracted from the counters: the failures
	// and deliveries before the job was parked and kicked, which no longer count. After a
	// move to another tube, where the counters begin at zero, they are negative, modulo 2^32.
	FailuresBefore, DeliveriesBefore uint32

	Parked      Parked
	PendingDead string      // pending dead letter: the dead-letter tube it goes to; "": none
	Lease       uint64      // the token of the last lease; 0: it was never leased
	FromTube    string      // a dead letter: the tube where it was exhausted
	FromID      uint64      // a dead letter: its id there
	Notes       *Notes      // nil: none
	Occurrence  *Occurrence // nil: no schedule has put it

	// Batch is the batch of which it is a member; "": none. After is the batch after which it runs, as long
	// as it is held or parked because of that; "": none. AfterAll is that of Tags.
	Batch, After string
	AfterAll     bool

	// Expires is when it expires, a whole millisecond; 0: never. The put has decided it. With After, its time has not begun: it is when the
	// job would expire if it had not had to wait.
	Expires Instant
}

// Failures returns what Rules.After counts as failures of a job with these counters.
func (f *Metadata) Failures(c *Counters) uint32 { return c.Failures() - f.FailuresBefore }

// Deliveries returns what Rules.After counts as deliveries of a job with these counters.
func (f *Metadata) Deliveries(c *Counters) uint32 { return c.Deliveries() - f.DeliveriesBefore }

// metadata is how the Machine stores Metadata. A job with only a key needs little memory.
type metadata struct {
	name string    // see keyName; "" without a key
	more *Metadata // all but the Key; nil if all of that is zero
}

// noMetadata is the metadata of a job that has none.
var noMetadata Metadata

// keyName is the name of a key inside the Machine: it includes the tube. No tube name
// contains a zero byte.
func keyName(tube, key string) string { return tube + "\x00" + key }

// splitName is the reverse of keyName.
func splitName(name string) (tube, key string) {
	tube, key, _ = strings.Cut(name, "\x00")
	return tube, key
}

// metadataOf returns the metadata of j without its key, its group and its batch. It must not be changed.
func (m *Machine) metadataOf(j *Job) *Metadata {
	if j.hasMetadata {
		if f := m.metadata[j.self]; f.more != nil {
			return f.more
		}
	}
	return &noMetadata
}

// changeMetadata returns the metadata of j without its key, its group and its batch, for a change.
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

// allMetadata returns the metadata of j for others, nil if it has none.
func (m *Machine) allMetadata(j *Job) *Metadata {
	if !m.isTagged(j) {
		return nil
	}
	all := new(Metadata)
	m.copyMetadata(j, all)
	return all
}

// copyMetadata copies the metadata of j for others: Expires is a wall time.
func (m *Machine) copyMetadata(j *Job, to *Metadata) {
	*to = *m.metadataOf(j)
	to.Key, to.Group, to.Batch, to.Expires = m.keyOf(j), m.groupOf(j), m.batchNameOf(j), m.Wall(to.Expires)
}

// setMetadata sets the metadata of j, which has none yet. The key must be free. The caller makes j a member of its
// batch when it is in a queue.
func (m *Machine) setMetadata(j *Job, of Metadata) {
	var f metadata
	if of.Key != "" {
		f.name = keyName(m.tubeOf(j).name, of.Key)
		m.keys[f.name] = j.self
	}
	known := of.Group != "" || of.Batch != ""
	if of.Group != "" {
		m.joinGroup(j, of.Group)
	}
	of.Key, of.Group, of.Batch = "", "", ""
	if !of.zero() {
		m.share(&of.Rules)
		f.more = new(Metadata)
		*f.more = of
	}
	if j.hasMetadata = !known || f != (metadata{}); j.hasMetadata {
		m.metadata[j.self] = f
	}
	if of.Expires != 0 && of.After == "" {
		m.expireLater(j, of.Expires)
	}
}

// share makes r use the memory of the last job's rules, as far as they are equal. Most jobs
// of a tube have the same rules, and the garbage collector would visit each copy.
func (m *Machine) share(r *Rules) {
	last := &m.lastRules
	if r.Dead == last.Dead {
		r.Dead = last.Dead
	}
	if len(r.Retry) > 0 && slices.Equal(r.Retry, last.Retry) {
		r.Retry = last.Retry
	}
	if !r.Empty() {
		*last = *r
	}
}

// zero reports whether f is empty, apart from the key and the group.
func (f *Metadata) zero() bool {
	return f.Rules.Empty() && f.FailuresBefore == 0 && f.DeliveriesBefore == 0 && f.Parked == NotParked && f.PendingDead == "" &&
		f.Lease == 0 && f.FromTube == "" && f.Expires == 0 && f.Notes == nil && f.Occurrence == nil &&
		f.Batch == "" && f.After == ""
}

// rulesOf returns the rules that apply to j: its own, completed by those of its tube.
func (m *Machine) rulesOf(j *Job) Rules {
	t := m.tubeOf(j)
	return m.policyOfTube(t).RulesOver(m.metadataOf(j).OwnRules(t.name))
}
