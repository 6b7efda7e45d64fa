package embedded

import (
	"time"

	"redstalk/storage"
)

// Changes are committed in groups. One group is written at a time (journal.writing),
// while the next one is filled (journal.filling). A caller that has changed something
// while no group is being written commits its own group, on its own goroutine. The
// committer, a goroutine of the journal, commits what has come meanwhile. Committing
// is:
//
//	startCommit   the group that was filled becomes the one that is written
//	write         the group is with the operating system; onWritten batches end
//	gather        callers that are served meanwhile join the group
//	endJoining    it is decided whether the group is synced
//	Sync          the group is on the disk
//	endCommit     the next group is handed to the committer, if there is one
//	endBatches    onDurable batches end
//
// A change is durable when it is as safe as the operator has asked for
// (Options.SyncEvery): on the disk, or with the operating system.

// lateSync is how long a reservation, for which no reply waits, may be with the
// operating system before it is synced, if nothing else causes a sync earlier.
const lateSync = 10 * time.Millisecond

// submit takes over batches that were carried out. onWritten batches are to be done
// when what has changed so far is written, onDurable batches when it is durable.
// changed says that there are changes for which no batch waits and that must become
// durable. It returns a group that has to be committed now, by the caller or after
// handOver; nil if there is none. It also returns the batches that have nothing to
// wait for. The lock is held.
func (j *journal) submit(onWritten, onDurable []*storage.Batch, changed bool) (commit *group, done []*storage.Batch) {
	mustSync := changed || len(onDurable) > 0
	g := j.filling
	if g.empty() {
		// What these batches have seen may be in the group that is being written.
		if w := j.writing; mustSync && w != nil && (w.mustSync || !w.noJoin) {
			w.onDurable, w.mustSync = append(w.onDurable, onDurable...), true
			return nil, onWritten
		}
		return nil, append(onWritten, onDurable...)
	}
	g.onWritten, g.onDurable = append(g.onWritten, onWritten...), append(g.onDurable, onDurable...)
	g.mustSync = g.mustSync || mustSync
	if j.writing == nil {
		commit = j.startCommit()
	}
	return commit, nil
}

// startCommit makes the group that was filled the one that is being written. The
// lock is held.
func (j *journal) startCommit() *group {
	g := j.filling
	g.lastID, g.reclaim = j.machine.LastID(), j.guard.wantsReclaim()
	j.writing, j.filling = g, j.newGroup()
	j.eased.Broadcast()
	return g
}

// startReclaim returns a group to commit even if nothing has changed, if files have
// to be tidied up because a put was refused for want of room. It returns nil if not,
// or if a group is being written. The lock is held.
func (j *journal) startReclaim() *group {
	if j.writing != nil || !j.guard.mayReclaim() {
		return nil
	}
	return j.startCommit()
}

// commit writes a group and ends its batches. It hands the next group to the
// committer, if there is one. If more is not nil, it calls that before it syncs the
// log, see gather. It does not return if the disk fails. The lock is not held.
func (j *journal) commit(g *group, more func() int) {
	if err := j.own.checkLately(); err != nil {
		j.fatal(err)
	}
	j.write(g)
	if more != nil && j.eager {
		j.gather(g, more)
	}
	if j.endJoining(g) && j.eager {
		if err := j.log.Sync(); err != nil {
			j.fatal(err)
		}
	}
	if j.log.Full() || g.reclaim && j.log.CanRotate() {
		j.rotate(g.reclaim)
	}
	j.endCommit(g)
	endBatches(g.onDurable)
	j.mu.Lock()
	j.recycle(g)
	j.mu.Unlock()
}

// write hands a group to the operating system, and ends the batches that wait for no
// more than that.
func (j *journal) write(g *group) {
	var err error
	if len(g.full) == 0 && len(g.large) == 0 {
		g.frame, err = j.log.Append(g.frame)
	} else {
		err = g.each(j.log.AppendPieces)
	}
	if err != nil {
		j.fatal(err)
	}
	endBatches(g.onWritten)
}

const (
	// maxGather is how many times a commit calls more. The replies that need no
	// sync go out in between, and who gets one may have sent the next command
	// before the last of them is written.
	maxGather = 4

	// worthGathering is how many batches a call of more must bring for another
	// call.
	worthGathering = 3
)

// gather has more carry out what has come since g was written, and makes that a part
// of g: one sync serves all of it.
func (j *journal) gather(g *group, more func() int) {
	for range maxGather {
		if !j.mayGather(g) {
			return
		}
		n := more()
		if next := j.joinFilled(g); next != nil {
			j.write(next)
			j.mu.Lock()
			j.recycle(next)
			j.mu.Unlock()
		}
		if n < worthGathering {
			return
		}
	}
}

// mayGather reports whether g will be synced, and whether changes need not wait for
// the tables: they would be made on the goroutine that commits g, and while that
// waits, the tables cannot get further.
func (j *journal) mayGather(g *group) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return g.mustSync && j.behind <= maxBehind
}

// joinFilled makes the group that was filled while g is being written a part of g,
// and returns it to be written; nil if it is empty.
func (j *journal) joinFilled(g *group) *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := j.filling
	if next.empty() {
		return nil
	}
	g.onDurable, g.mustSync = append(g.onDurable, next.onDurable...), g.mustSync || next.mustSync
	g.lastID, j.filling = j.machine.LastID(), j.newGroup()
	return next
}

// endJoining decides whether g, which is written, is synced. If it is not, batches
// that would need that cannot join it any more.
func (j *journal) endJoining(g *group) (sync bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g.noJoin = true
	return g.mustSync
}

// endCommit notes that g is durable, and starts the commit of the next group. No
// batch can join g after that.
func (j *journal) endCommit(g *group) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if g.mustSync {
		j.durableID = max(j.durableID, g.lastID)
	}
	if j.writing = nil; !j.filling.empty() {
		j.startCommit()
		j.handOver()
	} else if j.closing {
		j.commits.Broadcast()
	}
}

// handOver has the committer commit the group that startCommit has returned. The lock
// is held.
func (j *journal) handOver() {
	j.handedOver = true
	j.commits.Broadcast() // not Signal: close may be waiting as well
}

// commitHandedOver is the committer: it commits the groups that are handed over,
// until the journal ends.
func (j *journal) commitHandedOver() {
	defer j.committer.Done()
	for g := j.awaitHandOver(); g != nil; g = j.awaitHandOver() {
		j.commit(g, nil)
	}
}

// awaitHandOver waits for a group of the committer's. It returns nil when the journal
// ends.
func (j *journal) awaitHandOver() *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.handedOver && !j.ending {
		j.commits.Wait()
	}
	if !j.handedOver {
		return nil
	}
	j.handedOver = false
	return j.writing
}

// commitRest commits all that has changed. It is called when no more changes come.
func (j *journal) commitRest() {
	j.mu.Lock()
	j.closing = true
	for j.writing != nil {
		j.commits.Wait()
	}
	commit, _ := j.submit(nil, nil, true)
	j.mu.Unlock()
	if commit != nil {
		j.commit(commit, nil)
	}
}
