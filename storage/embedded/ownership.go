package embedded

import (
	"errors"
	"sync"
	"time"

	"redstalk/storage/embedded/wal"
)

const (
	// checkEvery is the minimum time between two checks that the directory is still the
	// engine's, while there are changes. A check takes a few microseconds.
	checkEvery = 10 * time.Millisecond

	// checkWhenIdle is how often that is checked even if nothing changes.
	checkWhenIdle = 500 * time.Millisecond
)

// ownership checks that the next Open would find what is written: that the directory, the
// current segment of the log and the tables are those that were opened.
type ownership struct {
	dir    *wal.Directory
	tables *wal.Directory
	log    *wal.Log
	clock  func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	lost      error // ErrGone; it stays set
}

// check fails with ErrGone if the directory is no longer the engine's.
func (o *ownership) check() error { return o.checkWithin(0) }

// checkRecently is check, unless the last check was less than checkEvery ago.
func (o *ownership) checkRecently() error { return o.checkWithin(checkEvery) }

// checkWithin is check, unless the last check was less than d ago.
func (o *ownership) checkWithin(d time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	if o.lost != nil || d > 0 && now.Sub(o.checkedAt) < d {
		return o.lost
	}
	o.checkedAt = now
	if o.lost = o.dir.Check(); o.lost == nil {
		o.lost = o.log.Check()
	}
	if o.lost == nil {
		o.lost = o.tablesLost()
	}
	return o.lost
}

// tablesLost fails if the tables will not come back. If they are only renamed they can come
// back, and the log keeps what they lack until then.
func (o *ownership) tablesLost() error {
	err := o.tables.Check()
	if errors.Is(err, wal.ErrReplaced) || err != nil && o.tables.Removed() {
		return err
	}
	return nil
}

// watchDirectory regularly checks that the directory is still the engine's, until the journal
// ends.
func (j *journal) watchDirectory() {
	ticker := time.NewTicker(checkWhenIdle)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.requireOwnership()
		case <-j.ended:
			return
		}
	}
}

// requireOwnership ends the process if the directory is no longer the engine's.
func (j *journal) requireOwnership() {
	if err := j.ownership.check(); err != nil {
		j.fatal(err)
	}
}
