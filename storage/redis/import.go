package redis

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// Jobs of another server, see storage.Importer and lua/bulk/import.lua. Their ids were reserved
// when the import began, so they are no puts.

// encodeImport appends the beginning of an import, or some of its jobs.
func (p *partition) encodeImport(c *call, op *storage.Op) {
	imported := op.Args.Import
	if op.Kind == storage.BeginImport {
		c.words("begin-import", imported.Source, imported.Least, imported.Largest)
		c.expect((*partition).readBegunImport, op)
		return
	}
	c.imports = true
	c.words("import", imported.Source, imported.From, len(imported.Jobs))
	c.addImportedRecords(imported.Jobs)
	queues := queuesOf(imported.Jobs)
	c.words(len(queues))
	for i := range queues {
		c.addImportedQueue(&queues[i])
	}
	c.expect((*partition).readImported, op)
}

// addImportedRecords appends the records of jobs, first those that are not staged.
func (c *call) addImportedRecords(jobs []storage.ImportJob) {
	at, large := len(c.args), []*storage.ImportJob(nil)
	c.words(nil, nil) // how many of both
	for i := range jobs {
		j := &jobs[i]
		from := len(c.text)
		c.text = appendImportedHead(c.text, &j.Record)
		size := len(c.text) - from + len(j.Body)
		if c.most = max(c.most, size+schema.MaxGrowth); size >= c.largeFrom {
			c.staged = append(c.staged, stagedRecord{head: c.text[from:len(c.text):len(c.text)], body: j.Body})
			large = append(large, j)
			continue
		}
		c.text = append(c.text, j.Body...)
		record := c.text[from:len(c.text):len(c.text)]
		c.addID(j.ID)
		c.args = append(c.args, record)
	}
	c.args[at], c.args[at+1] = len(jobs)-len(large), len(large)
	for _, j := range large {
		c.addID(j.ID)
	}
}

// importQueue is the jobs of an import in one tube and one state.
type importQueue struct {
	tube  string
	state tube.State
	jobs  []*storage.ImportJob // in the order of the import
}

// queuesOf groups jobs by tube and state.
func queuesOf(jobs []storage.ImportJob) (queues []importQueue) {
	type place struct {
		tube  string
		state tube.State
	}
	known := make(map[place]int)
	for i := range jobs {
		j := &jobs[i]
		at := place{j.Tube, j.State}
		n, ok := known[at]
		if !ok {
			n = len(queues)
			known[at], queues = n, append(queues, importQueue{tube: j.Tube, state: j.State})
		}
		queues[n].jobs = append(queues[n].jobs, j)
	}
	return queues
}

// addImportedQueue appends the queue of some jobs in the form of the arguments of ZADD, so that
// the script does nothing for each of them. Only buried ones get their scores there.
func (c *call) addImportedQueue(q *importQueue) {
	var bytes, urgent int
	first := int64(math.MaxInt64)
	for _, j := range q.jobs {
		bytes += len(j.Body)
		if j.Pri < tube.UrgentBelow {
			urgent++
		}
		first = min(first, dueAt(j))
	}
	c.words(q.tube, schema.StateWord(q.state), len(q.jobs), bytes)
	switch q.state {
	case tube.Ready:
		c.words(urgent)
	case tube.Delayed:
		c.words(first)
	default:
		c.words("")
	}
	for _, j := range q.jobs {
		from := len(c.text)
		switch q.state {
		case tube.Ready:
			c.text = strconv.AppendUint(c.text, uint64(j.Pri), 10)
		case tube.Delayed:
			c.text = strconv.AppendInt(c.text, dueAt(j), 10)
		}
		c.args = append(c.args, c.text[from:len(c.text):len(c.text)])
		c.addID(j.ID)
	}
}

// dueAt returns when a delayed job is due, in ms, rounded up: nothing is ever early.
func dueAt(j *storage.ImportJob) int64 {
	return (j.Rank + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}

// appendImportedHead is schema.AppendHead for a job that was put elsewhere.
func appendImportedHead(b []byte, r *tube.Record) []byte {
	b = append(b, schema.Letter(r.State))
	b = binary.BigEndian.AppendUint32(b, max(r.TTR, tube.MinTTR))
	b = binary.BigEndian.AppendUint32(b, r.Pri)
	b = binary.BigEndian.AppendUint32(b, r.Delay)
	b = binary.BigEndian.AppendUint64(b, uint64(int64(r.Created)/int64(time.Millisecond)))
	for _, n := range r.Counters {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(b, byte(len(r.Tube)))
	return append(b, r.Tube...)
}

// readBegunImport reads the offset and progress of an import.
func (p *partition) readBegunImport(r *reply, ops []*storage.Op) {
	s := &storage.ImportState{Offset: r.count(), Done: r.count()}
	ops[0].Answer.Result = &storage.Result{Import: s}
	p.ids.order.saw(r.count())
}

// readImported reads the progress of an import.
func (p *partition) readImported(r *reply, ops []*storage.Op) {
	ops[0].Answer.Result = &storage.Result{Import: &storage.ImportState{Done: r.count()}}
}
