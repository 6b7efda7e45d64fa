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

// Op is one operation and, once it is done, its answer.
type Op struct {
	Kind  Kind
	Move  tube.Move
	Role  tube.Role
	State tube.State
	Wait  bool // Take: the connection will wait for a wake-up if there is no job
	Info  bool // Take: the stats of the job are wanted; a store can answer with them (Job). TubeStats: Limits are wanted
	Trace bool // Take, and Move for tube.ReserveJob: Result.Traced is wanted
	First bool // Take: of the first tube in Tubes that has a ready job, whatever its priority

	Pri      uint32
	Delay    uint32          // seconds; Pause: the length of the pause
	TTR      uint32          // seconds
	Records  tube.RecordKind // GetRecord, ListRecords, DueRecords
	In       time.Duration   // from now: whole milliseconds, zero or more
	MaxJobs  uint32          // Kick, ListJobs, MoveJobs: the largest number of jobs
	MaxBytes uint32          // Take: the largest body in bytes; 0: any
	Delta    int             // Ref: how many connections more; negative: fewer
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
	Tags   *tube.Tags // of a Put. The store must not keep them after Done, but what they refer to
	Policy *tube.Policy
	Key    string
	To     string
	Cursor string
	Skip   int // ListHung: how many jobs come before those that are listed
	Lease  uint64
	Reason string // Move: see tube.Terms; a copy, at most tube.MaxReason bytes
	By     string // Move: the name of the client that holds the job, a copy, at most tube.MaxHolder bytes; "": it has none
	Data   []byte // Move: the result of a tube.Finish, or the checkpoint of a tube.SaveCheckpoint; a copy, at most tube.MaxResult or MaxCheckpoint bytes

	Progress       *string // Move: of tube.Touch, at most tube.MaxProgress bytes; nil: it stays as it is
	KeepCheckpoint bool    // Kick, Replay, Move: of tube.KickJob; else the jobs lose their checkpoints
	Import         *Import

	Settle *tube.Settlement

	Name     string         // of a schedule or a batch
	Schedule *tube.Schedule // kept by the store, with its Body

	Group       string // a group of Op.Tube
	GroupConfig *tube.GroupConfig

	Tallies *Tallies
}

// KeepingCheckpoint returns the arguments of what kicks jobs: whether they keep their checkpoints.
func KeepingCheckpoint(keep bool) *Args {
	if !keep {
		return nil
	}
	return &Args{KeepCheckpoint: true}
}

// Tallies are the arguments of AddTallies: From, Number and Rows; and of ReadTallies: Period and Count.
type Tallies struct {
	From   string           // who adds: no other process has the same name
	Number uint64           // of the operation, among those of From: each is higher than the one before
	Rows   []tube.TubeTally // one for each tube

	Period tube.Period
	Count  int // how many periods, the present one included; at most Period.Kept
}

// Answer is the result of an operation. Fields that the Kind does not set are zero.
type Answer struct {
	// NotFound: there is no such job or tube, or the move is not possible for the job. For
	// Take: no job is ready.
	NotFound bool

	Outcome tube.PutResult // of a Put with tags; PutRefused only for PutScheduled: else that is ErrQuota; with PutSealed nothing was put
	State   tube.State     // of the job in the answer to a Put with tags; Gone if only the tombstone of a job has the key

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
	Lease  uint64
	Traced *tube.JobStats // with Op.Trace, of a job with a trace; only what its put and the counters say
	Policy *tube.Policy
	Jobs   []tube.JobStats
	Cursor string
	Import *ImportState

	Groups      []tube.GroupStats
	GroupConfig *tube.GroupConfig

	Records []tube.NamedRecord // must not be changed
	Tallies []tube.PeriodTally
	Parts   int          // GetRecord, ListRecords: how many parts the store has
	Now     tube.Instant // the time of the store; of the parts of a store, the latest

	Ended   []*tube.Ended
	NotKept bool // tube.Finish, and nothing was done, or WaitEnded: no record of the job would be kept

	Elsewhere string // tube.ReserveJob and Expire, NotFound: another instance holds the job, which may be dead. Its name, and a text that is another one after each sign of life of it
}

// recordsOf returns the records of a result, which can be nil, that are of a type.
func recordsOf[T tube.NamedRecord](r *Result) []T {
	if r == nil || len(r.Records) == 0 {
		return nil
	}
	all := make([]T, 0, len(r.Records))
	for _, record := range r.Records {
		if one, ok := record.(T); ok {
			all = append(all, one)
		}
	}
	return all
}

// Schedules and Batches return the records of a result that are such.
func (r *Result) Schedules() []*tube.Schedule { return recordsOf[*tube.Schedule](r) }
func (r *Result) Batches() []*tube.JobBatch   { return recordsOf[*tube.JobBatch](r) }

// Figures are a store's part of the stats page.
type Figures struct {
	tube.Totals
	Log Log

	// Ended and EndedBytes are how many records of ended jobs there are, and their bytes as tube.Ended.Bytes counts.
	Ended, EndedBytes uint64

	Hung uint64 // jobs that ListHung lists; on Redis it can have some for a TTR that have ended

	HeldKeys    uint64                // keys that stay taken although their jobs are gone, because of key-ttl; on Redis for up to a minute longer
	Checkpoints tube.CheckpointTotals // of all jobs

	OnDisk uint64 // jobs of which nothing is in memory; 0 on Redis

	// Instances is how many servers share the store at present, as far as is known; 0 for
	// a store that only one server can use.
	Instances uint64
}

// Log describes a store's files, in the words of beanstalkd's binlog.
type Log struct {
	OldestIndex, CurrentIndex       uint64
	RecordsMigrated, RecordsWritten uint64
	MaxSize                         uint64 // of one file in bytes
	Refusing                        string // as in Disk

	LastBackup time.Time // of which moment the last backup is; zero: there was none, or the engine writes none
}
