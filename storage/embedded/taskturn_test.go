package embedded

import (
	"sync"
	"testing"
	"time"

	"redstalk/storage"
)

// putMore puts many jobs, and returns when they are durable.
func putMore(t *testing.T, e *Engine, n int) {
	t.Helper()
	ops := make([]storage.Op, n)
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Put, Tube: "many", TTR: 100}
	}
	do(t, e, ops...)
}

// flushAll begins a flush, and returns a channel that is closed when it has ended.
func flushAll(e *Engine) (ended chan struct{}) {
	ended = make(chan struct{})
	go e.Do(&storage.Batch{Ops: []storage.Op{{Kind: storage.Flush, Tube: "many"}}, Done: func() { close(ended) }})
	return ended
}

// TestTasksLeaveRoom: while a commit is written, a flush fills the next one only up to a small
// size, so that others need not wait long.
func TestTasksLeaveRoom(t *testing.T) {
	d := newDisk()
	o := d.options(t)
	fs := newHookFS(d.fs)
	o.fs = fs
	e := mustOpen(t, o)
	defer e.Close()
	putMore(t, e, 30_000)
	hook, syncing, release := blocking()
	fs.set(hook)
	ended := flushAll(e)
	<-syncing
	for range 200 {
		e.mu.Lock()
		bytes := e.journal.filling.bytes()
		e.mu.Unlock()
		if limit := int64(commitOfTasks + 32*partWork); bytes > limit {
			t.Errorf("%d bytes wait to be written, want %d at most", bytes, limit)
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	<-ended
}

// TestTicksLeaveRoom: the same, for a tick that has much to do.
func TestTicksLeaveRoom(t *testing.T) {
	d := newDisk()
	o := d.options(t)
	fs := newHookFS(d.fs)
	o.fs = fs
	e := mustOpen(t, o)
	defer e.Close()
	const n = 30_000
	putMore(t, e, n)
	take := make([]storage.Op, n)
	for i := range take {
		take[i] = storage.Op{Kind: storage.Take, Tubes: []string{"many"}, Holder: 1}
	}
	do(t, e, take...)
	d.clock.advance(200 * time.Second) // all TTRs are over
	hook, syncing, release := blocking()
	fs.set(hook)
	var ticks sync.WaitGroup
	ticks.Go(func() {
		for next := time.Duration(0); next <= 0; {
			next, _ = e.Tick()
		}
	})
	<-syncing
	for range 200 {
		e.mu.Lock()
		bytes := e.journal.filling.bytes()
		e.mu.Unlock()
		if limit := int64(commitOfTasks + 64*tickPart); bytes > limit {
			t.Errorf("%d bytes wait to be written, want %d at most", bytes, limit)
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	ticks.Wait()
}

// TestPartSize: a part is smaller after one that took long, and grows again up to the limit.
func TestPartSize(t *testing.T) {
	p := newPartSize(512)
	for _, step := range []struct {
		took time.Duration
		want int
	}{{holdTime, 512}, {2 * holdTime, 256}, {time.Second, 128}, {holdTime, 144}, {time.Second, 72}, {time.Second, 36}, {time.Second, minPartSize}, {0, 36}} {
		if p.adjust(step.took); p.size != step.want {
			t.Fatalf("%d after %v, want %d", p.size, step.took, step.want)
		}
	}
	for range 100 {
		p.adjust(0)
	}
	if p.size != 512 {
		t.Errorf("%d in the end", p.size)
	}
}

// TestTasksGoOn: a flush that waits while a commit is written goes on when its changes become a
// part of that group, even if no other changes come.
func TestTasksGoOn(t *testing.T) {
	atLength(t)
	d := newDisk()
	d.segment = 64 << 20 // no window ends
	e := mustOpen(t, d.options(t))
	defer e.Close()
	putMore(t, e, 30_000)
	ended, asked := make(chan struct{}), false
	flush := &storage.Batch{Ops: []storage.Op{{Kind: storage.Flush, Tube: "many"}}, Done: func() { close(ended) }}
	more := func() int {
		if asked {
			return 0
		}
		asked = true
		e.Do(flush)
		eventually(t, "the flush to wait", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.journal.filling.bytes() > commitOfTasks
		})
		time.Sleep(20 * time.Millisecond)
		return 1
	}
	e.DoPolling(pollFunc(more), &storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "a", TTR: 100}}, Done: func() {}})
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the flush does not go on")
		e.Do(&storage.Batch{Ops: []storage.Op{{Kind: storage.Put, Tube: "a", TTR: 100}}, Done: func() {}})
		<-ended
	}
}

// TestTasksBehindTheTables: a flush waits for tables that are slow, and other calls do not.
func TestTasksBehindTheTables(t *testing.T) {
	atLength(t)
	d := newDisk()
	d.segment = crashSegment
	o := d.options(t)
	fs := newHookFS(d.fs)
	o.fs = fs
	e := mustOpen(t, o)
	defer e.Close()
	putMore(t, e, 100_000)
	eventually(t, "the tables to be written", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.behind == 0
	})
	release := holdTables(fs)
	ended := flushAll(e)
	eventually(t, "the flush to wait", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.behind > behindOfTasks && e.journal.writing == nil
	})
	for range 20 {
		doSoon(t, e, storage.Op{Kind: storage.Put, Tube: "others'", TTR: 100})
	}
	select {
	case <-ended:
		t.Error("the flush has not waited")
	default:
	}
	close(release)
	<-ended
}

// TestTasksHaveTheirTurn: tasks go on, a part with each window that is written, also if connections keep the tables behind.
func TestTasksHaveTheirTurn(t *testing.T) {
	e := mustOpen(t, newDisk().options(t))
	defer e.Close()
	j := e.journal
	putMore(t, e, 3000)
	e.mu.Lock()
	j.behind += behindOfTasks + 1
	e.mu.Unlock()
	ended := flushAll(e)
	eventually(t, "the flush", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		e.mu.Lock()
		j.behind++
		e.mu.Unlock()
		j.windowDone(newWindow(0))
		return false
	})
	e.mu.Lock()
	j.behind -= behindOfTasks + 1
	e.mu.Unlock()
}
