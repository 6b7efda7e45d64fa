package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/tube"
)

// TestTablesAreNotAheadOfTheLog cuts the power at a bad moment: a checkpoint writes the window
// in which a job was put, and the deletion of that job is not synced yet. The tables must
// contain the job as long as the log on the disk does not contain its deletion.
func TestTablesAreNotAheadOfTheLog(t *testing.T) {
	d := newDisk()
	fs := newHookFS(d.fs)
	o := d.options(t)
	o.fs = fs
	e := mustOpen(t, o)

	releaseTables := make(chan struct{})
	fs.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && isTable(op) {
			<-releaseTables
		}
		return nil
	})
	fillSegment(t, e) // its window has to wait for a table
	job := do(t, e, storage.Op{Kind: storage.Put, Tube: "a", Delay: 1000, Body: []byte("job")})[0].Answer.ID
	fillSegment(t, e)
	do(t, e, storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: job})

	syncing, releaseLog := make(chan struct{}), make(chan struct{})
	fs.set(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpCreate && isTable(op):
			<-releaseTables
		case op.Kind == errorfs.OpFileSyncData && isLog(op):
			syncing <- struct{}{}
			<-releaseLog
		}
		return nil
	})
	deleted := make(chan struct{})
	go func() {
		defer close(deleted)
		do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: job},
			storage.Op{Kind: storage.Put, Tube: "a", Body: []byte("instead")})
	}()
	<-syncing
	go func() { // further syncs are not blocked
		for range syncing {
		}
	}()
	close(releaseTables)
	oldest := uint64(0)
	eventually(t, "the checkpoint to write the window, or to wait for the log", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		oldest, _ = segments(e)
		return oldest == 3 || e.journal.writing != nil && len(e.journal.writing.onDurable) == 2
	})

	left := &disk{fs: d.fs.CrashClone(vfs.CrashCloneCfg{}), clock: d.clock}
	close(releaseLog)
	<-deleted
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	close(syncing)
	wantUndeleted(t, left, job, oldest)
}

// wantUndeleted opens what a power cut has left of a log from segment oldest on. The batch that
// deletes a job and puts another one must not be done, not even half of it.
func wantUndeleted(t *testing.T, left *disk, job, oldest uint64) {
	t.Helper()
	e, err := Open(left.options(t))
	if err != nil {
		t.Fatalf("after a power cut, with the log from segment %d on: %v", oldest, err)
	}
	defer e.Close()
	ops := []storage.Op{{Kind: storage.Peek, ID: job}, {Kind: storage.PeekHead, Tube: "a", State: tube.Ready}}
	storage.DoWait(e, ops)
	if ops[0].Answer.NotFound || string(ops[1].Answer.Body) != "job" {
		t.Errorf("half of what was not on the disk was done: %+v", ops)
	}
}
