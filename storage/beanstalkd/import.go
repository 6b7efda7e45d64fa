package beanstalkd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// ErrNoImporter: the store takes over no jobs of another server.
var ErrNoImporter = errors.New("this store takes over no jobs")

// Renamed is a job that has another id than it had.
type Renamed struct{ Old, New uint64 }

// Progress is told how many jobs are there so far, now and then.
type Progress func(jobs int)

// Result is what an import has come to.
type Result struct {
	Jobs    int  // imported now
	Before  int  // that were there already, by an earlier process
	KeepIDs bool // jobs have the ids that they had
	id      func(tube string, old uint64) uint64
}

// Import has a store take over all jobs of a binlog. It listens to nothing: whoever serves from
// the store later finds the jobs. If ctx ends, what was imported so far stays, and another Import
// of the same binlog goes on behind it.
func Import(ctx context.Context, store storage.Store, l *Log, progress Progress) (Result, error) {
	s, ok := store.(storage.Importer)
	if !ok {
		return Result{}, ErrNoImporter
	}
	im, err := storage.StartImport(s, l.Source(), l.LastID, now)
	if err != nil {
		return Result{}, err
	}
	r := Result{Before: int(im.Done()), KeepIDs: im.KeepsIDs(), id: im.IDOf}
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
	r.Jobs = l.Len() - r.Before
	return r, err
}

func now() tube.Instant { return tube.Instant(time.Now().UnixNano()) }

// record is what a store is to know of a job.
func record(j *Job) tube.Record {
	return tube.Record{
		ID: j.ID, Tube: j.Tube, State: j.State, Pri: j.Pri, Delay: j.Delay, TTR: j.TTR,
		Created: j.Created, Rank: int64(j.Due), Counters: j.Counters,
	}
}

// IDs calls do with the ids of each job that has got another one.
func (r *Result) IDs(l *Log, do func(Renamed) error) error {
	if r.KeepIDs {
		return nil
	}
	return l.Headers(func(j Job) error { return do(Renamed{j.ID, r.id(j.Tube, j.ID)}) })
}

// Counts is how many jobs of a binlog there are.
type Counts struct {
	Ready, Delayed, Buried int
	Overdue                int // of the delayed ones: they will be ready
	Tubes                  int
	Largest                int // body, in bytes
}

// Count counts the jobs of a binlog.
func Count(l *Log) (c Counts) {
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

// String is a line for the operator.
func (c Counts) String() string {
	return fmt.Sprintf("%d ready, %d delayed (%d of them due by now), %d buried, in %d tubes", c.Ready, c.Delayed, c.Overdue, c.Buried, c.Tubes)
}
