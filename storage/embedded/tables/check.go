package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/tube"
)

// Check says how the tables are checked. All rows are read, each kind in the order of its keys, and in memory is only what there
// is of each tube.
type Check struct {
	// Found is called with each fault. remedy says what a repair does about it; "": nothing.
	Found func(what, remedy string)

	// Repair says that the faults that have a remedy are repaired: what follows from the records is made as they say, and what belongs
	// to no record is removed. The tables must not be in use. An interrupted repair can be done again.
	Repair bool

	// Job, if not nil, is called with each job that is not cold, as it was last written.
	Job func(r *tube.Record)

	// HasCheckpoint, if not nil, is called after that with the number of each checkpoint and its size in bytes. It returns false if no
	// job has it.
	HasCheckpoint func(number uint64, size int) bool

	// Progress, if not nil, is called with what is being read, and how many so far.
	Progress func(what string, n int)
}

// checker is a Check under way.
type checker struct {
	Check
	ctx    context.Context
	tables *Tables
	from   pebble.Reader
	batch  *pebble.Batch // nil: nothing is repaired
	names  map[string]string

	warm, cold int    // jobs
	maxID      uint64 // of all jobs
	damaged    bool   // some records of jobs cannot be read
	read       int    // for Progress
	failed     error  // of a look-up
	key        []byte // a buffer

	coldPlaces, endedPlaces *rowSums
	coldCounts              map[tube.ColdQueue]ColdCount
	endedCounts             map[string]EndedOf
	uncounted               map[string]bool // keys of counts that cannot be compared: a record is damaged
}

// repairBatch is how many bytes of changes a repair makes at once.
const repairBatch = 256 << 10

// Check checks the tables, see Check. It returns how many jobs they have. An error means that they cannot be read to the end.
func (t *Tables) Check(ctx context.Context, what Check) (jobs int, err error) {
	c := &checker{
		Check: what, ctx: ctx, tables: t, from: t.db, names: make(map[string]string), coldPlaces: newRowSums(), endedPlaces: newRowSums(),
		coldCounts: make(map[tube.ColdQueue]ColdCount), endedCounts: make(map[string]EndedOf), uncounted: make(map[string]bool),
	}
	if what.Repair {
		c.batch = t.db.NewBatch()
		defer func() { c.batch.Close() }()
	} else {
		now := t.db.NewSnapshot()
		defer now.Close()
		c.from = now
	}
	steps := []func() error{
		c.checkJobs, c.checkLastID, c.checkIndex, c.checkColdCounts, c.checkEnded, c.checkEndedCounts, c.checkCheckpoints, c.checkOthers, c.findUnknown,
	}
	for _, step := range steps {
		if err := errors.Join(ctx.Err(), step(), c.commit(0)); err != nil {
			return c.warm + c.cold, fmt.Errorf("checking the tables: %w", err)
		}
	}
	if what.Repair {
		if err := t.db.Flush(); err != nil {
			return c.warm + c.cold, fmt.Errorf("repairing the tables: %w", err)
		}
	}
	return c.warm + c.cold, nil
}

// found reports a fault.
func (c *checker) found(remedy, format string, args ...any) {
	c.Found(fmt.Sprintf(format, args...), remedy)
}

// set and remove change a row in a repair. All else does nothing.
func (c *checker) set(key, value []byte) {
	if c.batch != nil {
		c.batch.Set(key, value, nil)
	}
}

func (c *checker) remove(key []byte) {
	if c.batch != nil {
		c.batch.Delete(key, nil)
	}
}

// commit makes the changes so far, if they have more bytes than that.
func (c *checker) commit(above int) error {
	if c.batch == nil || c.batch.Empty() || c.batch.Len() <= above {
		return nil
	}
	err := errors.Join(c.batch.Commit(pebble.NoSync), c.batch.Close())
	c.batch = c.tables.db.NewBatch()
	return err
}

// rowsPerPause is how many rows are read between two looks at the context.
const rowsPerPause = 1024

// rowRead is called after each row.
func (c *checker) rowRead(what string) error {
	if c.read++; c.read%rowsPerPause != 0 || c.failed != nil {
		return c.failed
	}
	if c.Progress != nil {
		c.Progress(what, c.read)
	}
	return errors.Join(c.ctx.Err(), c.commit(repairBatch))
}

// each calls do with the rows of a kind.
func (c *checker) each(kind byte, what string, do func(key, value []byte)) error {
	c.read = 0
	return eachIn(c.from, kind, func(key, value []byte) error {
		do(key, value)
		return c.rowRead(what)
	})
}

// name makes a string of the name of a tube.
func (c *checker) name(b []byte) string {
	s, have := c.names[string(b)]
	if !have {
		s = string(b)
		c.names[s] = s
	}
	return s
}

// checkLastID checks that no job has an id that will be given out again.
func (c *checker) checkLastID() error {
	last, err := c.tables.LastID()
	if err == nil && c.maxID > last {
		c.found("the last id is set", "the last id is %d, and there is job %d", last, c.maxID)
		c.set([]byte{lastIDKey}, binary.BigEndian.AppendUint64(nil, c.maxID))
	}
	return err
}

// checkColdCounts compares how many cold jobs each queue has with what was counted.
func (c *checker) checkColdCounts() error {
	counted := make(map[string]ColdCount)
	for of, n := range c.coldCounts {
		counted[string(countKey(of))] = n
	}
	return checkCounts(c, coldCountKey, counted, func(key, value []byte) (ColdCount, error) {
		_, n, err := decodeColdCount(key, value)
		return n, err
	}, func(want, _ ColdCount) ColdCount { return want }, func(n ColdCount) []byte { return n.append(nil) })
}

// checkEndedCounts compares how many records of ended jobs each tube has with what was counted.
func (c *checker) checkEndedCounts() error {
	counted := make(map[string]EndedOf)
	for name, n := range c.endedCounts {
		counted[string(endedTubeKey)+name] = n
	}
	return checkCounts(c, endedTubeKey, counted, readEndedOf, func(want, written EndedOf) EndedOf {
		if written.Records != want.Records || written.Bytes != want.Bytes {
			want.Last = max(want.Last, written.Last) // it must not be given out again
			return want
		}
		return written
	}, func(of EndedOf) []byte { return of.append(nil) })
}

// checkCounts compares the counts of a kind with what was counted, by key. corrected returns what should be written.
func checkCounts[T comparable](c *checker, kind byte, counted map[string]T, read func(key, value []byte) (T, error),
	corrected func(want, written T) T, encode func(T) []byte,
) error {
	var none T
	const remedy = "the count is set"
	set := func(key string, n T) {
		if n == none {
			c.remove([]byte(key))
		} else {
			c.set([]byte(key), encode(n))
		}
	}
	compare := func(key string, written T) {
		want, has := counted[key]
		if has {
			want = corrected(want, written)
		}
		delete(counted, key)
		if want != written && !c.uncounted[key] {
			c.found(remedy, "%s: there are %s, and %s were counted", describeCount(key), describe(want), describe(written))
			set(key, want)
		}
	}
	err := c.each(kind, "counts", func(key, value []byte) {
		written, err := read(key, value)
		if err == nil {
			compare(string(key), written)
			return
		}
		c.found(remedy, "%v", err)
		set(string(key), counted[string(key)])
		delete(counted, string(key))
	})
	for key := range counted {
		compare(key, none)
	}
	return err
}

// describeCount says what the count of a key is about.
func describeCount(key string) string {
	if key[0] == coldCountKey {
		return fmt.Sprintf("tube %q, cold jobs that are %v", key[2:], tube.State(key[1]))
	}
	return fmt.Sprintf("tube %q, records of ended jobs", key[1:])
}

// describe says a count.
func describe(count any) string {
	switch n := count.(type) {
	case ColdCount:
		if n.Urgent > 0 {
			return fmt.Sprintf("%d with %d bytes, %d of them urgent", n.Jobs, n.Bytes, n.Urgent)
		}
		return fmt.Sprintf("%d with %d bytes", n.Jobs, n.Bytes)
	case EndedOf:
		return fmt.Sprintf("%d with %d bytes", n.Records, n.Bytes)
	}
	return ""
}

// checkCheckpoints checks that each checkpoint is one of a job.
func (c *checker) checkCheckpoints() error {
	if c.HasCheckpoint == nil {
		return nil
	}
	return c.each(checkpointKey, "checkpoints", func(key, value []byte) {
		if len(key) != 9 || !c.HasCheckpoint(binary.BigEndian.Uint64(key[1:]), len(value)) && !c.damaged {
			c.found("it is removed", "the checkpoint %x is one of no job", key[1:])
			c.remove(key)
		}
	})
}

// checkOthers checks that all that is not of jobs can be read.
func (c *checker) checkOthers() error {
	t := &Tables{db: c.tables.db, damaged: func(err error) { c.found("", "%v", err) }}
	return errors.Join(
		t.Pauses(func(string, Pause) {}),
		t.Policies(c.name, func(string) bool { return true }, func(string, *tube.Policy) {}),
		t.Tombstones(func(TubeKey, Tombstone) {}),
		t.Groups(func(TubeKey, tube.GroupRecord) {}),
		t.Named(tube.Schedules, func(tube.NamedRecord) {}),
		t.Named(tube.JobBatches, func(tube.NamedRecord) {}),
		t.Imports(func(string, ImportMark) {}),
		t.each(tallyKey, func(key, value []byte) error {
			_, rest, err := DecodeTally(value)
			if err != nil || len(rest) > 0 || len(key) < len(TallyKey{}.tablesKey()) || tube.Period(key[1]) >= tube.NumPeriods {
				return fmt.Errorf("reading the tally %x: %w", key[1:], errTally)
			}
			return nil
		}),
	)
}

// kinds are the first bytes of all keys, but those that are one byte long.
var kinds = []byte{
	tallyKey, checkpointKey, coldKey, bodyKey, changeKey, endedKey, endedBatchKey, endedTubeKey, endedIDKey, jobKey, tombstoneKey, groupKey, importKey,
	scheduleKey, pauseKey, batchKey, policyKey, indexKey, coldCountKey,
}

// findUnknown reports rows of no known kind.
func (c *checker) findUnknown() error {
	it, err := c.from.NewIter(nil)
	if err != nil {
		return err
	}
	for valid := it.First(); valid; {
		key := it.Key()
		switch {
		case len(key) > 0 && bytes.IndexByte(kinds, key[0]) >= 0:
			valid = it.SeekGE([]byte{key[0] + 1})
			continue
		case len(key) != 1 || bytes.IndexByte([]byte{layoutKey, segmentKey, lastIDKey}, key[0]) < 0:
			c.found("", "the row %.64x is of an unknown kind", key)
		}
		valid = it.Next()
	}
	return errors.Join(it.Error(), it.Close())
}
