package redis

import (
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Operations on schedules that not all named records have, both encoding and decoding: see lua/schedules.

// encodeSchedules appends an operation on schedules.
func (p *partition) encodeSchedules(c *call, op *storage.Op) {
	switch op.Kind {
	case storage.SetSchedule:
		c.words("schedules", "set")
		c.addSchedule(op.Args.Schedule)
		c.expect((*partition).readFound, op)
	case storage.PutScheduled:
		c.words("schedules", "put", int64(op.Args.Tags.Occurrence.Nominal)/int64(time.Millisecond))
		c.addSchedule(op.Args.Schedule)
		c.words(&op.Tube, boolArg(p.refs.isReported(op.Tube)))
		c.addTaggedPut(op)
		p.groupNames.notePut(op)
		c.expect((*partition).readPutScheduled, op)
	case storage.DeleteSchedule:
		c.words("schedules", "delete", op.Args.Name)
		c.expect((*partition).readFound, op)
	}
}

// addSchedule appends the arguments of a record.
func (c *call) addSchedule(s *tube.Schedule) {
	c.words(s.Name, strconv.FormatUint(s.Version-1, 10), strconv.FormatUint(s.Version, 10), schema.DueText(s.Due), s.Text(), s.Body)
}

// readPutScheduled reads whether the record was written, and the answer to the put.
func (p *partition) readPutScheduled(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	if a.NotFound = !r.found(); a.NotFound {
		r.puts++
		return
	}
	if p.readTaggedPut(r, ops); a.Err != nil { // a quota has refused the put
		a.Err, a.Outcome = nil, tube.PutRefused
	}
}

// readSchedule reads the record of a schedule, with its body if that is in the reply. It returns nil if
// the record is broken.
func (r *reply) readSchedule(name string, withBody bool) tube.NamedRecord {
	s, err := schema.ParseSchedule(name, r.text())
	body := ""
	if withBody {
		body = r.text()
	}
	if err != nil {
		return nil
	}
	if body != "" {
		s.Body = []byte(body)
	}
	return s
}
