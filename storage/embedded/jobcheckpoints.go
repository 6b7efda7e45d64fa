package embedded

import (
	"encoding/binary"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// The checkpoints of jobs, which workers save. They are not those of checkpoint.go. Without a journal all of them are in memory. With one,
// those are in memory that the tables lack: the log has them, and the checkpointer writes them with their window.

// jobCheckpoints are the checkpoints in memory, by tube.CheckpointRef.Number. The lock of the engine guards them. No checkpoint is
// changed once it is there.
type jobCheckpoints struct {
	byNumber map[uint64][]byte
	bytes    int64
}

// set replaces a checkpoint; nil removes it.
func (c *jobCheckpoints) set(number uint64, data []byte) {
	c.bytes += int64(len(data)) - int64(len(c.byNumber[number]))
	if data == nil {
		delete(c.byNumber, number)
	} else {
		c.byNumber[number] = data
	}
}

// stored drops checkpoints that are in the tables now, but for those that have been replaced since.
func (c *jobCheckpoints) stored(written map[uint64][]byte) {
	for number, data := range written {
		if now := c.byNumber[number]; len(now) > 0 && len(data) > 0 && &now[0] == &data[0] {
			c.set(number, nil)
		}
	}
}

// checkpointSaved is called by the machine. The lock is held.
func (e *Engine) checkpointSaved(number uint64, data []byte) {
	e.saved.set(number, data)
	if e.journal != nil {
		e.journal.checkpointSaved(number, data)
	}
}

// checkpointSaved adds an entry about a checkpoint; nil: it is gone. The entry about its job follows in the same frame. The lock is held.
func (j *journal) checkpointSaved(number uint64, data []byte) {
	g := j.filling
	if data != nil && g.size > 0 && g.size+len(data) > maxBatch {
		g.cut()
	}
	start := len(g.frame)
	g.frame = binary.AppendUvarint(appendEntry(g.frame, checkpointEntry, number), uint64(len(data)))
	g.frame = append(g.frame, data...)
	g.size += len(g.frame) - start
	g.bodies += int64(len(data))
	j.unwritten += int64(len(data))
	j.window.bytes += int64(len(data))
	if data == nil && j.neverStored(number) {
		delete(j.held.Checkpoints, number)
		delete(j.window.Checkpoints, number)
	} else {
		j.window.Checkpoints[number] = data
	}
	j.countEntry()
}

// bytesInMemory returns how many bytes of bodies and checkpoints are in memory. The lock is held.
func (j *journal) bytesInMemory() int64 { return j.machine.BodyBytes() + j.saved.bytes }

// hasRoom reports whether size bytes more can be kept. If not, the answer says so, or p that the operation has to wait.
func (e *Engine) hasRoom(op *storage.Op, p *progress, size int) bool {
	e.trimmer.work += uint64(size / bytesPerWork)
	if e.journal == nil {
		return true
	}
	if p.needsRoom = !p.forced && e.journal.overLimit(); p.needsRoom {
		return false
	}
	if !e.journal.guard.reserveRoom(size) {
		op.Answer.Err = storage.ErrNoSpace
		return false
	}
	return true
}

// getCheckpoint carries out a GetCheckpoint.
func (e *Engine) getCheckpoint(b *storage.Batch, op *storage.Op) {
	a := &op.Answer
	var at tube.CheckpointRef
	if j := e.machine.Find(op.ID); j != nil {
		at = e.machine.Checkpoint(j)
	}
	if a.NotFound = at.Size == 0; a.NotFound {
		return
	}
	if a.Body = e.saved.byNumber[at.Number]; a.Body == nil {
		a.ID = at.Number // until fetchCheckpoint
		e.bodiesMissing = append(e.bodiesMissing, bodyNeeded{b, op})
	}
}

// fetchCheckpoint reads the checkpoint of an answer.
func (e *Engine) fetchCheckpoint(from tables.Snapshot, op *storage.Op) {
	data, err := from.Checkpoint(op.Answer.ID)
	if op.Answer = (storage.Answer{Body: data}); err != nil {
		e.journal.bodyReads.report("the checkpoint of a job cannot be read from the journal", op.ID, err)
		op.Answer = unreadable(err)
	}
}
