package redis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Operations on schedules, both encoding and decoding: see lua/schedules.

// maxDue is how many schedules that are due one call returns.
const maxDue = 250

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
	case storage.GetSchedule:
		c.words("schedules", "get", op.Args.Name)
		c.expect((*partition).readGetSchedule, op)
	case storage.ListSchedules:
		encodeListSchedules(c, op)
	case storage.DeleteSchedule:
		c.words("schedules", "delete", op.Args.Name)
		c.expect((*partition).readFound, op)
	case storage.DueSchedules:
		c.words("schedules", "due", int(min(op.MaxJobs, maxDue)))
		c.expect((*partition).readDueSchedules, op)
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

// instant reads a time in ms.
func (r *reply) instant() tube.Instant { return tube.Instant(r.ms()) }

// readSchedule reads the record of a schedule, with its body if that is in the reply. It returns nil if
// the record is broken: only fsck reports that.
func (r *reply) readSchedule(name string, withBody bool) *tube.Schedule {
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

func (p *partition) readGetSchedule(r *reply, ops []*storage.Op) {
	op := ops[0]
	op.Answer.Result = &storage.Result{Now: r.instant()}
	op.Answer.NotFound = true
	if !r.found() {
		return
	}
	if s := r.readSchedule(op.Args.Name, true); s != nil {
		op.Answer.NotFound, op.Answer.Result.Schedules = false, []*tube.Schedule{s}
	}
}

// encodeListSchedules appends a list of schedules. The cursor is the name of the last one of the page
// before.
func encodeListSchedules(c *call, op *storage.Op) {
	count, cursor := countOf(op), ""
	if count == 0 {
		op.Answer.Result = &storage.Result{}
		return
	}
	if op.Args != nil {
		cursor = op.Args.Cursor
	}
	c.words("schedules", "list", count, cursor)
	c.expect((*partition).readListSchedules, op)
}

func (p *partition) readListSchedules(r *reply, ops []*storage.Op) {
	result := &storage.Result{Now: r.instant()}
	more, last := r.found(), ""
	for range r.int64() {
		last = r.text()
		if s := r.readSchedule(last, false); s != nil {
			result.Schedules = append(result.Schedules, s)
		}
	}
	if more {
		result.Cursor = last
	}
	ops[0].Answer.Result = result
}

func (p *partition) readDueSchedules(r *reply, ops []*storage.Op) {
	result := &storage.Result{Now: r.instant()}
	for range r.int64() {
		if s := r.readSchedule(r.text(), true); s != nil {
			result.Schedules = append(result.Schedules, s)
		}
	}
	ops[0].Answer.Result = result
}

// Answers of several partitions to an operation on schedules are merged.

// mergeOne adds the answer of one partition about a schedule, which usually only one of them has: others
// can fail.
func mergeOne(whole, a *storage.Answer) {
	switch found := a.Err == nil && !a.NotFound; {
	case whole.Err == nil && !whole.NotFound:
		if found && whole.Result != nil {
			addSchedules(whole.Result, a.Result)
		}
	case a.Err == nil && !a.NotFound:
		*whole = *a
	case a.Err != nil && whole.Err == nil:
		*whole = storage.Answer{Err: a.Err}
	case whole.Err == nil:
		whole.Result = a.Result // has the time
	}
}

// mergeDue adds the schedules of one partition that are due, the earliest first. Others can fail.
func mergeDue(whole, a *storage.Answer) {
	switch {
	case a.Err != nil:
		if whole.Result == nil {
			whole.Err = a.Err
		}
		return
	case whole.Result == nil:
		*whole = *a
		return
	}
	addSchedules(whole.Result, a.Result)
	slices.SortFunc(whole.Result.Schedules, func(a, b *tube.Schedule) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), strings.Compare(a.Name, b.Name))
	})
}

// mergeSchedules adds a page of the schedules of one partition to one of all.
func mergeSchedules(op *storage.Op, a *storage.Answer) {
	whole := &op.Answer
	if whole.Result == nil {
		*whole = *a
		return
	}
	result, end := whole.Result, whole.Result.Cursor
	if other := a.Result.Cursor; end == "" || other != "" && other < end {
		end = other
	}
	addSchedules(result, a.Result)
	slices.SortFunc(result.Schedules, func(a, b *tube.Schedule) int { return strings.Compare(a.Name, b.Name) })
	if end != "" {
		result.Schedules = slices.DeleteFunc(result.Schedules, func(s *tube.Schedule) bool { return s.Name > end })
	}
	if n := countOf(op); len(result.Schedules) > n {
		result.Schedules, end = result.Schedules[:n], result.Schedules[n-1].Name
	}
	result.Cursor = end
}

// addSchedules adds the schedules of one partition, and its time.
func addSchedules(to, from *storage.Result) {
	to.Schedules = append(to.Schedules, from.Schedules...)
	to.Now = max(to.Now, from.Now)
}
