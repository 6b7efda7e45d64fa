package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// These tests make calls of the script fail in the link, with every possible error, before
// they are sent or after they were carried out. They run in virtual time, on a real Redis,
// whose clock goes on.

// redisError is an error that Redis answers.
type redisError string

func (s redisError) Error() string { return string(s) }
func (redisError) RedisError()     {}

// fault is what happens to a call: it is not sent, and fails; or it is carried out, and then
// fails; or nothing, if both are nil.
type fault struct{ before, after error }

// faultPlan decides about calls of the script.
type faultPlan struct {
	mu      sync.Mutex
	fates   []fault // of the next calls
	forever fault   // of all later ones
	meets   int     // calls that failed

	then   func()                // called when a call was carried out and fails; may be nil
	garble func(parts []any) any // changes what calls return; may be nil
}

// set sets the faults of the next calls, and of all others.
func (d *faultPlan) set(forever fault, next ...fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fates, d.forever, d.meets = next, forever, 0
}

// failed returns how many calls have failed since set.
func (d *faultPlan) failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meets
}

func (d *faultPlan) next() fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.forever
	if len(d.fates) > 0 {
		f, d.fates = d.fates[0], d.fates[1:]
	}
	if f != (fault{}) {
		d.meets++
	}
	return f
}

// faultyLink is a link with a faultPlan.
type faultyLink struct {
	*faultPlan
	conn.Link
	fate fault
	left []string // of the commands that were sent, those that are not answered
}

func (b *faultyLink) Send(node conn.Node, commands ...[]any) error {
	b.left = b.left[:0]
	for _, words := range commands {
		b.left = append(b.left, fmt.Sprint(words[0]))
	}
	call := slices.IndexFunc(b.left, isScript)
	if call < 0 { // bodies are read
		return b.Link.Send(node, commands...)
	}
	b.fate = b.next()
	words := commands[call]
	if b.fate.before == outOfMemory && strings.Contains(fmt.Sprint(words...), "full=1") {
		b.fate = fault{} // as Redis does
	}
	if b.fate.before != nil {
		return b.fate.before
	}
	return b.Link.Send(node, commands[:call+1]...)
}

// isScript returns whether a command runs a script.
func isScript(command string) bool { return command == "evalsha" || command == "eval" }

// Receive answers for the replicas, of which there are none: what was to wait for them
// was not sent, and fails or not.
func (b *faultyLink) Receive() (any, error) {
	what, waits := b.left[0], len(b.left) > 1
	b.left = b.left[1:]
	if what == "wait" {
		return int64(1), b.fate.after
	}
	if !isScript(what) {
		return b.Link.Receive()
	}
	answer, err := b.Link.Receive()
	if waits {
		return answer, err
	}
	if b.fate.after != nil {
		if err == nil {
			answer, err = nil, b.fate.after
		}
		if b.then != nil {
			b.then()
		}
	}
	if err == nil && b.garble != nil {
		answer = b.garble(answer.([]any))
	}
	return answer, err
}

// harness is a store with a faultyLink, and the answers that its clients got.
type harness struct {
	*Store
	*faultPlan
	t     *testing.T
	ahead *atomic.Int64 // of the clock of Redis
	held  uint64        // a job that holder 3 has

	puts, maybePut   int // acknowledged; answered with an error
	gone, maybeTaken int // deletes acknowledged; answered with an error
}

// inVirtualTime runs a test on its own store for each failure, in two variants: nothing was
// carried out before it, or a call was, whose reply was lost.
func inVirtualTime(t *testing.T, o Options, failures map[string]error, test func(h *harness, failure error, before fault)) {
	o.URL = redistest.Start(t).URL()
	n := 0
	for name, failure := range failures {
		for history, before := range map[string]fault{
			"at once": {before: failure}, "after a lost answer": {after: io.EOF},
			"at once, large": {before: failure}, "after a lost answer, large": {after: io.EOF},
		} {
			if n++; !inThisHalf(n) {
				continue
			}
			t.Run(name+" "+history, func(t *testing.T) {
				o := o
				if strings.HasSuffix(history, "large") {
					o.largeFrom = 1
				}
				o.Namespace = strings.ReplaceAll(t.Name(), "/", ".")
				synctest.Test(t, func(t *testing.T) {
					h := newHarness(t, o)
					test(h, failure, before)
					h.set(fault{})
					h.Close()
				})
			})
		}
	}
}

// newHarness opens the store. There are two ready jobs, and one that holder 3 has.
func newHarness(t *testing.T, o Options) *harness {
	t.Helper()
	h := &harness{t: t, faultPlan: &faultPlan{}, ahead: new(atomic.Int64)}
	o.skew, o.leaseSetFrom = func() time.Duration { return time.Duration(h.ahead.Load()) }, 2
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	replicas := o.WaitReplicas
	o.WaitReplicas = 0 // there are none before the faulty link is in place
	var err error
	if h.Store, err = Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	h.parts[0].link = &faultyLink{faultPlan: h.faultPlan, Link: h.parts[0].link}
	h.parts[0].options.WaitReplicas = replicas
	for range 3 {
		if a := do(h.Store, put("x")); a.Err != nil {
			t.Fatal(a.Err)
		}
		h.puts++
	}
	h.held = do(h.Store, take(3)).ID
	return h
}

// runBatches runs the batches of three connections at the same time, in one call: one puts, one
// takes a job and puts another, one deletes what it has and takes the next. It returns the
// answers, and how long they took.
func (h *harness) runBatches() (answers []storage.Answer, took time.Duration) {
	begun := time.Now()
	var all sync.WaitGroup
	all.Add(3)
	batches := []*storage.Batch{
		{Ops: []storage.Op{put("a")}, Done: all.Done},
		{Ops: []storage.Op{take(2), put("b")}, Done: all.Done},
		{Ops: []storage.Op{move(tube.Delete, 3, h.held), take(3)}, Done: all.Done},
	}
	h.Do(batches...)
	all.Wait()
	for _, b := range batches {
		for i := range b.Ops {
			h.count(&b.Ops[i])
			answers = append(answers, b.Ops[i].Answer)
		}
	}
	return answers, time.Since(begun)
}

// count counts what was acknowledged.
func (h *harness) count(op *storage.Op) {
	failed := op.Answer.Err != nil
	switch {
	case op.Kind == storage.Put && failed:
		h.maybePut++
	case op.Kind == storage.Put:
		h.puts++
	case op.Kind == storage.Move && failed:
		h.maybeTaken++
	case op.Kind == storage.Move && !op.Answer.NotFound:
		h.gone++
	}
}

// wantAll checks that all operations of runBatches were done.
func (h *harness) wantAll(answers []storage.Answer) {
	h.t.Helper()
	for i, a := range answers {
		if a.Err != nil || a.NotFound {
			h.t.Errorf("operation %d: %+v", i, a)
		}
	}
}

// wantNone checks that all operations of runBatches were answered with the error.
func (h *harness) wantNone(answers []storage.Answer, want error) {
	h.t.Helper()
	for i, a := range answers {
		if !errors.Is(a.Err, want) {
			h.t.Errorf("operation %d: %+v, want %v", i, a, want)
		}
	}
}

// verify ends all connections, lets some time pass, and compares what was acknowledged with
// what is there: each job once, none reserved.
func (h *harness) verify() {
	h.t.Helper()
	for holder := range tube.Holder(4) {
		do(h.Store, storage.Op{Kind: storage.ReleaseAll, Holder: holder})
	}
	var got tube.Totals
	for range 30 {
		time.Sleep(time.Second)
		h.ahead.Add(int64(time.Second))
		// A sleep in virtual time does not move the clock of Redis. The reply says so to the
		// store, whose next heartbeat would else seem to have been held up for a second.
		if got = figures(h.t, h.Store); got.Reserved == 0 {
			break
		}
		h.Tick()
	}
	gone := int(got.Jobs - got.Ready)
	if put := int(got.Jobs); put < h.puts || put > h.puts+h.maybePut || got.Reserved != 0 || gone < h.gone || gone > h.gone+h.maybeTaken {
		h.t.Errorf("%+v, but %d puts were acknowledged and %d not, %d deletes and %d not", got, h.puts, h.maybePut, h.gone, h.maybeTaken)
	}
	seen := make(map[uint64]bool)
	for a := do(h.Store, take(9)); !a.NotFound; a = do(h.Store, take(9)) {
		if a.Err != nil || seen[a.ID] {
			h.t.Fatalf("%+v, handed out before: %v", a, seen[a.ID])
		}
		seen[a.ID] = true
	}
	if len(seen) != int(got.Ready) {
		h.t.Errorf("%d jobs were handed out, want %d", len(seen), got.Ready)
	}
}

// passes are failures that end by themselves, or may.
var passes = map[string]error{
	"LOADING":       redisError("LOADING Redis is loading the dataset in memory"),
	"BUSY":          redisError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
	"READONLY":      redisError("READONLY You can't write against a read only replica."),
	"MASTERDOWN":    redisError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
	"NOREPLICAS":    redisError("NOREPLICAS Not enough good replicas to write."),
	"NOSCRIPT":      redisError("NOSCRIPT No matching script. Please use EVAL."),
	"CLUSTERDOWN":   redisError("CLUSTERDOWN The cluster is down"),
	"TRYAGAIN":      redisError("TRYAGAIN Multiple keys request during rehashing of slot"),
	"MISCONF":       redisError("MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."),
	"MOVED":         redisError("MOVED 3999 127.0.0.1:6381"),
	"ASK":           redisError("ASK 3999 127.0.0.1:6381"),
	"UNBLOCKED":     redisError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"),
	"wrapped":       redisError("ERR Error running script (call to f_0123): @user_script:1: -READONLY You can't write against a read only replica."),
	"wrapped twice": redisError("ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -MISCONF Redis is configured to save RDB snapshots"),
	"by a proxy":    redisError("ERR READONLY You can't write against a read only instance"),
	"clients":       redisError("ERR max number of clients reached"),
	"UNKILLABLE":    redisError("UNKILLABLE Sorry the script already executed write commands against the dataset."),
	"NOAUTH":        redisError("NOAUTH Authentication required."),
	"WRONGPASS":     redisError("WRONGPASS invalid username-password pair or user is disabled."),
	"refused":       &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
	"reset":         &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
	"pipe":          &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE},
	"closed":        io.EOF,
	"black hole":    &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded},
	"busy pool":     conn.ErrBusy,
}

// stays are failures that no waiting ends.
var stays = map[string]error{
	"NOPERM":      redisError("NOPERM this user has no permissions to run the 'evalsha' command"),
	"WRONGTYPE":   redisError("WRONGTYPE Operation against a key holding the wrong kind of value"),
	"ERR":         redisError("ERR unknown command 'evalsha'"),
	"other bytes": fmt.Errorf("%w: %T", errReply, 1),
}

// outOfMemory is what Redis says to a call that does not say that it can do
// without memory.
const outOfMemory = redisError("OOM command not allowed when used memory > 'maxmemory'.")

// TestTransientFailures: no client notices a failure that ends within the limit, whether or not
// the call was carried out before.
func TestTransientFailures(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, Options{}, passes, func(h *harness, failure error, before fault) {
		h.set(fault{}, before, fault{before: failure}, fault{before: failure})
		answers, took := h.runBatches()
		h.wantAll(answers)
		if n := h.failed(); n != 3 || took > time.Second {
			h.t.Errorf("%d attempts failed, and the answers came after %v", n, took)
		}
		h.verify()
	})
}

// TestOutlastsFailures: when a failure outlasts the limit, held-up and later operations are
// answered with an error. When it is over everything works, and nothing unacknowledged is done,
// except what had been done before.
func TestOutlastsFailures(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, Options{}, passes, func(h *harness, failure error, before fault) {
		h.set(fault{before: failure}, before)
		for range 2 {
			answers, took := h.runBatches()
			h.wantNone(answers, storage.ErrUnavailable)
			if took < DefaultTimeout || took > DefaultTimeout+time.Second {
				h.t.Errorf("the answers came after %v", took)
			}
		}
		if before.after == nil {
			h.maybePut, h.maybeTaken = 0, 0 // nothing can have been done
		}
		h.set(fault{})
		time.Sleep(2 * longestPause)
		if got := figures(h.t, h.Store); got.Reserved > 1 {
			h.t.Errorf("%d jobs are reserved, and only one connection got one", got.Reserved)
		}
		answers, _ := h.runBatches()
		for i, a := range answers {
			if a.Err != nil {
				h.t.Errorf("when it is over, operation %d: %+v", i, a)
			}
		}
		h.verify()
	})
}

// TestStaysFailing: what waiting does not end is an error at once, and no later call suffers
// from it.
func TestStaysFailing(t *testing.T) {
	inVirtualTime(t, Options{}, stays, func(h *harness, failure error, before fault) {
		next := []fault{before}
		if before.after != nil {
			next = append(next, fault{before: failure})
		}
		h.set(fault{before: failure}, next...)
		answers, took := h.runBatches()
		h.wantNone(answers, storage.ErrUnavailable)
		if took > time.Second {
			h.t.Errorf("the answers came after %v", took)
		}
		h.set(fault{})
		h.verify()
	})
}

// TestFullMemoryInVirtualTime: without memory puts are refused, at once, and everything else is
// done; unless the outcome of an earlier attempt is unknown.
func TestFullMemoryInVirtualTime(t *testing.T) {
	inVirtualTime(t, Options{}, map[string]error{"OOM": outOfMemory}, func(h *harness, failure error, before fault) {
		h.set(fault{before: failure}, before)
		answers, took := h.runBatches()
		if before.after != nil {
			h.wantNone(answers, storage.ErrUnavailable)
		} else {
			h.wantNone([]storage.Answer{answers[0], answers[2]}, storage.ErrNoSpace)
			h.wantAll([]storage.Answer{answers[1], answers[3], answers[4]})
		}
		if took > time.Second {
			h.t.Errorf("the answers came after %v", took)
		}
		h.verify()
	})
}

// TestUnconfirmed: while replicas do not confirm a call, for whatever reason, it is held up;
// when they do, it was carried out once, and the instance still has what it had.
func TestUnconfirmed(t *testing.T) {
	failures := map[string]error{
		"UNBLOCKED": passes["UNBLOCKED"],
		"a replica": redisError("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated."),
		"NOPERM":    redisError("NOPERM this user has no permissions to run the 'wait' command"),
		"too few":   errFewReplicas,
		"reset":     passes["reset"],
	}
	inVirtualTime(t, Options{WaitReplicas: 1}, failures, func(h *harness, failure error, _ fault) {
		fails := fault{after: failure}
		h.set(fault{}, fails, fails, fails)
		answers, took := h.runBatches()
		h.wantAll(answers)
		if n := h.failed(); n != 3 || took > time.Second {
			h.t.Errorf("%d attempts failed, and the answers came after %v", n, took)
		}
		h.set(fails)
		answers, took = h.runBatches()
		h.wantNone(answers, storage.ErrUnavailable)
		if took < DefaultTimeout || took > DefaultTimeout+time.Second {
			h.t.Errorf("the answers came after %v", took)
		}
		h.set(fault{})
		h.verify()
	})
}

// TestEndsWhileFailing: a store that is closed while Redis fails ends after the limit.
func TestEndsWhileFailing(t *testing.T) {
	inVirtualTime(t, Options{}, map[string]error{"reset": passes["reset"]}, func(h *harness, failure error, before fault) {
		h.set(fault{before: failure}, before)
		if a := do(h.Store, put("y")); !errors.Is(a.Err, storage.ErrUnavailable) {
			h.t.Errorf("%+v", a)
		}
		begun := time.Now()
		if err := h.Close(); !errors.Is(err, storage.ErrUnavailable) {
			h.t.Errorf("closed: %v", err)
		}
		if took := time.Since(begun); took > DefaultTimeout+time.Second {
			h.t.Errorf("it took %v", took)
		}
	})
}

// TestGivesBackInTheEnd: what a closed connection held is given back when that is possible
// again, however often Redis has refused.
func TestGivesBackInTheEnd(t *testing.T) {
	inVirtualTime(t, Options{}, stays, func(h *harness, failure error, before fault) {
		if a := do(h.Store, take(4)); a.Err != nil {
			h.t.Fatal(a.Err)
		}
		h.set(fault{before: failure})
		if a := do(h.Store, storage.Op{Kind: storage.ReleaseAll, Holder: 4}); a.Err == nil {
			h.t.Error("a connection has left while Redis refuses everything")
		}
		time.Sleep(10 * retryMustRunAfter)
		if n := h.failed(); n < 5 {
			h.t.Errorf("it was tried %d times", n)
		}
		h.set(fault{})
		time.Sleep(2 * retryMustRunAfter)
		if got := figures(h.t, h.Store); got.Reserved != 1 {
			h.t.Errorf("%d jobs are reserved, want that of the other connection", got.Reserved)
		}
	})
}

// TestEmptyAfterALostAnswer: a call was carried out, and then Redis comes back empty. Its
// outcome is unknown, so it is not sent again.
func TestEmptyAfterALostAnswer(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Options{URL: server.URL()})
		defer h.Close()
		h.then = func() { client.FlushAll(context.Background()) }
		h.set(fault{}, fault{after: io.EOF})
		if a := do(h.Store, put("y")); !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("%+v", a)
		}
		if got := figures(t, h.Store); got.Jobs != 0 {
			t.Errorf("%+v", got)
		}
		if a := do(h.Store, put("z")); a.Err != nil || a.ID <= 4 {
			t.Errorf("%+v", a) // clients know the ids up to 4
		}
	})
}

// TestGarbled: a reply that ends too early, anywhere, or is not what the script returns, is an
// error for all operations of that call, and later calls do not suffer from it.
func TestGarbled(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	garbles := map[string]func(parts []any) any{
		"nothing":       func([]any) any { return nil },
		"empty":         func([]any) any { return []any{} },
		"a number":      func([]any) any { return []any{int64(1)} },
		"no ids":        func(parts []any) any { return parts[:1] },
		"short ids":     func(parts []any) any { return append([]any{parts[0], "1"}, parts[2:]...) },
		"no records":    func(parts []any) any { return parts[:2] },
		"short records": func(parts []any) any { return append(parts[:2:2], "R", "R") },
		"a wrong digit": func(parts []any) any {
			return append([]any{strings.Replace(parts[0].(string), ";", "x;", 1)}, parts[1:]...)
		},
	}
	for cut := range 60 {
		garbles[fmt.Sprint("without the last ", cut+1)] = func(parts []any) any {
			text := parts[0].(string)
			return append([]any{text[:max(0, len(text)-cut-1)]}, parts[1:]...)
		}
	}
	for name, garble := range garbles {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, Options{URL: url, Namespace: name})
			defer h.Close()
			h.garble = func(parts []any) any {
				h.garble = nil
				return garble(parts)
			}
			answers, took := h.runBatches()
			h.wantNone(answers, storage.ErrUnavailable)
			if took > time.Second {
				t.Errorf("the answers came after %v", took)
			}
			if h.verify(); t.Failed() {
				t.Fatal(name)
			}
		})
	}
}

// waitingListener is a listener on whose server a client waits for a job, or none does.
type waitingListener struct {
	nopListener
	waits bool
	woken chan string
}

func (e *waitingListener) WakeUp(name string) bool {
	select {
	case e.woken <- name:
	default: // it was woken before
	}
	return e.waits
}

// TestWakeUpsGoOn: wake-up reads that fail, as when Redis becomes a replica for a while, are
// tried again; and an instance on which no client waits any more passes its wake-ups on.
func TestWakeUpsGoOn(t *testing.T) {
	url := redistest.Start(t).URL()
	ears := []*waitingListener{{waits: false, woken: make(chan string, 1)}, {waits: true, woken: make(chan string, 1)}}
	for _, e := range ears {
		s, err := Open(context.Background(), Options{URL: url, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		left, reader := 3, s.wakeUpReaders[0]
		reader.pop = func(n conn.Node, ctx context.Context, key string, timeout time.Duration) (string, bool, error) {
			if left--; left >= 0 {
				return "", false, passes["UNBLOCKED"]
			}
			return n.Pop(ctx, key, timeout)
		}
		s.Listen(e)
		if a := do(s, takeFrom(1, true, "t")); !a.NotFound {
			t.Fatalf("%+v", a)
		}
	}
	do(openAt(t, url, patient), put("x"))
	for i, e := range ears {
		select {
		case <-e.woken:
		case <-time.After(patient):
			t.Fatalf("instance %d was not woken for the job", i)
		}
	}
}

// TestDeclaredDeadAgainAndAgain: when every call is too late, because others have declared the
// instance dead again meanwhile, clients are answered in time.
func TestDeclaredDeadAgainAndAgain(t *testing.T) {
	failures := map[string]error{"LOST": redisError(lua.Lost + " the instance was " + lua.DeclaredDead)}
	inVirtualTime(t, Options{Timeout: DefaultTimeout}, failures, func(h *harness, failure error, before fault) {
		if before.before == nil {
			return
		}
		h.set(before)
		answered := make(chan bool)
		go func() {
			answers, _ := h.runBatches()
			h.wantNone(answers, storage.ErrUnavailable)
			close(answered)
		}()
		select {
		case <-answered:
		case <-time.After(3 * DefaultTimeout):
			t.Error("nobody is answered")
		}
		h.set(fault{})
		<-answered
	})
}
