package redis

import (
	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/tube"
)

// What the holders of jobs report: checkpoints, and how far they are. See lua/tagged/reports.lua.

// addReports appends, before a move, what the holder of the job reports by it, and returns whether that is anything.
func (c *call) addReports(op *storage.Op) bool {
	if op.Args == nil {
		return false
	}
	saves, says := op.Move == tube.SaveCheckpoint, op.Args.Progress != nil && (op.Move == tube.Touch || op.Move == tube.SaveCheckpoint)
	if saves {
		c.words("reporting", op.Args.Data, "checkpoint")
	}
	if says {
		c.words("reporting", op.Args.Progress, "progress")
	}
	return saves || says
}

// keepCheckpoint appends, before an operation that takes jobs their checkpoints, that it does not.
func (c *call) keepCheckpoint(op *storage.Op) {
	if op.Args != nil && op.Args.KeepCheckpoint {
		c.words("keep-checkpoint")
	}
}

// encodeGetCheckpoint appends a GetCheckpoint.
func encodeGetCheckpoint(c *call, op *storage.Op) {
	c.words("get-checkpoint")
	c.addID(op.ID)
	c.expect((*partition).readCheckpoint, op)
}

// readCheckpoint reads the checkpoint of a job.
func (p *partition) readCheckpoint(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	switch r.verdict(ops[0]) {
	case lua.Refused:
		a.NotFound = true
	case lua.Done:
		a.Body = []byte(r.text())
	}
}

// readReports completes a dead letter by what the holders of its job have reported.
func (l *deadLetter) readReports(then func(error)) {
	u := &unit{background: func(c *call) {
		c.words("get-reports")
		c.addID(l.id)
		c.bytes += tube.MaxCheckpoint
		c.ops++
		c.expect(func(_ *partition, r *reply, _ []*storage.Op) {
			l.metadata.Progress, l.checkpoint = r.text(), r.text()
			l.metadata.Checkpoint.Size = uint32(len(l.checkpoint))
		})
	}}
	u.after = then
	l.from.submitOrEnd(u)
}
