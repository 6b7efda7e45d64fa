package differ

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"
)

// episode is one script played on one pair of fresh servers.
type episode struct {
	judge, subject *side
	timed          bool
	unordered      bool // see Config
	max            int  // the longest body allowed
	patience       time.Duration
	lag            time.Duration // see Config
	stale          bool          // figures that lag can be out of date

	conns map[int]*conn
	gone  map[int]bool // connections that have ended
	sums  sums

	jobs      map[int]*job // by label
	byJudge   map[uint64]int
	bySubject map[uint64]int
	fresh     int   // the last label of a job that the script does not name
	alive     []int // labels, by insertion, of jobs not known to be deleted

	// census: the last step has no reply that shows that it was executed, so
	// the figures must show it.
	census   bool
	draining bool

	events []event // what is due, if timed

	// The current commands were executed between begun and done: the time is not known
	// better.
	begun, done time.Time
	// slow is the longest delay of a wake-up of this process, or of the judge
	// becoming idle: the machine stood still, or was busy.
	slow time.Duration
	// void: a step has ended near an event, where it is random what
	// happens first.
	void bool

	// stalled is the longest duration of a step, an event or a put, in seconds,
	// rounded up if it was not immediate: by that much the times of jobs can
	// differ.
	stalled int
	delays  map[uint64]bool // long ones that were sent, by what is apart

	frameAfter *framer // of the step last previewed
	script     []step  // what was admitted
	log        []entry
	compared   int // commands
	covered    Coverage
}

// conn is what the rules need to know about a connection.
type conn struct {
	frame      *framer
	pending    []*sentCommand // commands sent of which the reply has not come
	used       string
	watched    []string
	held       map[int]bool // labels of jobs reserved
	halfClosed bool
	behind     int // bytes sent after a waiting reserve
}

type job struct {
	judge, subject uint64 // ids
	ttr            int    // seconds, 0 if it is unknown
}

// entry is one executed step, for the printed script.
type entry struct {
	step step
	at   time.Time
	came []answer
	end  []int // connections that the servers closed
}

// answer is a reply of the judge.
type answer struct {
	conn  int
	to    *sentCommand
	reply reply
}

// errVoid means that the machine was too slow for a timed script.
var errVoid = errors.New("a step came too near an event")

func (e *episode) newConn() *conn { return newConn(e.max, &e.sums) }

func newConn(maxBody int, sums *sums) *conn {
	return &conn{
		frame: &framer{max: maxBody, sums: sums}, used: "default",
		watched: []string{"default"}, held: make(map[int]bool),
	}
}

// waits reports whether the connection waits in a reserve, on a server that is idle or has only
// been reminded of a TTR.
func (c *conn) waits() bool { return len(c.pending) > 0 && c.pending[0].blocks }

// heldBy returns the jobs that a connection has reserved, in the order of their labels.
func (e *episode) heldBy(id int) []int {
	if c := e.conns[id]; c != nil {
		return slices.Sorted(maps.Keys(c.held))
	}
	return nil
}

// over reports whether the server is to close the connection.
func (c *conn) over() bool { return c.halfClosed || c.frame.over }

func (e *episode) judgeID(label int) (uint64, bool) {
	j := e.jobs[label]
	if j == nil {
		return 0, false
	}
	return j.judge, true
}

func (e *episode) subjectID(label int) (uint64, bool) {
	j := e.jobs[label]
	if j == nil {
		return 0, false
	}
	return j.subject, true
}

// play makes the steps that next returns until there are no more. Steps that
// the rules do not admit are left out.
func (e *episode) play(next func() (step, bool)) error {
	for {
		s, more := next()
		if !more {
			return nil
		}
		if e.admit(s) != "" {
			continue
		}
		if e.timed {
			arming := slices.ContainsFunc(e.nextCommands(s), func(a *sentCommand) bool { return e.arms(s.conn, a) })
			if err := e.awaitGap(arming); err != nil {
				return err
			}
			if e.admit(s) != "" { // events meanwhile can forbid it
				continue
			}
		}
		e.script = append(e.script, s)
		if err := e.perform(s); err != nil {
			return err
		}
	}
}

// nextCommands returns the commands that are executed because of a step.
func (e *episode) nextCommands(s step) []*sentCommand {
	c := e.conns[s.conn]
	if s.act != send {
		return nil
	}
	if c == nil {
		c = e.newConn()
	}
	return append(slices.Clone(c.pending), e.preview(c, s)...)
}

// perform makes one step and waits until both servers are idle.
func (e *episode) perform(s step) error {
	e.begun = time.Now()
	e.stale = e.lag > 0 && (e.stale || !e.asksOnly(s))
	e.log = append(e.log, entry{step: s, at: e.begun})
	if err := e.do(s); err != nil {
		return err
	}
	return e.finish()
}

func (e *episode) do(s step) error {
	switch s.act {
	case drain:
		e.draining, e.census = true, true
		if err := e.judge.server.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
		return e.subject.server.Signal(syscall.SIGUSR1)
	case hangUp:
		e.forget(s.conn)
		return nil
	case half:
		return e.halfClose(s.conn)
	case quiet:
		time.Sleep(e.lag)
		e.stale = false
		return nil
	}
	c := e.conns[s.conn]
	if c == nil {
		c = e.newConn()
		for _, side := range []*side{e.judge, e.subject} {
			if err := side.open(s.conn); err != nil {
				return err
			}
		}
		// A connection that is not accepted yet could be accepted after another
		// that is opened later.
		e.conns[s.conn], e.census = c, true
		if err := e.awaitBoth(); err != nil {
			return err
		}
		e.census = true
	}
	if err := e.transmit(s, c); err != nil {
		return err
	}
	if s.fin && !c.frame.over {
		return e.halfClose(s.conn)
	}
	return nil
}

// transmit sends the packet to both servers.
func (e *episode) transmit(s step, c *conn) error {
	closeWait := e.endsWithCloseWait(s, c)
	var forJudge, forSubject []byte
	for _, cmd := range s.commands {
		b := cmd.bytes(e.judgeID)
		for _, a := range c.frame.feed(b, cmd.label) {
			a.probesJudge, a.probesSubject = e.judge.probes, e.subject.probes
			if n, ok := a.longDelay(); ok {
				e.delays[n/apart], a.delayed = true, true
			}
			c.pending = append(c.pending, a)
		}
		forJudge = append(forJudge, b...)
		c.behind += len(b)
		forSubject = append(forSubject, cmd.bytes(e.subjectID)...)
	}
	if closeWait {
		c.pending[len(c.pending)-1].closeWait = true
	}
	if c.frame.over || !c.frame.idle() {
		e.census = true
	}
	if err := e.judge.write(s.conn, forJudge, s.cuts); err != nil {
		return fmt.Errorf("%s: %w", e.judge.name, err)
	}
	if err := e.subject.write(s.conn, forSubject, s.cuts); err != nil {
		return &Fault{Conn: s.conn, Verb: "send", Want: "the connection to stay open", Got: err.Error()}
	}
	return nil
}

func (e *episode) halfClose(id int) error {
	e.conns[id].halfClosed, e.census = true, true
	if err := e.judge.closeWrite(id); err != nil {
		return err
	}
	return e.subject.closeWrite(id)
}

// forget closes a connection on the side of this package.
func (e *episode) forget(id int) {
	e.judge.drop(id)
	e.subject.drop(id)
	delete(e.conns, id)
	e.gone[id], e.census = true, true
}

// tooSlow reports whether the machine can be the cause of a fault: if this process
// was that late, the servers can have been later than allowed.
func (e *episode) tooSlow() bool { return e.slow > lag/2 }

// lasted records how long something has taken until now.
func (e *episode) lasted(since time.Time) {
	if took := time.Since(since); took > time.Second/4 {
		e.stalled = max(e.stalled, int(took/time.Second)+1)
	}
}

// asksOnly reports whether a step only asks about tubes, on an open connection.
func (e *episode) asksOnly(s step) bool {
	return s.act == send && !s.fin && e.conns[s.conn] != nil &&
		!slices.ContainsFunc(e.nextCommands(s), func(a *sentCommand) bool { return a.verb != "stats-tube" && a.verb != "list-tubes" })
}
