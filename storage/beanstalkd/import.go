package beanstalkd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// ErrNoImporter means that the store cannot import jobs of another server.
var ErrNoImporter = errors.New("this store cannot import jobs")

// Renamed is a job whose id has changed.
type Renamed struct{ Old, New uint64 }

// Progress is called from time to time with the number of jobs so far.
type Progress func(jobs int)

// Result is the result of an import.
type Result struct {
	Jobs     int  // all jobs, without Imported
	Imported int  // jobs that an earlier process had imported
	KeepIDs  bool // the jobs have kept their ids
	id       func(tube string, old uint64) uint64
}

// Import copies all jobs of a binlog into a store. It does not need a listener: a server that
// uses the store later finds the jobs. If ctx ends, what was imported so far stays, and another
// Import of the same binlog resumes after it.
func Import(ctx context.Context, store storage.Store, l *Binlog, progress Progress) (Result, error) {
	s, ok := store.(storage.Importer)
	if !ok {
		return Result{}, ErrNoImporter
	}
	im, err := storage.StartImport(s, l.Source(), l.LastID, now)
	if err != nil {
		return Result{}, err
	}
	r := Result{Imported: int(im.Done()), KeepIDs: im.KeepsIDs(), id: im.IDOf}
	n := 0
	err = l.Each(0, func(j Job) error {
		if n++; n%1000 == 0 {
			progress(n)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return im.Add(storage.ImportJob{Body: j.Body, Record: record(&j)})
	})
	if flushErr := im.Flush(); err == nil {
		err = flushErr
	}
	r.Jobs = l.Len() - r.Imported
	return r, err
}

func now() tube.Instant { return tube.Instant(time.Now().UnixNano()) }

// record converts a job of a binlog to a record of the store.
func record(j *Job) tube.Record {
	return tube.Record{
		ID: j.ID, Tube: j.Tube, State: j.State, Pri: j.Pri, Delay: j.Delay, TTR: j.TTR,
		Created: j.Created, Rank: int64(j.Due), Counters: j.Counters,
	}
}

// IDs calls do with the ids of each job whose id has changed.
func (r *Result) IDs(l *Binlog, do func(Renamed) error) error {
	if r.KeepIDs {
		return nil
	}
	return l.Headers(func(j Job) error { return do(Renamed{j.ID, r.id(j.Tube, j.ID)}) })
}

// Counts has the numbers of jobs in a binlog.
type Counts struct {
	Ready, Delayed, Buried int
	Overdue                int // delayed jobs that are due by now: they will be ready
	Tubes                  int
	Largest                int // body, in bytes
}

// Count counts the jobs of a binlog.
func Count(l *Binlog) (c Counts) {
	tubes, at := make(map[string]bool), now()
	l.Headers(func(j Job) error {
		tubes[j.Tube] = true
		c.Largest = max(c.Largest, j.Size)
		switch j.State {
		case tube.Ready:
			c.Ready++
		case tube.Buried:
			c.Buried++
		default:
			c.Delayed++
			if j.Due <= at {
				c.Overdue++
			}
		}
		return nil
	})
	c.Tubes = len(tubes)
	return c
}

// String returns a line for the operator.
func (c Counts) String() string {
	return fmt.Sprintf("%d ready, %d delayed (%d of them due by now), %d buried, in %d tubes", c.Ready, c.Delayed, c.Overdue, c.Buried, c.Tubes)
}
