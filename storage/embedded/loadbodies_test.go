package embedded

import (
	"bytes"
	"errors"
	"testing"

	"redstalk/storage"
)

// onlyOnDisk opens an engine whose jobs 1 and 2 have their bodies on disk only.
func onlyOnDisk(t *testing.T) (*Engine, [][]byte) {
	t.Helper()
	o := newDisk().options(t)
	o.KeepBodies, o.segment = 1, crashSegment
	e := mustOpen(t, o)
	bodies := [][]byte{[]byte("a small body"), bytes.Repeat([]byte("large"), 1000)}
	for _, b := range bodies {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 100, Body: b})
	}
	fillSegment(t, e)
	eventually(t, "the bodies to be on disk only", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.onDiskOnly(e.machine.Find(1)) && e.onDiskOnly(e.machine.Find(2))
	})
	return e, bodies
}

// TestLoadBodies: an operation that needs bodies is carried out when they are in memory, and
// they are dropped again after it.
func TestLoadBodies(t *testing.T) {
	e, bodies := onlyOnDisk(t)
	defer e.Close()
	done := make(chan struct{})
	b := &storage.Batch{Ops: []storage.Op{{Kind: storage.Peek, ID: 2}}, Done: func() { close(done) }}
	task := &task{batch: b, progress: progress{bodyNeeds: bodyNeeds{needed: []uint64{1, 2, 999999}}}}
	e.mu.Lock()
	e.pending++
	e.enqueue(task)
	e.mu.Unlock()
	<-done
	if !bytes.Equal(b.Ops[0].Answer.Body, bodies[1]) {
		t.Errorf("the operation sees a body of %d bytes", len(b.Ops[0].Answer.Body))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(task.needed) != 0 || !e.onDiskOnly(e.machine.Find(1)) || !e.onDiskOnly(e.machine.Find(2)) {
		t.Errorf("the operation still needs %d; or the bodies stay in memory", task.needed)
	}
}

// TestLoadedBodies: bodies that were read are given to the jobs that lack them, and failures
// are recorded.
func TestLoadedBodies(t *testing.T) {
	e, bodies := onlyOnDisk(t)
	defer e.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	var p progress
	e.keepLoaded(&p, []loadedBody{{id: 1, body: bodies[0]}, {id: 2, err: errors.New("broken")}, {id: 999999}})
	one, two := e.machine.Find(1), e.machine.Find(2)
	if !bytes.Equal(e.machine.Body(one), bodies[0]) || e.lacksBody(&p, one) {
		t.Error("a body that was read is not kept")
	}
	if e.lacksBody(&p, two) || p.unreadable[2] == nil || !e.onDiskOnly(two) {
		t.Error("the failure to read a body is not recorded")
	}
	if e.dropLoaded(&p); !e.onDiskOnly(one) {
		t.Error("a body that was loaded stays in memory")
	}
}
