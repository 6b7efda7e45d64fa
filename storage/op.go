package storage

import (
	"time"

	"redstalk/storage/body"
	"redstalk/tube"
)

// Batch is operations of one connection that are handed over together. It belongs to the
// store from Do until Done.
type Batch struct {
	Ops []Op

	// Done is called once, when all operations are answered: perhaps before Do
	// returns, perhaps on a goroutine of the store, perhaps on the goroutine of
	// another caller of Do. It must not block and must not call the store.
	Done func()

	// InTurn says that the Done of this batch must come after the Done of every
	// batch that the same goroutine has handed over before. That does not hold for
	// batches which others come between, see the package comment, and for batches
	// that wait for bodies.
	Ordered bool
}

// Kind says what an operation does.
type Kind uint8

// The kinds, each with the fields of Op that it reads → the fields of Answer that it sets.
// NotFound and Err may be the answer to any of them.
const (
	// Put makes a job: Tube, Pri, Delay, TTR, Body → ID. With Args.Tags there may be
	// another one that has the key: → ID, Result.Outcome, Result.State.
	Put Kind = iota
	// Take reserves the first job of several tubes: Holder, Tubes, Wait → ID, Body; or
	// NotFound and Soon. For tube.LeaseHolder also → Result.Lease. With MaxBytes, if Holder is
	// not tube.LeaseHolder, NotFound as well if the body of that job has more bytes.
	Take
	// Move does a tube.Move with one job: Move, Holder, ID; Pri and Delay as far as
	// tube.Arrow.Sets says → for tube.ReserveJob ID, Body. If Holder is
	// tube.LeaseHolder, Args.Lease is the token; NotFound if that is not the job's
	// present lease.
	Move
	// SetPriority gives a job that is not reserved another priority: ID, Pri → nothing.
	SetPriority
	// Reschedule makes a ready or delayed job due that long from now: ID, In → nothing.
	Reschedule
	// Kick makes jobs of a tube ready: Tube, MaxJobs → Count. If those are many it does so in
	// parts.
	Kick
	// Peek reads a job: ID → ID, Body.
	Peek
	// PeekHead reads the first job of a tube in a state: Tube, State → ID, Body.
	PeekHead
	// PeekKey reads the job of a tube that has a key: Tube, Args.Key → ID, Body.
	PeekKey
	// DeleteKey removes the job of a tube that has a key, whatever its state and whoever
	// holds it: Tube, Args.Key → nothing.
	DeleteKey
	// FindKey looks for jobs with a key in all tubes: Args.Key → Result.Jobs, in the order
	// of their ids; NotFound if there is none.
	FindKey
	// SetPolicy gives a tube a policy, which need not exist: Tube, Args.Policy (nil takes
	// it away) → nothing. Never NotFound.
	SetPolicy
	// GetPolicy: Tube → Result.Policy; NotFound if the tube has none.
	GetPolicy
	// Policies lists the tubes that have a policy: nothing → Names, sorted.
	Policies
	// ListJobs shows jobs of a tube in a state, in the order in which they would come
	// out: Tube, State, MaxJobs (up to tube.MaxListed), Args.Cursor ("": from the first) →
	// Result.Jobs, Result.Cursor ("": there are no more). The cursor is good for a page of the
	// same tube and state. A job that changes its place between two pages may be missed or
	// come twice, others are not. Never NotFound.
	ListJobs
	// Flush removes all jobs of a tube in a state, or with State tube.Gone those that are
	// ready, delayed and buried, as Move with tube.Delete does, but whoever holds them:
	// Tube, State → Count. It does so in parts, and spares jobs that are put meanwhile.
	// Never NotFound.
	Flush
	// MoveJobs moves the first jobs of a tube in a state to another tube: Tube, State,
	// Args.To, MaxJobs → Count. It does so in parts. State is tube.Ready, tube.Delayed or
	// tube.Buried; of others, and to the same tube, none are moved. The jobs get new ids,
	// in their order, and come behind all that are buried there. Their counters begin at
	// zero, but failures and deliveries go on. A key that is taken there is lost, and in
	// the old tube it is free at once. They keep all else. Never NotFound.
	MoveJobs
	// BeginImport begins the import of a source in a part of the store: Args.Import → Result.Import.
	// The numbers of its jobs begin above Least and above all that the part has given out, and
	// so many as Largest says are set aside for them. If the import was begun before that does
	// nothing. Nor does Largest 0: then the answer is where the import would begin. Never
	// NotFound.
	BeginImport
	// ImportJobs makes the next jobs of an import: Args.Import → Result.Import. It makes all of them, or
	// none; none if From is not how many the part has. Quotas are not asked, nor is any other
	// policy. Never NotFound.
	ImportJobs
	// JobStats: ID → Job.
	JobStats
	// TubeStats: Tube → TubeStats. Its Waiting counts the other servers on the same
	// store only.
	TubeStats
	// Stats: nothing → Stats.
	Stats
	// Tubes lists all tubes: nothing → Names.
	Tubes
	// Pause pauses a tube: Tube, Delay → nothing.
	Pause
	// Attend adds to the connections that use or watch tubes: Tubes, Role, Delta →
	// nothing. Never NotFound.
	Ref
	// Leave gives back all jobs that a holder holds: Holder → nothing. If these are
	// very many, it does so in parts. Never NotFound.
	ReleaseAll
)

// Op is one operation and, once it is done, its answer.
type Op struct {
	Kind  Kind
	Move  tube.Move
	Role  tube.Role
	State tube.State
	Wait  bool // Take: the connection will wait for a hint if there is no job

	// HandOff, of a Take with Wait: a direct hand-off of a job that a Put of the same call
	// of Do makes, to a client that is already waiting. A shared store answers NotFound,
	// whatever jobs it has, unless the wake-up for that Put would go to this server. If the
	// Take gets a job, that wake-up is not sent.
	HandOff bool

	Pri      uint32
	Delay    uint32        // seconds; Pause: the length of the pause
	TTR      uint32        // seconds
	In       time.Duration // Reschedule: whole milliseconds, none or more
	MaxJobs  uint32        // Kick, ListJobs, MoveJobs: how many jobs at most
	MaxBytes uint32        // Take: only a job with a body of at most so many bytes; 0: any
	Delta    int           // Attend: how many connections more; negative: fewer
	ID       uint64
	Holder   tube.Holder
	Tube     string
	Tubes    []string
	Body     []byte       // kept by the store, not copied
	Buffer   *body.Buffer // of Body; one use of it is the store's from Do on; nil: Body has none
	Args     *Args        // what only few operations have; it is not changed

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

// Answer is what came of an operation. Fields that the Kind does not set are zero.
type Answer struct {
	// NotFound: there is no such job or tube, or the move does not apply to the
	// job. For Take: no job is ready.
	NotFound bool

	// Err, if it is not nil, says why the store could not carry out the operation.
	// Nothing else is set then, but for Count: a Kick, Flush or MoveJobs that fails
	// between two of its parts has been done with at least so many jobs.
	Err error

	ID     uint64
	Body   []byte       // must not be changed
	Buffer *body.Buffer // of Body; one use of it is the caller's from Done on; nil: Body has none
	Count  int

	// Soon is set by a Take that found nothing: how long until the holder has to
	// be told DEADLINE_SOON, if it still waits then. Zero or less: now.
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

// Figures are what a store contributes to the stats page.
type Figures struct {
	tube.Totals
	Log Log

	// Instances is how many servers share the store at present, as far as is
	// known; 0 for a store that only one server can have.
	Instances uint64
}

// Log describes a store's files, in the words of beanstalkd's binlog.
type Log struct {
	OldestIndex, CurrentIndex       uint64
	RecordsMigrated, RecordsWritten uint64
	MaxSize                         uint64 // of one file in bytes
}
