package ledger_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/conformance/ledger"
	"redstalk/tube"
)

// keyedLie is a fault of a server with keys, leases, dead letters or moves.
type keyedLie struct {
	name string
	do   func(*forger, storage.Store, *storage.Op)
	got  func(ledger.Report) int
}

// forger is the state of a lying store.
type forger struct {
	mu     sync.Mutex
	n      int
	leases map[uint64]uint64 // the present one of each job
}

// some returns true for one in of calls.
func (f *forger) some(of int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n%of == 0
}

func isLeaseTake(op *storage.Op) bool {
	return op.Kind == storage.Take && op.Holder == tube.LeaseHolder
}

func isLeaseMove(op *storage.Op) bool {
	return op.Kind == storage.Move && op.Holder == tube.LeaseHolder
}

var keyedLies = []keyedLie{
	{"none", func(_ *forger, s storage.Store, op *storage.Op) { honestly(s, op) },
		func(ledger.Report) int { return 0 }},
	{"a put with a key is done twice", func(_ *forger, s storage.Store, op *storage.Op) {
		if honestly(s, op); op.Kind == storage.Put && op.Args != nil && op.Answer.Outcome != tube.PutNew {
			again := *op
			again.Args = &storage.Args{Tags: &tube.Tags{}}
			honestly(s, &again)
			op.Answer.ID, op.Answer.Result = again.Answer.ID, again.Answer.Result
		}
	}, func(r ledger.Report) int { return r.Twice + r.Undead }},
	{"a lease of the past is obeyed", func(f *forger, s storage.Store, op *storage.Op) {
		honestly(s, op)
		f.mu.Lock()
		defer f.mu.Unlock()
		if isLeaseTake(op) && op.Answer.Result != nil {
			f.leases[op.Answer.ID] = op.Answer.Result.Lease
		}
		if now := f.leases[op.ID]; isLeaseMove(op) && op.Answer.NotFound && op.Args.Lease < now {
			rare := *op.Args
			rare.Lease, op.Args = now, &rare
			honestly(s, op)
		}
	}, func(r ledger.Report) int { return r.Obeyed }},
	{"a lease comes twice", func(_ *forger, s storage.Store, op *storage.Op) {
		if honestly(s, op); isLeaseTake(op) && op.Answer.Result != nil {
			op.Answer.Result.Lease = 1 << 50
		}
	}, func(r ledger.Report) int { return r.Tokens }},
	{"a lease ends early", func(f *forger, s storage.Store, op *storage.Op) {
		if honestly(s, op); isLeaseTake(op) && op.Answer.Result != nil && f.some(3) {
			honestly(s, &storage.Op{Kind: storage.Move, Move: tube.Release, Holder: tube.LeaseHolder, ID: op.Answer.ID,
				Args: &storage.Args{Lease: op.Answer.Result.Lease}})
		}
	}, func(r ledger.Report) int { return min(r.Contested, r.Robbed) }},
	{"a lease is beyond the limit", func(_ *forger, s storage.Store, op *storage.Op) {
		if op.Kind != storage.SetPolicy {
			honestly(s, op)
		}
	}, func(r ledger.Report) int { return r.Exceeded }},
	{"a lease of a paused group", func(_ *forger, s storage.Store, op *storage.Op) {
		if op.Kind != storage.PauseGroup {
			honestly(s, op)
		}
	}, func(r ledger.Report) int { return r.Exceeded }},
	{"a group is blocked for ever", func(_ *forger, s storage.Store, op *storage.Op) {
		if op.Kind == storage.PauseGroup {
			op.Delay = 3600
		}
		honestly(s, op)
	}, func(r ledger.Report) int { return r.Stuck }},
	{"a moved job stays where it was", func(f *forger, s storage.Store, op *storage.Op) {
		if op.Kind != storage.MoveJobs || op.State != tube.Ready {
			honestly(s, op)
			return
		}
		head := &storage.Op{Kind: storage.PeekHead, Tube: op.Tube, State: tube.Ready}
		honestly(s, head)
		if honestly(s, op); !head.Answer.NotFound && op.Answer.Count > 0 {
			honestly(s, &storage.Op{Kind: storage.Put, Tube: op.Tube, TTR: 1, Body: head.Answer.Body})
		}
	}, func(r ledger.Report) int { return r.Twice + r.Undead }},
	{"a moved job is lost", func(f *forger, s storage.Store, op *storage.Op) {
		if op.Kind == storage.MoveJobs && op.State == tube.Ready {
			head := &storage.Op{Kind: storage.PeekHead, Tube: op.Tube, State: tube.Ready}
			honestly(s, head)
			if !head.Answer.NotFound {
				honestly(s, &storage.Op{Kind: storage.Move, Move: tube.Delete, ID: head.Answer.ID})
			}
		}
		honestly(s, op)
	}, func(r ledger.Report) int { return r.Lost }},
}

// TestKeyedLies: every fault with keys, leases and moves is found, under
// its name; for a correct server none is reported.
func TestKeyedLies(t *testing.T) {
	for _, lie := range keyedLies {
		t.Run(lie.name, func(t *testing.T) {
			if testing.Short() && lie.name != "none" && !strings.HasPrefix(lie.name, "a lease") {
				t.Skip("make test-long runs it")
			}
			t.Parallel()
			r, err := lie.load(t)
			if lie.name == "none" {
				if err != nil || r.Renamed < 20 || r.PastRefused < 20 || r.Repeated < 2 || r.Full < 20 || r.Pauses < 5 {
					t.Error(r, err)
				}
			} else if err == nil || lie.got(r) == 0 {
				t.Errorf("not found out: %v", r)
			}
		})
	}
}

// load runs leasers on such a server, whose connections sometimes fail, and audits.
func (lie *keyedLie) load(t *testing.T) (ledger.Report, error) {
	f := &forger{leases: make(map[uint64]uint64)}
	addr := serve(t, &liar{embedded.NewMemory(), func(s storage.Store, op *storage.Op) { lie.do(f, s, op) }}, func(l net.Listener) net.Listener { return torn{l} })
	record := ledger.New(ledger.Config{Addrs: []string{addr}, Seed: 1, MaxBody: 300, Leasers: 6, LeasePace: time.Millisecond, GroupLimit: 2, Settle: 500 * time.Millisecond})
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	running, enough := context.WithCancel(ctx)
	go func() {
		defer enough()
		for r := record.Report(); ctx.Err() == nil && lie.got(r) == 0 && (r.DeletesAcked < 400 || r.Renamed < 20 || r.PastRefused < 20 || r.Repeated < 2); r = record.Report() {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	record.Run(running)
	if ctx.Err() != nil {
		return record.Report(), fmt.Errorf("it does not get on: %v", record.Report())
	}
	err := record.Drain(ctx)
	return record.Report(), err
}
