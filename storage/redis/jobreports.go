package redis

import (
	"fmt"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// What the holders of jobs report: checkpoints, and how far they are. See lua/tagged/reports.lua.

// addReports appends, before a move, what the holder of the job reports by it, and returns whether that is anything.
func (c *call) addReports(op *storage.Op) bool {
	if op.Args == nil || op.Move != tube.Touch && op.Move != tube.SaveCheckpoint {
		return false
	}
	saves, says := op.Move == tube.SaveCheckpoint, op.Args.Progress != nil
	if saves {
		c.words("reporting")
		c.addCheckpoint(op.Args.Data)
	}
	if says {
		c.words("reporting", op.Args.Progress, "progress")
	}
	return saves || says
}

// addCheckpoint appends a checkpoint, which is staged as a large record is.
func (c *call) addCheckpoint(data []byte) {
	what := "checkpoint"
	if len(data) > 0 && len(data) >= c.largeFrom {
		what = "staged"
		c.stage(stagedRecord{body: data})
	} else {
		c.words(data)
	}
	c.words(what)
}

// keepCheckpoint appends, before an operation that takes jobs their checkpoints, that it does not.
func (c *call) keepCheckpoint(op *storage.Op) {
	if op.Args != nil && op.Args.KeepCheckpoint {
		c.words("keep-checkpoint")
	}
}

// encodeGetCheckpoint appends a GetCheckpoint. It is no operation of the script, through which large texts should not go.
func encodeGetCheckpoint(c *call, op *storage.Op) {
	c.readBehind(c.checkpointKey(op.ID))
	c.expect((*partition).readCheckpoint, op)
}

func (p *partition) readCheckpoint(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	data, ok := r.nextRead()
	if a.NotFound = !ok; ok {
		a.Body = []byte(data)
	}
}

// checkpointKey is the key of the checkpoint of a job.
func (c *call) checkpointKey(id uint64) string {
	return c.prefix + "checkpoint:" + string(schema.AppendID(nil, id))
}

// readReports completes a dead letter by what the holders of its job have reported.
func (l *deadLetter) readReports(then func(error)) {
	u := &unit{background: func(c *call) {
		c.words("get-progress")
		c.addID(l.id)
		c.readBehind(c.checkpointKey(l.id))
		c.ops, c.bytes = c.ops+1, c.bytes+tube.MaxCheckpoint
		c.expect(func(_ *partition, r *reply, _ []*storage.Op) {
			l.metadata.Progress = r.text()
			l.checkpoint, _ = r.nextRead()
			l.metadata.Checkpoint.Size = uint32(len(l.checkpoint))
		})
	}}
	u.after = then
	l.from.submitOrEnd(u)
}

// readBehind adds a key whose value is read directly behind the call, on the same connection. The decoder gets it by nextRead.
func (c *call) readBehind(key string) { c.reads = append(c.reads, key) }

// addReads appends the commands that read what is read behind a call.
func (c *call) addReads(commands [][]any) [][]any {
	if c.kind == void {
		return commands
	}
	for i := range c.reads {
		commands = append(commands, []any{"get", &c.reads[i]})
	}
	return commands
}

// receiveReads waits for what is read behind a call.
func (p *partition) receiveReads(c *call) (failed error) {
	if c.read = c.read[:0]; c.kind == void {
		return nil
	}
	for range c.reads {
		answer, err := p.link.Receive()
		if err != nil {
			failed = fmt.Errorf("%w: %v", errFetch, err)
		}
		c.read = append(c.read, answer)
	}
	return failed
}

// nextRead returns the next text that was read behind the call; false if there is none.
func (r *reply) nextRead() (string, bool) {
	if len(r.reads) == 0 {
		return "", false
	}
	text, ok := r.reads[0].(string)
	r.reads = r.reads[1:]
	return text, ok
}
