package tables

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/tube"
)

// The rows that a job can have, in checkJobs.
const (
	coldRow = iota
	warmRow
	changeRow
	bodyRow
	numJobRows
)

var jobRowKeys = [numJobRows]byte{coldRow: coldKey, warmRow: jobKey, changeRow: changeKey, bodyRow: bodyKey}

// jobRows are the rows of a job.
type jobRows [numJobRows]struct {
	has   bool
	value []byte
}

// checkJobs goes through all rows of jobs at once, in the order of ids.
func (c *checker) checkJobs() (err error) {
	var its [numJobRows]*pebble.Iterator
	for i, kind := range jobRowKeys {
		it, err := iteratorIn(c.from, kind)
		if err != nil {
			return err
		}
		defer it.Close()
		it.First()
		its[i] = it
	}
	for err == nil {
		var rows jobRows
		id, more := c.nextJob(&its, &rows)
		if !more {
			break
		}
		c.checkJob(id, &rows)
		for i := range its {
			if rows[i].has {
				its[i].Next()
			}
		}
		err = c.rowRead("jobs")
	}
	for _, it := range its {
		err = errors.Join(err, it.Error())
	}
	return err
}

// nextJob returns the smallest id that the iterators are at, and its rows; false if they are at the end.
func (c *checker) nextJob(its *[numJobRows]*pebble.Iterator, rows *jobRows) (id uint64, more bool) {
	for _, it := range its {
		for it.Valid() && len(it.Key()) != 9 {
			c.found("", "the row %.64x is one of no job", it.Key())
			it.Next()
		}
		if it.Valid() {
			if at := binary.BigEndian.Uint64(it.Key()[1:]); !more || at < id {
				id, more = at, true
			}
		}
	}
	for i, it := range its {
		if it.Valid() && binary.BigEndian.Uint64(it.Key()[1:]) == id {
			rows[i].has, rows[i].value = true, it.Value()
		}
	}
	return id, more
}

// checkJob checks the rows of a job.
//
// If a job is there twice, the cold one is dropped: a start reads the other one, and does not admit a cold job that it has already. So
// everything that was done to the job since then was done to the other one; and after that was deleted, the cold one would come back.
func (c *checker) checkJob(id uint64, rows *jobRows) {
	cold, warm, change, body := &rows[coldRow], &rows[warmRow], &rows[changeRow], &rows[bodyRow]
	if change.has && !warm.has {
		c.damaged = true
		c.found("", "job %d: there is a change of it, and no job", id)
	}
	switch {
	case warm.has:
		switch ok := c.checkWarm(id, rows); {
		case cold.has && ok:
			c.dropCold(id, cold.value)
		case cold.has:
			c.coldJob(id, cold.value)
		}
	case cold.has:
		c.cold++
		if r, inline, ok := c.coldJob(id, cold.value); ok {
			c.checkBody(&r, inline, rows)
		}
	case body.has && !change.has:
		c.found("it is removed", "the body of job %d: there is no such job", id)
		c.remove(idKey(nil, bodyKey, id))
	}
}

// checkWarm checks a job that is not cold. It returns whether it can be read.
func (c *checker) checkWarm(id uint64, rows *jobRows) (ok bool) {
	c.warm++
	r, inline, ok := c.record(id, rows[warmRow].value)
	if ok && rows[changeRow].has {
		r, _, ok = c.record(id, rows[changeRow].value)
	}
	if !ok {
		c.damaged = true
		return false
	}
	if c.Job != nil {
		c.Job(&r)
	}
	c.checkBody(&r, inline, rows)
	return true
}

// record decodes the record of a job. It also returns what is behind it, which is its body if that is inline.
func (c *checker) record(id uint64, value []byte) (r tube.Record, inline []byte, ok bool) {
	r, inline, err := DecodeRecord(id, value, c.name)
	if err != nil {
		c.found("", "%v", err)
		return r, nil, false
	}
	c.maxID = max(c.maxID, id)
	return r, inline, true
}

// coldJob decodes the record of a cold job, and notes what follows from it.
func (c *checker) coldJob(id uint64, value []byte) (r tube.Record, inline []byte, ok bool) {
	if r, inline, ok = c.record(id, value); !ok {
		return r, nil, false
	}
	if !mayBeCold(&r) {
		c.found("", "job %d: it is cold, and %v", id, r.State)
		return r, nil, false
	}
	p := PlaceOf(&r)
	c.key = p.appendKey(c.key[:0])
	c.coldPlaces.add(c.key, nil)
	c.coldCounts[p.ColdQueue] = c.coldCounts[p.ColdQueue].plus(countOf(p, r.Size))
	return r, inline, true
}

// mayBeCold reports whether a job is in a state that a cold one can have.
func mayBeCold(r *tube.Record) bool { return r.State == tube.Delayed || r.State == tube.Ready }

// dropCold removes a cold job that is there a second time, if the other one can be read.
func (c *checker) dropCold(id uint64, value []byte) {
	c.found("the cold one is removed", "job %d is there twice, also as a cold one", id)
	c.remove(idKey(nil, coldKey, id))
	if r, _, err := DecodeRecord(id, value, c.name); err == nil {
		c.remove(PlaceOf(&r).key())
	}
}

// checkBody checks the body of a job, which is behind its record or in a row of its own.
func (c *checker) checkBody(r *tube.Record, inline []byte, rows *jobRows) {
	body := inline
	if !Inline(r.Size) {
		if body = rows[bodyRow].value; !rows[bodyRow].has {
			c.found("", "job %d: its body is missing", r.ID)
			return
		}
	}
	if len(body) != int(r.Size) {
		c.found("", "job %d: its body has %d bytes, not %d", r.ID, len(body), r.Size)
	}
}
