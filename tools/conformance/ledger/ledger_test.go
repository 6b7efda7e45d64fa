package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/server"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/conformance/ledger"
	"redstalk/tube"
)

// patience is the timeout of every load and audit, much longer than expected.
const patience = time.Minute

// liar is a store that executes operations one at a time, in a configurable way.
type liar struct {
	storage.Store
	do func(storage.Store, *storage.Op)
}

func (l *liar) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		for i := range b.Ops {
			l.do(l.Store, &b.Ops[i])
		}
		b.Done()
	}
}

// honestly executes an operation correctly. It can be called twice for one.
func honestly(s storage.Store, op *storage.Op) {
	ops := []storage.Op{*op}
	op.Buffer.Retain()
	storage.DoWait(s, ops)
	op.Answer = ops[0].Answer
}

func isDelete(op *storage.Op) bool {
	return op.Kind == storage.Move && op.Move == tube.Delete
}

// torn is a listener whose connections break after some replies, in the middle
// of one.
type torn struct{ net.Listener }

func (l torn) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &tornConn{Conn: conn}, err
}

type tornConn struct {
	net.Conn
	left atomic.Int64
}

func (c *tornConn) Write(p []byte) (int, error) {
	if c.left.Add(1) < 40 || len(p) < 4 {
		return c.Conn.Write(p)
	}
	c.Conn.Write(p[:len(p)-3]) // the line's end, and the last digit of an id
	c.Conn.Close()
	return 0, io.ErrClosedPipe
}

// garbling is a listener whose connections misspell a reply.
type garbling struct{ net.Listener }

func (l garbling) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return garblingConn{conn}, err
}

type garblingConn struct{ net.Conn }

func (c garblingConn) Write(p []byte) (int, error) {
	return c.Conn.Write(bytes.Replace(p, []byte("BURIED"), []byte("BURRIED"), 1))
}

// serve runs a server on the store until the test ends.
func serve(t *testing.T, store storage.Store, wrap func(net.Listener) net.Listener) (addr string) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{Version: "test", Log: log})
	s := server.New(q, server.Config{Log: log})
	served := make(chan error, 1)
	go func() { served <- s.Serve(wrap(inner)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-served
		if err := q.Close(ctx); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return inner.Addr().String()
}

func asIs(l net.Listener) net.Listener { return l }

// loads are the kinds of clients that find out everything, each kind alone.
var loads = map[string]ledger.Config{
	"one by one": {},
	"bursts":     {Bursters: 3, Kickers: 1, MaxBurst: 40, BurstPace: time.Millisecond, LargestBody: 1000},
}

// load runs a ledger on a store with this behaviour, until it has misbehaved often
// enough, which is every 20th time that it can, and audits. The
// first error is that of Check, the second one that of Drain.
func load(t *testing.T, config ledger.Config, do func(s storage.Store, op *storage.Op, count func() bool), enough int64,
	wrap func(net.Listener) net.Listener) (ledger.Report, error, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	var counted, asked atomic.Int64
	addr := serve(t, &liar{embedded.NewMemory(), func(s storage.Store, op *storage.Op) {
		do(s, op, func() bool {
			if asked.Add(1)%20 != 0 || running.Err() != nil {
				return false
			}
			if counted.Add(1) == enough {
				stop()
			}
			return true
		})
	}}, wrap)
	config.Addrs, config.Seed, config.MaxBody = []string{addr}, 1, 300
	l := ledger.New(config)
	l.Run(running)
	if ctx.Err() != nil {
		t.Fatalf("no end was seen: %v", l.Report())
	}
	checked := l.Check(ctx)
	drained := l.Drain(ctx)
	return l.Report(), checked, drained
}

// lies are faults of a server, with the name that the ledger gives them.
var lies = []struct {
	name string
	do   func(s storage.Store, op *storage.Op)
	is   func(op *storage.Op) bool
	late bool // only the last audit can find it
	got  func(ledger.Report) int
}{
	{name: "a put is lost", is: isPut, got: func(r ledger.Report) int { return r.Lost },
		do: func(s storage.Store, op *storage.Op) {
			honestly(s, op)
			honestly(s, &storage.Op{Kind: storage.Move, Move: tube.Delete, ID: op.Answer.ID})
		}},
	{name: "a delete is not done", is: isDelete, got: func(r ledger.Report) int { return r.Undead },
		do: func(s storage.Store, op *storage.Op) {
			release := *op
			release.Move = tube.Release
			honestly(s, &release)
			op.Answer = storage.Answer{}
		}},
	{name: "a put is done twice", is: isPut, got: func(r ledger.Report) int { return r.Twice },
		do: func(s storage.Store, op *storage.Op) { honestly(s, op); again := *op; honestly(s, &again) }},
	{name: "a body is changed", is: isPut, got: func(r ledger.Report) int { return r.Changed },
		do: func(s storage.Store, op *storage.Op) {
			op.Body = append(bytes.Clone(op.Body[:len(op.Body)-1]), op.Body[len(op.Body)-1]^1)
			honestly(s, op)
		}},
	{name: "a body is replaced", is: isPut, got: func(r ledger.Report) int { return r.Changed + r.Strange },
		do: func(s storage.Store, op *storage.Op) { op.Body = []byte("ledgers"); honestly(s, op) }},
	{name: "an id is given twice", is: isPut, got: func(r ledger.Report) int { return r.Reused },
		do: func(s storage.Store, op *storage.Op) { honestly(s, op); op.Answer.ID = 1 }},
	{name: "a refused put is done", is: isPut, late: true, got: func(r ledger.Report) int { return r.Strange },
		do: func(s storage.Store, op *storage.Op) {
			honestly(s, op)
			op.Answer = storage.Answer{Err: storage.ErrNoSpace}
		}},
	{name: "a refused put is done later", is: isPut, late: true, got: func(r ledger.Report) int { return r.Strange },
		do: func(s storage.Store, op *storage.Op) {
			op.Delay = 1000
			honestly(s, op)
			op.Answer = storage.Answer{Err: storage.ErrNoSpace}
		}},
	{name: "a job comes from nowhere", is: isPut, late: true, got: func(r ledger.Report) int { return r.Strange },
		do: func(s storage.Store, op *storage.Op) {
			honestly(s, op)
			honestly(s, &storage.Op{Kind: storage.Put, Tube: op.Tube, TTR: 60, Body: []byte("ledger 99 99\r\n")})
		}},
	{name: "a delete of the holder is refused but done", is: isDelete, got: func(r ledger.Report) int { return r.Lost },
		do: func(s storage.Store, op *storage.Op) { honestly(s, op); op.Answer = storage.Answer{NotFound: true} }},
}

// TestLies: every fault of a server is found, under its name.
func TestLies(t *testing.T) {
	for _, test := range lies {
		for kind, config := range loads {
			t.Run(test.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				report, checked, drained := load(t, config, func(s storage.Store, op *storage.Op, count func() bool) {
					if test.is(op) && count() {
						test.do(s, op)
					} else {
						honestly(s, op)
					}
				}, 10, asIs)
				if checked == nil && !test.late || drained == nil || test.got(report) == 0 {
					t.Errorf("not found out: %v", report)
				}
			})
		}
	}
}

func isPut(op *storage.Op) bool { return op.Kind == storage.Put }

// reservations is a behaviour of a server with reservations.
type reservations struct {
	name   string
	do     func(storage.Store, *storage.Op)
	excuse string
	enough func(ledger.Report) bool
	want   bool          // that it is found out
	freeze time.Duration // how long holders do, at least
}

// TestReservations: a server that takes jobs from their holders is found out, unless
// there is an excuse.
func TestReservations(t *testing.T) {
	mean := func(s storage.Store, op *storage.Op) {
		honestly(s, op)
		if op.Kind == storage.Take && op.Answer.ID%3 == 1 {
			honestly(s, &storage.Op{Kind: storage.Move, Move: tube.Release, Holder: op.Holder, ID: op.Answer.ID})
		}
	}
	// obliging acknowledges every command, also of a client that does not hold the job.
	obliging := func(s storage.Store, op *storage.Op) {
		if mean(s, op); op.Answer.NotFound && op.Kind == storage.Move {
			op.Answer = storage.Answer{}
		}
	}
	for _, test := range []reservations{
		{"honest", honestly, "", func(r ledger.Report) bool { return r.PutsAcked > 300 && r.DeletesAcked > 200 }, false, 0},
		{"frozen holders", honestly, "", func(r ledger.Report) bool { return r.Frozen > 20 && r.DeletesAcked > 200 }, false, 10 * time.Millisecond},
		{"no excuse", mean, "", func(r ledger.Report) bool { return r.Contested > 0 && r.Robbed > 0 }, true, 0},
		{"deleted twice", obliging, "", func(r ledger.Report) bool { return r.DeletedTwice > 0 && r.Robbed > 0 }, true, 0},
		{"an excuse", mean, "killed", func(r ledger.Report) bool { return r.Shared["killed"] > 20 && r.Overtaken > 20 }, false, 0},
	} {
		for _, bursters := range []int{0, 8} {
			t.Run(fmt.Sprintf("%s, %d bursters", test.name, bursters), func(t *testing.T) {
				t.Parallel()
				test.check(t, bursters)
			})
		}
	}
}

// check runs a load on such a server until it was enough.
func (test *reservations) check(t *testing.T, bursters int) {
	addr := serve(t, &liar{embedded.NewMemory(), test.do}, asIs)
	record := ledger.New(ledger.Config{
		Addrs: []string{addr}, Seed: 1, MaxBody: 300, Consumers: 8 - bursters, Producers: 4, Bursters: bursters, MaxBurst: 30, BurstPace: time.Millisecond,
		MinFreeze: test.freeze, MaxFreeze: 2 * test.freeze,
		Excuse: func(ok string, _ time.Time) string {
			if ok != addr {
				t.Errorf("an excuse for %s, not %s", ok, addr)
			}
			return test.excuse
		},
	})
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	go func() {
		for ctx.Err() == nil && !test.enough(record.Report()) {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	record.Run(ctx)
	r := record.Report()
	if found := r.Contested+r.Robbed > 0; found != test.want || !test.enough(r) {
		t.Errorf("not what was to be seen: %v", r)
	}
}

// TestForeign: an id is given to a put of another program, and to one of the ledger's.
func TestForeign(t *testing.T) {
	record := ledger.New(ledger.Config{
		Addrs: []string{serve(t, embedded.NewMemory(), asIs)}, Producers: 1,
		Excuse: func(string, time.Time) string { return "" },
	})
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	record.Foreign(1)
	record.Foreign(1 << 40)
	if r := record.Report(); r.Reused != 0 {
		t.Error(r)
	}
	go func() {
		for ctx.Err() == nil && record.Report().PutsAcked < 3 {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	record.Run(ctx)
	if r := record.Report(); r.Reused != 1 {
		t.Error(r, "an id that was somebody else's before")
	}
	record.Foreign(2)
	if r := record.Report(); r.Reused != 2 {
		t.Error(r, "an id that is somebody else's afterwards")
	}
}

// TestMiscount: the pages report one job too many.
func TestMiscount(t *testing.T) {
	report, checked, _ := load(t, ledger.Config{}, func(s storage.Store, op *storage.Op, count func() bool) {
		honestly(s, op)
		if op.Kind == storage.Put {
			count()
		}
		if op.Kind == storage.TubeStats && op.Answer.TubeStats != nil {
			op.Answer.TubeStats.Ready++
		}
	}, 10, asIs)
	if checked == nil || report.Miscounted == 0 {
		t.Errorf("not found out: %v", report)
	}
}

// TestGarbled: a malformed reply is distinguished from a missing one.
func TestGarbled(t *testing.T) {
	report, checked, _ := load(t, ledger.Config{}, func(s storage.Store, op *storage.Op, count func() bool) {
		honestly(s, op)
		if op.Kind == storage.Put {
			count()
		}
	}, 50, func(l net.Listener) net.Listener { return garbling{l} })
	if checked == nil || report.Garbled == 0 || report.Broken < report.Garbled {
		t.Errorf("not found out: %v", report)
	}
}

// TestHonest: no fault is reported for a correct server, even if its
// connections fail in the middle of replies, or the result of an operation is
// unknown.
func TestHonest(t *testing.T) {
	always := func(s storage.Store, op *storage.Op, count func() bool) {
		honestly(s, op)
		if op.Kind == storage.Put {
			count()
		}
	}
	clueless := func(done bool) func(storage.Store, *storage.Op, func() bool) {
		return func(s storage.Store, op *storage.Op, count func() bool) {
			fails := (op.Kind == storage.Put || isDelete(op)) && count()
			if !fails || done {
				honestly(s, op)
			}
			if fails {
				op.Answer = storage.Answer{Err: storage.ErrUnavailable}
			}
		}
	}
	tests := []struct {
		name string
		do   func(storage.Store, *storage.Op, func() bool)
		wrap func(net.Listener) net.Listener
		saw  func(ledger.Report) bool
	}{
		{"sound", always, asIs, func(r ledger.Report) bool { return r.PutsUnknown == 0 && r.Broken == 0 }},
		{"torn", always, func(l net.Listener) net.Listener { return torn{l} },
			func(r ledger.Report) bool { return r.PutsUnknown > 0 && r.DeletesUnknown > 0 && r.Broken > 0 }},
		{"done without saying so", clueless(true), asIs, func(r ledger.Report) bool { return r.InternalErrors > 0 }},
		{"not done without saying so", clueless(false), asIs, func(r ledger.Report) bool { return r.InternalErrors > 0 }},
	}
	for _, test := range tests {
		for kind, config := range loads {
			t.Run(test.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				report, checked, drained := load(t, config, test.do, 50, test.wrap)
				if err := errors.Join(checked, drained); err != nil {
					t.Error(err)
				}
				saw := test.saw(report)
				if kind == "bursts" { // of a packet that is torn one reply is missing, of whatever
					saw = saw || report.Broken > 0 && report.DeletesUnknown > 0
				}
				if report.PutsAcked < 300 || report.DeletesAcked+report.DeletesUnknown < report.PutsAcked || report.Live != 0 || !saw {
					t.Errorf("not what was to be seen: %v", report)
				}
			})
		}
	}
}

// TestUnanswered: the time of a client without an answer is recorded, and
// the load still ends.
func TestUnanswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody accepts: connections wait in the backlog
	const patience = 20 * time.Millisecond
	record := ledger.New(ledger.Config{Addrs: []string{l.Addr().String()}, Producers: 1, Patience: patience})
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	record.Run(ctx)
	r := record.Report()
	if r.LongestUnanswered < 4*patience || r.PutsUnknown != r.Puts || r.Puts < 2 || r.Err() != nil {
		t.Error(r, r.Err())
	}
	if err := record.Check(ctx); err == nil || !strings.Contains(err.Error(), "came to no end") {
		t.Error(err)
	}
}
