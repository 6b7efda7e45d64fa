package storage

import (
	"time"

	"redstalk/storage/body"
	"redstalk/tube"
)

// Batch is a list of operations of one connection that are submitted together. It belongs to
// the store from Do until Done.
type Batch struct {
	Ops []Op

	// Done is called once, when all operations are answered: perhaps before Do
	// returns, perhaps on a goroutine of the store, perhaps on the goroutine of
	// another caller of Do. It must not block and must not call the store.
	Done func()

	// Ordered says that the Done of this batch must come after the Done of every batch
	// that the same goroutine has submitted before. It has no effect for batches that
	// others can come between, see the package comment, and for batches that wait for
	// bodies.
	Ordered bool
}

// Kind says what an operation does.
type Kind uint8

// The kinds, each with the fields of Op that it reads → the fields of Answer that it sets.
// Any of them can be answered with NotFound or Err.
const (
	// Put creates a job: Tube, Pri, Delay, TTR, Body → ID. With Args.Tags another job can have
	// the key: → ID, Result.Outcome, Result.State.
	Put Kind = iota
	// Take reserves the first job of several tubes: Holder, Tubes, Wait → ID, Body; or
	// NotFound and Soon. For tube.LeaseHolder also → Result.Lease. With MaxBytes it is also
	// NotFound if the body of that job has more bytes.
	Take
	// Move does a tube.Move with one job: Move, Holder, ID; Pri and Delay as tube.Arrow.Sets
	// says → for tube.ReserveJob ID, Body. If Holder is tube.LeaseHolder, Args.Lease is the
	// token; NotFound if that is not the job's present lease.
	Move
	// SetPriority changes the priority of a job that is not reserved: ID, Pri → nothing.
	SetPriority
	// Reschedule makes a ready or delayed job due after a time: ID, In → nothing.
	Reschedule
	// Kick makes jobs of a tube ready: Tube, MaxJobs → Count. A large kick is done in parts.
	Kick
	// Peek reads a job: ID → ID, Body.
	Peek
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
	// ListJobs lists jobs of a tube in a state, in the order in which they would come out:
	// Tube, State, MaxJobs (up to tube.MaxListed), Args.Cursor ("": from the first) →
	// Result.Jobs, Result.Cursor ("": there are no more). The cursor is valid for a page of the
	// same tube and state. A job that changes its position between two pages can be missed or
	// listed twice; other jobs cannot. Never NotFound.
	ListJobs
	// Flush removes all jobs of a tube in a state; with State tube.Gone the ready, delayed and
	// buried jobs. It does what Move does with tube.Delete, but whoever holds them: Tube, State
	// → Count. It works in parts, and spares jobs that are put meanwhile. Never NotFound.
	Flush
	// MoveJobs moves the first jobs of a tube in a state to another tube: Tube, State,
	// Args.To, MaxJobs → Count. It works in parts. State is tube.Ready, tube.Delayed or
	// tube.Buried; with others, and to the same tube, nothing is moved. The jobs get new ids,
	// in their order. Buried ones come after all that are buried in the new tube. Their
	// counters begin at zero, but failures and deliveries go on. A key that is taken in the
	// new tube is lost, and is free in the old tube at once. They keep all else. Never
	// NotFound.
	MoveJobs
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
	// other servers on the same store.
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
)

// Op is one operation and, once it is done, its answer.
type Op struct {
	Kind  Kind
	Move  tube.Move
	Role  tube.Role
	State tube.State
	Wait  bool // Take: the connection will wait for a wake-up if there is no job

	Pri      uint32
	Delay    uint32        // seconds; Pause: the length of the pause
	TTR      uint32        // seconds
	In       time.Duration // Reschedule: whole milliseconds, zero or more
	MaxJobs  uint32        // Kick, ListJobs, MoveJobs: the largest number of jobs
	MaxBytes uint32        // Take: the largest body in bytes; 0: any
	Delta    int           // Ref: how many connections more; negative: fewer
	ID       uint64
	Holder   tube.Holder
	Tube     string
	Tubes    []string
	Body     []byte       // kept by the store, not copied
	Buffer   *body.Buffer // of Body; the store takes over one reference with Do; nil: Body has none
	Args     *Args        // what only few operations need; it is not changed

	Answer Answer
}

// Args are arguments that only few kinds of operations have.
type Args struct {
	Tags   *tube.Tags
	Policy *tube.Policy
	Key    string
	To     string
	Cursor string
	Lease  uint64
	Import *Import
}

// Answer is the result of an operation. Fields that the Kind does not set are zero.
type Answer struct {
	// NotFound: there is no such job or tube, or the move is not possible for the job. For
	// Take: no job is ready.
	NotFound bool

	// Err, if it is not nil, says why the store could not carry out the operation. Only
	// Count is set in that case: if a Kick, Flush or MoveJobs fails between two parts, it has
	// processed at least Count jobs.
	Err error

	ID     uint64
	Body   []byte       // must not be changed
	Buffer *body.Buffer // of Body; the caller takes over one reference with Done; nil: Body has none
	Count  int

	// Soon is set by a Take that found nothing: how long until the holder must be answered
	// DEADLINE_SOON, if it still waits then. Zero or less: now.
	Soon time.Duration

	Job       *tube.JobStats
	TubeStats *tube.TubeStats
	Stats     *Figures
	Names     []string

	Result *Result // nil if none of it is set
}

// Result is the part of an answer that only few kinds of operations set.
type Result struct {
	Outcome tube.PutResult // never PutRefused: that is ErrNoSpace
	State   tube.State
	Lease   uint64
	Policy  *tube.Policy
	Jobs    []tube.JobStats
	Cursor  string
	Import  *ImportState
}

// Figures are a store's part of the stats page.
type Figures struct {
	tube.Totals
	Log Log

	// Instances is how many servers share the store at present, as far as is known; 0 for
	// a store that only one server can use.
	Instances uint64
}

// Log describes a store's files, in the words of beanstalkd's binlog.
type Log struct {
	OldestIndex, CurrentIndex       uint64
	RecordsMigrated, RecordsWritten uint64
	MaxSize                         uint64 // of one file in bytes
}
