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

	// Progress is what its present holder, or its last one, says of how far it is, at most MaxProgress bytes; "": nothing.
	Progress   string
	Checkpoint CheckpointRef

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

// metadataTable has the metadata of the jobs that have some. What of and change return is without the key, the group and
// the batch of the job.
type metadataTable struct {
	byJob     map[ref]metadata
	lastRules Rules // of the last job that had some, see share
}

// of returns the metadata of j, which must not be changed.
func (m *metadataTable) of(j *Job) *Metadata {
	if j.hasMetadata {
		if f := m.byJob[j.self]; f.more != nil {
			return f.more
		}
	}
	return &noMetadata
}

// change returns the metadata of j for a change.
func (m *metadataTable) change(j *Job) *Metadata {
	f := m.byJob[j.self]
	if !j.hasMetadata || f.more == nil {
		j.hasMetadata = true
		f.more = new(Metadata)
		m.byJob[j.self] = f
	}
	return f.more
}

// key returns the key of j, "" if it has none.
func (m *metadataTable) key(j *Job) string {
	if !j.hasMetadata {
		return ""
	}
	_, key := splitName(m.byJob[j.self].name)
	return key
}

// share makes r use the memory of the last job's rules, as far as they are equal. Most jobs
// of a tube have the same rules, and the garbage collector would visit each copy.
func (m *metadataTable) share(r *Rules) {
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
	*to = *m.metadata.of(j)
	to.Key, to.Group, to.Batch, to.Expires = m.metadata.key(j), m.groupOf(j), m.batchNameOf(j), m.Wall(to.Expires)
}

// loseKey takes the key of j away from it, without a tombstone and without a report to the journal.
func (m *jobs) loseKey(j *Job) {
	f := m.metadata.byJob[j.self]
	delete(m.keys.jobs, f.name)
	f.name = ""
	m.metadata.byJob[j.self] = f
}

// zero reports whether f is empty, apart from the key and the group.
func (f *Metadata) zero() bool {
	return f.Rules.Empty() && f.FailuresBefore == 0 && f.DeliveriesBefore == 0 && f.Parked == NotParked && f.PendingDead == "" &&
		f.Lease == 0 && f.FromTube == "" && f.Expires == 0 && f.Notes == nil && f.Occurrence == nil &&
		f.Batch == "" && f.After == "" && f.Progress == "" && f.Checkpoint == (CheckpointRef{})
}

// rulesOf returns the rules that apply to j: its own, completed by those of its tube.
func (m *jobs) rulesOf(j *Job) Rules {
	t := m.tubeOf(j)
	return m.policies.ofTube(t).RulesOver(m.metadata.of(j).OwnRules(t.name))
}

// home returns FromTube; "" if that is the tube in which the job is.
func (f *Metadata) home(tube string) string {
	if f.FromTube == tube {
		return ""
	}
	return f.FromTube
}

// OwnRules returns those of its own rules that apply to a job in a tube: none of a dead letter. It keeps
// them for when it is back.
func (f *Metadata) OwnRules(tube string) Rules {
	if f.home(tube) != "" {
		return Rules{}
	}
	return f.Rules
}

// Move changes the metadata of a job that has these counters and is moved from one tube to another. There
// its counters begin at zero, while its failures and deliveries go on; those of a dead letter that is
// moved home begin at zero. A job that has been at home and leaves is no dead letter any more: else it
// would be one in any other tube.
func (f *Metadata) Move(from, to string, c *Counters) {
	switch f.FromTube {
	case to:
		f.FailuresBefore, f.DeliveriesBefore = 0, 0
		return
	case from:
		f.FromTube, f.FromID = "", 0
	}
	f.FailuresBefore -= c.Failures()
	f.DeliveriesBefore -= c.Deliveries()
}

// DeadLetter returns the metadata of the dead letter of job id, which was exhausted in a tube and has the
// metadata f, and was put at a wall time. It has no own rules if that job is a dead letter itself: they are not for its new home.
func (f *Metadata) DeadLetter(tube string, id uint64, put Instant) Metadata {
	notes := *f.AllNotes()
	if notes.FirstPut == 0 {
		notes.FirstPut = inMilliseconds(max(put, 0))
	}
	return Metadata{
		Key: f.Key, Group: f.Group, Batch: f.Batch, Rules: f.OwnRules(tube),
		FromTube: tube, FromID: id, Notes: &notes, Occurrence: f.Occurrence, Progress: f.Progress, Checkpoint: f.Checkpoint,
	}
}

// TraceOf returns the W3C trace context of the put of j; "" if there is none.
func (m *jobs) TraceOf(j *Job) string { return m.metadata.of(j).AllNotes().Trace }

// noteFailure records that a delivery of j fails by a move, and why as far as that is said; and why another move happens, if that is said.
func (m *jobs) noteFailure(now Instant, j *Job, move Move, terms *Terms) {
	how, reason := move.Failed(), terms.Reason
	if reason == "" && (how == NotFailed || how == FailedByBury || !m.notesFailures(j)) {
		return
	}
	if move == Expire && reason == "" {
		reason = ReasonTTR
	}
	if how != NotFailed {
		f := m.metadata.change(j)
		f.Notes = f.AllNotes().withAttempt(Attempt{At: inMilliseconds(max(m.Wall(now), 0)), How: how, Holder: terms.Holder, Reason: attemptReason(reason)})
	}
	if reason != "" {
		m.noteReason(now, j, reason)
	}
}

// noteReason records why a delivery of j has failed, or why it is buried.
func (m *jobs) noteReason(now Instant, j *Job, reason string) {
	f := m.metadata.change(j)
	n := *f.AllNotes()
	n.Reason, n.FailedAt = reason, inMilliseconds(m.Wall(now))
	f.Notes = &n
}

// notesFailures reports whether it is recorded that a delivery of j fails, even if nobody says why. Other jobs are as in
// beanstalkd, and cost nothing.
func (m *jobs) notesFailures(j *Job) bool {
	return m.policies.ofTube(m.tubeOf(j)) != nil || m.metadata.key(j) != "" || m.groupOf(j) != "" || j.batch&isMember != 0 || !m.metadata.of(j).zero()
}

// discount makes the present delivery of j, which ends as no failure, count neither as a failure
// nor as a delivery.
func (m *jobs) discount(j *Job) {
	f := m.metadata.change(j)
	f.FailuresBefore++
	f.DeliveriesBefore++
}

// hasRules reports whether rules of j or of its tube can apply when a delivery of j ends.
func (m *jobs) hasRules(j *Job) bool {
	return m.isTagged(j) || m.policies.ofTube(m.tubeOf(j)) != nil
}

// isTagged reports whether j has metadata, which can be only its group or its batch.
func (m *jobs) isTagged(j *Job) bool {
	return j.hasMetadata || j.batch != 0 || m.handles.list[j.tube].lane != nil
}
