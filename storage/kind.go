package storage

import "redstalk/tube"

// Kind says what an operation does.
type Kind uint8

// The kinds, each with the fields of Op that it reads → the fields of Answer that it sets.
// Any of them can be answered with NotFound or Err.
const (
	// Put creates a job: Tube, Pri, Delay, TTR, Body → ID. With Args.Tags also →
	// Outcome, State; ID and State are those of another job if that has the key.
	Put Kind = iota
	// Take reserves the first job of several tubes: Holder, Tubes, Wait → ID, Body; or
	// NotFound and Soon. For tube.LeaseHolder also → Result.Lease. With MaxBytes it is also
	// NotFound if the body of that job has more bytes. With First it is the best job of the
	// first of the tubes that has one and is not paused; else the best of all. With Info perhaps
	// also → Job. With Trace, and a job that has a trace, also → Result.Traced.
	Take
	// Move does a tube.Move with one job: Move, Holder, ID; Pri and Delay as tube.Arrow.Sets
	// says; for tube.Release, Bury and Park Args.Reason and By; for tube.Delete and Finish Args.By; for
	// Finish and SaveCheckpoint Args.Data; for Touch Args.Progress; for KickJob Args.KeepCheckpoint; for Expire, which takes a job back from whoever holds it, Args.Reason and By → for tube.ReserveJob and Seize ID, Body; for Finish Result.NotKept, if only that is missing; for ReserveJob and Expire perhaps Result.Elsewhere. If Holder is tube.LeaseHolder, and Move not Expire, Args.Lease is the
	// token; NotFound if that is not the job's present lease.
	Move
	// SetPriority changes the priority of a job that is not reserved: ID, Pri → nothing.
	SetPriority
	// Reschedule makes a ready or delayed job due after a time: ID, In → nothing.
	Reschedule
	// Kick makes jobs of a tube ready: Tube, MaxJobs, Args.KeepCheckpoint → Count. A large kick is done in parts.
	Kick
	// Peek reads a job: ID → ID, Body.
	Peek
	// GetCheckpoint reads the checkpoint of a job: ID → Body. NotFound if it has none.
	GetCheckpoint
	// PeekHead reads the first job of a tube in a state: Tube, State → ID, Body.
	PeekHead
	// PeekKey reads the job of a tube that has a key: Tube, Args.Key → ID, Body.
	PeekKey
	// DeleteKey removes the job of a tube that has a key, whatever its state and holder:
	// Tube, Args.Key → nothing.
	DeleteKey
	// FindKey searches all tubes for jobs with a key: Args.Key → Result.Jobs, in the order of
	// their ids; NotFound if there is none.
	FindKey
	// SetPolicy sets the policy of a tube, which need not exist: Tube, Args.Policy (nil removes
	// it) → nothing. Never NotFound.
	SetPolicy
	// GetPolicy reads a policy: Tube → Result.Policy; NotFound if the tube has none.
	GetPolicy
	// Policies lists the tubes that have a policy: nothing → Names, sorted.
	Policies
	// SetGroup sets what applies to a group of a tube instead of the tube's policy; neither need
	// exist: Tube, Args.Group, Args.GroupConfig (nil removes it) → nothing. Never NotFound.
	SetGroup
	// GetGroup reads what SetGroup has set: Tube, Args.Group → Result.GroupConfig; NotFound if
	// that is nothing.
	GetGroup
	// GroupStats reads the stats of a group: Tube, Args.Group → Result.Groups, one; NotFound if it
	// has no job, no GroupConfig and no pause.
	GroupStats
	// ListGroups lists the groups of a tube that GroupStats finds, in the order of their names:
	// Tube, MaxJobs (up to tube.MaxListed groups), Args.Cursor ("": from the first) →
	// Result.Groups, Result.Cursor ("": there are no more). Never NotFound.
	ListGroups
	// PauseGroup pauses a group, which need not exist; with Delay 0 it ends the pause: Tube,
	// Args.Group, Delay → nothing. Never NotFound.
	PauseGroup
	// SetSchedule writes the record of a schedule, which lives where its tube does: Tube,
	// Args.Schedule → nothing. Its Version must be 1 more than that of the record which it replaces, else
	// NotFound; without a record that is 0. Its Results are not written.
	SetSchedule
	// PutScheduled is a SetSchedule, and in the same step a Put: what both of them read; Args.Tags has the
	// Occurrence → ID, Outcome, State. It counts the put in the Results of the record, also
	// one that is refused: that is no error here, but Outcome tube.PutRefused.
	PutScheduled
	// DeleteSchedule removes the record of a schedule, wherever it lives, or with Tube only where that lives: Args.Name →
	// nothing.
	DeleteSchedule
	// GetRecord reads a named record, wherever it lives: Records, Args.Name → Result.Records, Result.Parts, Result.Now. In a store of
	// several parts each can have a record of that name, but of a schedule it is usually one; they are in the order of parts.
	// That of a batch has After. NotFound if there is none; for a batch an error if one part could not be read.
	GetRecord
	// ListRecords lists the named records of a kind in the order of their names, without bodies and After: Records, MaxJobs (up to
	// tube.MaxListed names), Args.Cursor ("": from the first) → Result.Records, the records of all parts, those of one name
	// together; Result.Parts, Result.Cursor ("": there are no more), Result.Now. Never NotFound.
	ListRecords
	// DueRecords returns named records that are due, the earliest first, of a batch one or more parts, and claims them: for
	// tube.ClaimTime they are returned to nobody else, unless they become due anew. If more batches than MaxJobs are due, some of the
	// latest can be among them, so that one that has just ended does not wait for all others. Records, MaxJobs →
	// Result.Records, Result.Now. In a store of several parts MaxJobs is for each, which can return fewer though there are
	// more. Never NotFound.
	DueRecords
	// SealBatch says that a batch, which need not exist, gets no more members: Args.Name → nothing. Each part of
	// the store then has a record of it; if some could not be reached the answer is an error, and the
	// operation can be repeated. Never NotFound.
	SealBatch
	// ListMembers lists the members of a batch that exist, in no particular order: Args.Name, MaxJobs (up to
	// tube.MaxListed), Args.Cursor → Result.Jobs, Result.Cursor ("": there are no more), perhaps with an
	// empty page before that. Never NotFound.
	ListMembers
	// CancelBatch seals a batch, and removes its members that are not reserved, as CancelBatch counts them: gone:
	// Args.Name → Count. It works in parts. NotFound if there is no such batch.
	CancelBatch
	// SettleBatch carries out a verdict in one part of the store, with up to MaxJobs after-jobs: Args.Name,
	// Args.Settle, MaxJobs → Count. If there are more, or the record overtakes the settlement, it is due again at once, otherwise at Settle.Due, and the
	// claim has ended. NotFound, and nothing is done, if there is no record or its Stamp is another one, or Forget
	// is not possible: the record is then due at once.
	SettleBatch
	// ListJobs lists jobs of a tube in a state, in the order in which they would come out:
	// Tube, State, MaxJobs (up to tube.MaxListed), Args.Cursor ("": from the first) →
	// Result.Jobs, Result.Cursor ("": there are no more). The cursor is valid for a page of the
	// same tube and state. A job that changes its position between two pages can be missed or
	// listed twice; other jobs cannot. Never NotFound.
	ListJobs
	// ListHung lists jobs whose holders touch them again and again and probably hang, as tube.IsHung says: MaxJobs (up to
	// tube.MaxListed), Args.Skip → Result.Jobs, Count. In a store of several parts all are for each. If Count is not 0, the store has just forgotten
	// Count jobs that have ended, and others have taken their places: ask for the same page again. Else fewer than MaxJobs are the last ones. A job that
	// begins to hang, or is touched, between two pages can make another one be missed. Never NotFound.
	ListHung
	// Flush removes all jobs of a tube in a state; with State tube.Gone the ready, delayed and
	// buried jobs. It does what Move does with tube.Delete, but whoever holds them: Tube, State, and
	// Args.Group if only those of a group (with State tube.Gone)
	// → Count. It works in parts, and spares jobs that are put meanwhile. Never NotFound.
	Flush
	// MoveJobs moves the first jobs of a tube in a state to another tube: Tube, State,
	// Args.To, MaxJobs → Count. It works in parts. State is tube.Ready, tube.Delayed or
	// tube.Buried; with others, and to the same tube, nothing is moved. The jobs get new ids,
	// in their order. Buried ones come after all that are buried in the new tube. Their
	// counters begin at zero, but failures and deliveries go on, unless a dead letter comes
	// back to where it was exhausted. A key that is taken in the new tube is lost, and is free
	// in the old tube at once. They keep all else. Never NotFound.
	MoveJobs
	// MoveJob moves a job to another tube, as MoveJobs does: ID, Args.To → nothing. NotFound if it is reserved,
	// or in that tube. An engine may do the second half of the way later, but nobody else gets the job meanwhile.
	MoveJob
	// Replay gives a job another chance that has failed for good: ID, Args.KeepCheckpoint → nothing. A job that came
	// to its tube as a dead letter goes back to the tube where it was exhausted, as by MoveJobs,
	// but ready, and with failures and deliveries from zero. Any other job is kicked, if it is
	// buried. NotFound for all others, and for reserved jobs. An engine may do the second half
	// of the way later, but nobody else gets the job meanwhile.
	Replay
	// BeginImport begins the import of a source in a part of the store: Args.Import →
	// Result.Import. The numbers of its jobs begin above Least and above all that the part has
	// used, and Largest numbers are reserved for them. If the import was begun before, nothing
	// changes. Nor does it with Largest 0: then the answer is where the import would begin.
	// Never NotFound.
	BeginImport
	// ImportJobs creates the next jobs of an import: Args.Import → Result.Import. It creates all
	// of them or none; none if From is not how many the part has. Quotas and other policies do
	// not apply. Never NotFound.
	ImportJobs
	// JobStats reads the stats of a job: ID → Job.
	JobStats
	// TubeStats reads the stats of a tube: Tube → TubeStats. Its Waiting counts only the
	// other servers on the same store. With Info also its Limits, unless the tube has neither groups
	// nor limits.
	TubeStats
	// Stats reads the stats of the store: nothing → Stats.
	Stats
	// Tubes lists all tubes: nothing → Names.
	Tubes
	// Pause pauses a tube: Tube, Delay → nothing.
	Pause
	// Ref adds to the number of connections that use or watch tubes: Tubes, Role, Delta →
	// nothing. Never NotFound.
	Ref
	// ReleaseAll gives back all jobs that a holder holds: Holder → nothing. If they are many,
	// it works in parts. Never NotFound.
	ReleaseAll
	// WaitEnded asks what has become of a job: ID → Result.Ended, its record, which is that of tube.StillParked if the job is
	// buried; or State, if it has not ended; or Result.NotKept if that is so and there will be no record. With Wait and a State,
	// Listener.JobEnded is called once the answer can be another one. NotFound if there is neither a job nor a record.
	WaitEnded
	// ListEnded lists the records of the ended jobs of a tube, or of a batch, the newest first: Tube or Args.Name, MaxJobs (up to
	// tube.MaxListed), Args.Cursor ("": from the newest; else older than that Ended.Seq) → Result.Ended, Result.Cursor ("": there
	// are no more). A page has some 1 MiB at most, but at least one record. Never NotFound.
	ListEnded
	// AddTallies adds to the tallies of tubes, and to that of all tubes together, of the present hour and day, by the time of the
	// store: Args.Tallies → nothing. It does it once for each Number of a From, which a store that is not shared forgets when it is
	// closed. Never NotFound.
	AddTallies
	// ReadTallies reads the tallies of a tube, or of all tubes together with Tube "", of the last periods: Tube, Args.Tallies →
	// Result.Tallies, from the earliest on, without periods in which nothing was counted; Result.Now. Never NotFound.
	ReadTallies

	numKinds
)

// Subject says which part of a store an operation concerns.
type Subject uint8

const (
	OfStore  Subject = iota // all of it, or what else the operation names
	OfTube                  // Op.Tube
	OfTubes                 // Op.Tubes
	OfJob                   // Op.ID
	OfImport                // Args.Import.Part
	OfPart                  // Args.Settle.Part
	OfFirst                 // what only the first part of a store has
)

// Field is a field of Op.
type Field uint8

const (
	FieldID Field = iota
	FieldTube
	FieldPri
	FieldDelay
	FieldIn
)

// KindSpec is a row of the table of kinds.
type KindSpec struct {
	Name    string
	Subject Subject

	// Change is all that an operation of this kind does, if it only changes one job or tube: a
	// call of the rules, which returns false if the answer is NotFound. Nil: an engine carries
	// out the kind by itself.
	Change func(m *tube.Machine, now tube.Instant, op *Op) bool
	// Args are the fields that Change reads, in the order in which an engine passes them to
	// another process that carries out the change under the same name.
	Args []Field
}

// kinds is the table of kinds.
var kinds = [numKinds]KindSpec{
	Put:  {Name: "put", Subject: OfTube},
	Take: {Name: "take", Subject: OfTubes},
	Move: {Name: "move", Subject: OfJob},
	SetPriority: {Name: "set-priority", Subject: OfJob, Args: []Field{FieldID, FieldPri}, Change: func(m *tube.Machine, _ tube.Instant, op *Op) bool {
		return m.SetPriority(op.ID, op.Pri)
	}},
	Reschedule: {Name: "reschedule", Subject: OfJob, Args: []Field{FieldID, FieldIn}, Change: func(m *tube.Machine, now tube.Instant, op *Op) bool {
		return m.Reschedule(now, op.ID, op.In)
	}},
	Kick:           {Name: "kick", Subject: OfTube},
	Peek:           {Name: "peek", Subject: OfJob},
	GetCheckpoint:  {Name: "get-checkpoint", Subject: OfJob},
	PeekHead:       {Name: "peek-head", Subject: OfTube},
	PeekKey:        {Name: "peek-key", Subject: OfTube},
	DeleteKey:      {Name: "delete-key", Subject: OfTube},
	FindKey:        {Name: "find-key"},
	SetPolicy:      {Name: "set-policy", Subject: OfTube},
	GetPolicy:      {Name: "get-policy", Subject: OfTube},
	Policies:       {Name: "policies"},
	SetGroup:       {Name: "set-group", Subject: OfTube},
	GetGroup:       {Name: "get-group", Subject: OfTube},
	GroupStats:     {Name: "group-stats", Subject: OfTube},
	ListGroups:     {Name: "list-groups", Subject: OfTube},
	PauseGroup:     {Name: "pause-group", Subject: OfTube},
	SetSchedule:    {Name: "set-schedule", Subject: OfTube},
	PutScheduled:   {Name: "put-scheduled", Subject: OfTube},
	DeleteSchedule: {Name: "delete-schedule"},
	GetRecord:      {Name: "get-record"},
	ListRecords:    {Name: "list-records"},
	DueRecords:     {Name: "due-records"},
	SealBatch:      {Name: "seal-batch"},
	ListMembers:    {Name: "list-members"},
	CancelBatch:    {Name: "cancel-batch"},
	SettleBatch:    {Name: "settle-batch", Subject: OfPart},
	ListJobs:       {Name: "list-jobs", Subject: OfTube},
	ListHung:       {Name: "list-hung"},
	Flush:          {Name: "flush", Subject: OfTube},
	MoveJobs:       {Name: "move-jobs"},
	MoveJob:        {Name: "move-job", Subject: OfJob},
	Replay:         {Name: "replay", Subject: OfJob},
	BeginImport:    {Name: "begin-import", Subject: OfImport},
	ImportJobs:     {Name: "import-jobs", Subject: OfImport},
	JobStats:       {Name: "job-stats", Subject: OfJob},
	TubeStats:      {Name: "tube-stats", Subject: OfTube},
	Stats:          {Name: "stats"},
	Tubes:          {Name: "tubes"},
	Pause: {Name: "pause", Subject: OfTube, Args: []Field{FieldTube, FieldDelay}, Change: func(m *tube.Machine, now tube.Instant, op *Op) bool {
		return m.Pause(now, op.Tube, op.Delay)
	}},
	Ref:        {Name: "ref", Subject: OfTubes},
	ReleaseAll: {Name: "release-all"},
	WaitEnded:  {Name: "wait-ended", Subject: OfJob},
	ListEnded:  {Name: "list-ended"},

	AddTallies:  {Name: "add-tallies", Subject: OfFirst},
	ReadTallies: {Name: "read-tallies", Subject: OfFirst},
}

// Spec returns the row of a kind, an empty one for a number that is no kind. It must not be changed.
func (k Kind) Spec() *KindSpec {
	if k >= numKinds {
		return &KindSpec{}
	}
	return &kinds[k]
}

// String returns the name of the kind.
func (k Kind) String() string { return k.Spec().Name }
