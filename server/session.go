package server

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/jobbatch"
	"redstalk/server/limits"
	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage"
	"redstalk/storage/body"
	"redstalk/tube"
)

// session is the state machine of one connection. It never blocks. Everything that happens to it
// is a signal. The goroutine that signals runs the session until there is nothing to do before the
// next signal, unless another goroutine is running it already. So one goroutine runs it at a time,
// and all fields except signals belong to that goroutine.
//
// In plan.go commands become operations, in answer.go answers become replies. reserve.go has the
// reserve that waits, sessionend.go the end.
type session struct {
	server    *Server
	queue     *queue.Queue
	schedules *schedule.Service
	batches   *jobbatch.Service
	wire      netpoll.Wire
	in        *protocol.Reader
	out       *protocol.Writer
	log       *slog.Logger // nil unless commands are logged
	holder    tube.Holder

	signals   atomic.Uint32 // signals not handled yet, and running
	done      chan struct{} // closed when the session has ended
	phase     phase
	submitter netpoll.Submitter // the loop iteration that runs it, else its wire
	readable  bool              // the wire may have bytes
	fills     int               // reads since the wire last woke it
	reads     uint64
	cause     error // why the connection ends

	name     string   // that the client has given the connection; "" if none
	from     net.Addr // of the client
	entrance string   // how the connection has come in
	began    time.Time
	inquiry  atomic.Pointer[inquiry] // who wants to know about the connection; nil: nobody

	used       string
	watched    watchlist
	unwatching []string // tubes that it has to stop watching at its end

	command    protocol.Command // the one being planned
	held       bool             // command was read, but must wait until the burst before it is answered
	requests   []request
	next       int  // index of the first request without a reply
	blocking   bool // a reserve of this burst may have to wait
	waited     bool // a reserve of this burst has waited: answers of takes after it are out of date
	endsBurst  bool // the last request ends its burst
	bytes      int  // of bodies in this burst
	tubes      int  // that this burst names, or in which it looks for jobs
	yieldFirst bool // the loop serves others before the next burst
	batch      storage.Batch
	followUp   storage.Batch // operations of the same burst after those of batch; also askHoldings

	wakeUps     uint64        // of the queue, before the takes of the burst
	waiter      *queue.Waiter // for reserves of the connection
	leaseWaiter *queue.Waiter // for reserves by lease; nil before the first one that waits
	waiting     *queue.Waiter // that of the two that waits, or waited last
	giveBack    []storage.Op  // operations that give back a job which came after the client had gone
	cancelling  bool          // its wait was cancelled while a dispatch served it

	endWait endWait       // of a wait-job or a reserve-job
	lives   sighting      // of the instance that held the job of the last reserve-job
	by      *storage.Args // see holderArgs; nil before the first delete under a name

	counts pendingCounts

	arrival *limits.Arrival // the body that has come in part, see incoming.go

	unread atomic.Int64 // bytes of replies that the client has not read, see updateUnread

	principal *principal // who the client is; nil: everybody may do everything
	recent    []uint64   // jobs that it has reserved, for the audit; nil: none

	timer      *time.Timer // of phase delivering
	closeDelay time.Duration
	idleCheck  idleCheck

	halfClosed       bool // the client has closed its half: nothing more will come
	quit             bool
	producer, worker bool
}

// phase is what a session is waiting for, if anything.
type phase uint8

const (
	acting      phase = iota // for nothing: it reads, plans and answers
	storing                  // for the store
	waiting                  // for a job
	awaitingEnd              // for the end of a job
	verifying                // for the result of an auth
	asking                   // for the answer to a question
	ending                   // for the store to release what the connection held
	delivering               // for the client to receive the last replies
	ended
)

// The signals of a session. running is set while a goroutine runs it.
const (
	running uint32 = 1 << iota
	begun
	woken             // the wire woke it
	stored            // the store is done
	served            // the wait has an outcome
	jobEnded          // a job can have ended for which the session waits
	verified          // an auth has its result
	asked             // its question has an answer
	describe          // somebody wants to know about the connection
	aclChanged        // the file of users has changed
	timerFired        // the timer has fired
	checkTime         // time to check the time limits
	replyMemoryNeeded // other clients need the memory of its buffered replies
	bodyRoom          // there is memory for the rest of a body
	bodyMemoryNeeded  // other clients need the memory of that body
	shutdown          // the server closes
	forceClose        // the server stops waiting for its connections
)

// signal sends the session a signal, and runs it unless another goroutine does.
//
// The session then submits its batches through the wire. It must not call the store from here: the
// caller can be the store, in a Done while the Dones of other batches wait, and a store that writes
// in the caller's goroutine would recurse.
func (s *session) signal(sig uint32) {
	if s.raise(sig) {
		s.run(s.wire)
	}
}

// raise adds a signal. It reports whether the caller has to run the session: then running is set, and
// stays set until run returns.
func (s *session) raise(sig uint32) bool {
	return s.signals.Or(sig|running)&running == 0
}

// request is a command that was read and is not answered yet.
type request struct {
	verb       protocol.Verb
	fault      protocol.Fault
	wrong      string // with a fault: which tag is wrong and what is expected; "": no tag is
	counted    bool
	producer   bool           // makes the connection a producer
	waits      bool           // a reserve: waits if there is no job; a wait-job: waits if the job has not ended
	op         int            // index in batch.Ops of its first operation, -1 if it needs none
	remaining  int            // reserve-batch: how many more jobs are wanted; delete-batch: how many ids there are
	answered   int            // reserve-batch: how many jobs were taken
	bytes      int            // reserve-batch: bytes of the bodies of those jobs
	bodyShare  int            // reserve-batch: limit for the body of each of the last takes, in bytes; 0: none
	unexamined bool           // reserve-batch: several takes were planned, and none was examined yet
	single     bool           // reserve-batch: the next take is for one job
	info       bool           // reserve-batch, reserve-lease: each job is answered with its info
	infoRead   bool           // the stats for that were read: they follow the takes that found a job
	saved      int            // index in batch.Ops of the next of the checkpoints that were read then; 0: they were not
	name       string         // of a tube
	names      []string       // of tubes
	watchCount int            // how many tubes are watched
	timeout    time.Duration  // of a reserve or wait-job
	retaken    bool           // a reserve: its take was repeated, see retake
	attempt    *authAttempt   // auth: the verification
	ask        *question      // list-clients, stats-job: what other servers are asked
	waited     bool           // a reserve: has waited
	reply      func(*session) // writes the reply, if that is known already

	act *act // it is an act that is logged; nil: it is none

	waitsForLookup bool         // see lookups.go
	rights         access.Right // of a command that shows a body or a checkpoint: on the tube of the job
}

// authAttempt is an auth that is not answered yet. From the moment when started is set, it belongs
// to the verifying goroutine, until that signals the session.
type authAttempt struct {
	name, secret string
	started      bool
	giveUp       context.CancelFunc // nil: nothing was started
	login        *access.Login      // nil: name or secret is wrong
	err          error              // why login is nil
}

// idleCheck is what a session remembers from one check of its time limits to the next.
type idleCheck struct {
	reads          uint64    // session.reads at the last check
	idleSince      time.Time // since then nothing has come and nothing was done
	drained        uint64    // wire.Drained at the last check
	stalledSince   time.Time // since then the client has read none of the buffered bytes; zero if there are none
	askingHoldings bool      // the store is being asked whether the connection holds jobs
	leaving        bool      // the client had closed at the last check, while an auth was verified
}

// pendingCounts are what a session has counted and not added to the shared counters yet: bytes, and
// replies to commands of one verb with the same result. So many commands of a burst cost one
// addition to memory that processors share.
type pendingCounts struct {
	verb           protocol.Verb
	result         queue.Result
	replies        uint64
	received, sent uint64 // bytes that were added already
}

const (
	// maxBurst limits how many commands of one connection go to the store in one batch: a
	// burst.
	maxBurst = 64

	// maxBurstOps limits the operations of a burst. The last command can have any number.
	maxBurstOps = 4 * maxBurst

	// maxBurstBytes limits the bytes of the bodies in a burst. One body can be larger.
	maxBurstBytes = 1 << 20

	// maxBurstTubes limits the tubes in which a burst looks for jobs, or which it names. The
	// last command can do that for any number.
	maxBurstTubes = queue.MaxTubes
)

// addOp appends an operation to the batch. r is answered with its answer.
func (s *session) addOp(r *request, op storage.Op) {
	r.op = len(s.batch.Ops)
	s.batch.Ops = append(s.batch.Ops, op)
}

// addRef appends an operation that counts this connection as a user or watcher of tubes (delta 1), or no
// longer (delta -1).
func (s *session) addRef(role tube.Role, delta int, names ...string) {
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.Ref, Role: role, Delta: delta, Tubes: names})
}

// releaseAnswers empties the batch. It releases the bodies that were not passed to the writer.
func (s *session) releaseAnswers() {
	for i := range s.batch.Ops {
		op := &s.batch.Ops[i]
		if op.Answer.Buffer.Release(); op.Kind == storage.Put && op.Args != nil {
			putArgs.Put(op.Args)
		}
	}
	clear(s.batch.Ops)
	s.batch.Ops = s.batch.Ops[:0]
}

// takeBuffer takes the reference to the body's Buffer, which comes from newBuffer, from a command. It
// returns nil if the body has none.
func takeBuffer(c *protocol.Command) *body.Buffer {
	b, _ := c.Buffer.(*body.Buffer)
	c.Buffer = nil
	return b
}
