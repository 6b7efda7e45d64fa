package tube

import "slices"

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

// metadataOf returns the metadata of j without its key, its group and its batch. It must not be changed.
func (m *jobs) metadataOf(j *Job) *Metadata {
	if j.hasMetadata {
		if f := m.metadata[j.self]; f.more != nil {
			return f.more
		}
	}
	return &noMetadata
}

// changeMetadata returns the metadata of j without its key, its group and its batch, for a change.
func (m *jobs) changeMetadata(j *Job) *Metadata {
	f := m.metadata[j.self]
	if !j.hasMetadata || f.more == nil {
		j.hasMetadata = true
		f.more = new(Metadata)
		m.metadata[j.self] = f
	}
	return f.more
}

// keyOf returns the key of j, "" if it has none.
func (m *jobs) keyOf(j *Job) string {
	if !j.hasMetadata {
		return ""
	}
	_, key := splitName(m.metadata[j.self].name)
	return key
}

// allMetadata returns the metadata of j for others, nil if it has none.
func (m *jobs) allMetadata(j *Job) *Metadata {
	if !m.isTagged(j) {
		return nil
	}
	all := new(Metadata)
	m.copyMetadata(j, all)
	return all
}

// copyMetadata copies the metadata of j for others: Expires is a wall time.
func (m *jobs) copyMetadata(j *Job, to *Metadata) {
	*to = *m.metadataOf(j)
	to.Key, to.Group, to.Batch, to.Expires = m.keyOf(j), m.groupOf(j), m.batchNameOf(j), m.Wall(to.Expires)
}

// setMetadata sets the metadata of j, which has none yet. The key must be free. The caller makes j a member of its
// batch when it is in a queue.
func (m *groups) setMetadata(j *Job, of Metadata) {
	var f metadata
	if of.Key != "" {
		f.name = keyName(m.tubeOf(j).name, of.Key)
		m.keys.jobs[f.name] = j.self
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
		m.expiries.add(j.ID, of.Expires)
	}
}

// forgetMetadata removes the metadata of j, which is about to be removed. Its key stays taken
// for as long as the rules say.
func (m *jobs) forgetMetadata(now Instant, j *Job) {
	m.expiries.remove(j.ID)
	if name := m.metadata[j.self].name; name != "" {
		delete(m.keys.jobs, name)
		if ttl := m.rulesOf(j).KeyTTL; ttl > 0 {
			m.keys.leave(name, tombstone{j.ID, now + Instant(ttl)})
		}
	}
	delete(m.metadata, j.self)
}

// loseKey takes the key of j away from it, without a tombstone and without a report to the journal.
func (m *jobs) loseKey(j *Job) {
	f := m.metadata[j.self]
	delete(m.keys.jobs, f.name)
	f.name = ""
	m.metadata[j.self] = f
}

// share makes r use the memory of the last job's rules, as far as they are equal. Most jobs
// of a tube have the same rules, and the garbage collector would visit each copy.
func (m *jobs) share(r *Rules) {
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

// zero reports whether f is empty, apart from the key and the group.
func (f *Metadata) zero() bool {
	return f.Rules.empty() && f.FailuresBefore == 0 && f.DeliveriesBefore == 0 && f.Parked == NotParked && f.PendingDead == "" &&
		f.Lease == 0 && f.FromTube == "" && f.Expires == 0 && f.Notes == nil && f.Occurrence == nil &&
		f.Batch == "" && f.After == ""
}

// rulesOf returns the rules that apply to j: its own, completed by those of its tube.
func (m *jobs) rulesOf(j *Job) Rules {
	t := m.tubeOf(j)
	return m.metadataOf(j).OwnRules(t.name).Over(m.policies.ofTube(t))
}
