package tube

import "time"

// How says how a job has ended.
type How uint8

const (
	NotEnded How = iota
	Done         // its holder has deleted or finished it
	Deleted      // somebody else has: by a delete, a flush, delete-key, a put that replaces it, or the end of a batch
	Expired      // its time was over
	Dead         // it became a dead letter: another job, see Ended.ToTube
	Moved        // it was moved to another tube, or sent back by a replay: it is another job there

	// StillParked is no end: the job is buried, and does not go on by itself. Only an answer to a wait has it.
	StillParked

	numHows
)

// String returns the word of the protocol.
func (h How) String() string {
	return [numHows]string{"", "done", "deleted", "expired", "dead", "moved", "parked"}[h]
}

// HowOf is the reverse of How.String; NotEnded for any other word.
func HowOf(word string) How {
	for h := Done; h < numHows; h++ {
		if h.String() == word {
			return h
		}
	}
	return NotEnded
}

// Ended is the record of a job that has ended. It is never changed. Its times are wall times in whole milliseconds.
type Ended struct {
	Seq uint64 // orders the records of a store: µs since the epoch, but always more than that of the one before
	ID  uint64

	Tube, Key, Group, Batch string
	Occurrence              *Occurrence // nil: no schedule has put it
	Meta                    []Meta      // nil: none

	How     How
	Put     Instant // when it was put
	Started Instant // when its first delivery began, as far as that is known; 0: never, or not known
	At      Instant // when it ended
	Until   Instant // when the record goes

	Deliveries, Failures uint32
	Holder               string // who held it when it ended, by the name that it has given; "": nobody, or not known
	Reason               string // why its last failure happened, as Notes.Reason
	ToTube               string // of one that is Dead or Moved: where it is now
	ToID                 uint64
	Result               []byte // of one that was finished with a result, at most MaxResult bytes
}

// MaxResult is the largest result, in bytes.
const MaxResult = 64 << 10

// MaxHolder is the longest Ended.Holder, in bytes; longer names are cut.
const MaxHolder = 64

const (
	// DefaultKeepBytes is the bound of the records of a tube whose policy says nothing else.
	DefaultKeepBytes = 64 << 20
	// DefaultHistoryBytes is the bound of all records of a store, by default.
	DefaultHistoryBytes = 256 << 20
)

// endedOverhead is how many bytes a record counts beyond its texts and its result.
const endedOverhead = 128

// Bytes returns how many bytes the record counts for the bounds. All engines count the same.
func (e *Ended) Bytes() int {
	n := endedOverhead + len(e.Tube) + len(e.Key) + len(e.Group) + len(e.Batch) + len(e.Holder) + len(e.Reason) + len(e.ToTube) + len(e.Result)
	if e.Occurrence != nil {
		n += len(e.Occurrence.Schedule)
	}
	for _, m := range e.Meta {
		n += len(m.Name) + len(m.Value)
	}
	return n
}

// ends is what a Machine knows of ends: who is told of records, and which ends are awaited.
type ends struct {
	lastSeq uint64       // the largest Ended.Seq so far
	keep    func(*Ended) // nil: there are no records

	awaited map[uint64]struct{}
	noticed []uint64 // see EndsNoticed
}

// OnEnd sets what is called with each record of an ended job, just before the journal learns that the job is gone. last is the
// largest Ended.Seq so far. It must be called before the first job ends; without it there are no records.
func (m *Machine) OnEnd(last uint64, keep func(*Ended)) { m.ends.lastSeq, m.ends.keep = last, keep }

// AwaitEnd makes EndsNoticed return a job once, when it has ended or is buried, or a policy has changed.
func (m *Machine) AwaitEnd(id uint64) {
	if m.ends.awaited == nil {
		m.ends.awaited = make(map[uint64]struct{})
	}
	m.ends.awaited[id] = struct{}{}
}

// EndsNoticed returns the jobs of AwaitEnd that since the last call have ended, are buried, or may leave no record any more.
func (m *Machine) EndsNoticed() []uint64 {
	ids := m.ends.noticed
	m.ends.noticed = nil
	return ids
}

// KeepBytes returns the bound of the records of a tube, in bytes as Ended.Bytes counts.
func (m *Machine) KeepBytes(tube string) uint64 {
	if p := m.policyOf(tube); p != nil && p.HasKeepBytes {
		return p.KeepBytes
	}
	return DefaultKeepBytes
}

// HoldsWithoutKeep reports whether h holds a job that leaves no record, or token is the present lease of such a job.
func (m *Machine) HoldsWithoutKeep(h Holder, token, id uint64) bool {
	j := m.Find(id)
	if j == nil || j.state != Reserved || j.holder != h || h == LeaseHolder && m.Lease(j) != token {
		return false
	}
	return !m.Keeps(j)
}

// Keeps reports whether j leaves a record when it ends.
func (m *Machine) Keeps(j *Job) bool {
	return m.ends.keep != nil && m.hasRules(j) && m.rulesOf(j).Keep.Duration() > 0
}

// notice is called when a job has ended, or is buried.
func (e *ends) notice(id uint64) {
	if len(e.awaited) == 0 {
		return
	}
	if _, is := e.awaited[id]; is {
		delete(e.awaited, id)
		e.noticed = append(e.noticed, id)
	}
}

// noticeAll is called when a policy has changed: jobs that were to leave a record may leave none now.
func (e *ends) noticeAll() {
	for id := range e.awaited {
		e.noticed = append(e.noticed, id)
	}
	clear(e.awaited)
}

// ending is how a job ends, for its record.
type ending struct {
	how    How // NotEnded: without a record
	holder string
	result []byte
	toTube string
	toID   uint64
}

// endingBy returns how a job ends that moves along an arrow.
func endingBy(arrow *Arrow, terms *Terms) ending {
	switch {
	case arrow.Move == Withdraw:
		return ending{}
	case arrow.Held:
		return ending{how: Done, holder: terms.Holder, result: terms.Data}
	}
	return ending{how: Deleted}
}

// noTerms are the terms of a move without any.
var noTerms Terms

// ended returns the record of j, which is about to be removed; nil if none is kept. j has its last state and rank, also if it is in
// no queue any more.
func (m *jobs) ended(now Instant, j *Job, end ending) *Ended {
	if m.ends.keep == nil || end.how == NotEnded || !m.hasRules(j) {
		return nil
	}
	keep := m.rulesOf(j).Keep.Duration()
	if keep == 0 {
		return nil
	}
	wall, f := max(m.Wall(now), 0), m.metadata.of(j)
	m.ends.lastSeq = max(m.ends.lastSeq+1, uint64(wall)/uint64(time.Microsecond))
	e := &Ended{
		Seq: m.ends.lastSeq, ID: j.ID, Tube: m.tubeOf(j).name, Key: m.metadata.key(j), Group: m.groupOf(j), Batch: m.batchNameOf(j),
		Occurrence: f.Occurrence, Meta: f.AllNotes().Meta,
		How: end.how, Put: inMilliseconds(m.Wall(j.created)), At: inMilliseconds(wall),
		Deliveries: f.Deliveries(&j.counters), Failures: f.Failures(&j.counters), Holder: end.holder, Reason: f.AllNotes().Reason,
		ToTube: end.toTube, ToID: end.toID, Result: end.result,
	}
	e.Until = e.At.Plus(keep)
	if j.state == Reserved && j.counters.Deliveries() == 1 {
		e.Started = inMilliseconds(m.Wall(j.delivered()))
	}
	return e
}

// StillParked returns what a wait for the end of j is answered, which is buried and does not go on by itself: its id, tube and reason. It
// returns nil for any other job.
func (m *Machine) StillParked(j *Job) *Ended {
	f := m.metadata.of(j)
	if j.state != Buried || f.PendingDead != "" {
		return nil
	}
	reason := f.AllNotes().Reason
	if reason == "" {
		reason = f.Parked.String()
	}
	return &Ended{ID: j.ID, Tube: m.tubeOf(j).name, How: StillParked, Reason: reason}
}
