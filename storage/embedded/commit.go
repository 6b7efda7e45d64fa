package embedded

import (
	"slices"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/wal"
)

// A commit is changes that are written, and become durable, together. One commit is written at a time (journal.writing), while the
// next one is filled (journal.filling). A caller that has changed something while no commit is
// being written or synced carries out its own commit, on its own goroutine. The committers, two
// goroutines of the journal, carry out that of the changes made meanwhile. A commit has these steps
// (commitLight):
//
//	startCommit   the commit that was filled becomes the one that is written
//	write         the commit is with the operating system
//	endBatches    onWritten batches end
//	poll          the caller polls its sockets; new changes join the commit
//	endJoining    decides whether the commit is synced
//	SyncTo        the commit is on the disk
//	endCommit     the commit is durable
//	endWriting    the next commit is handed to a committer, if there is one
//	endBatches    onDurable batches end
//
// A heavy commit is left to a committer (commitHeavy). The next commit is written while it
// is synced: endWriting comes before SyncTo. Nothing is polled.
//
// A change is durable when it is as safe as the operator has asked for (Options.SyncEvery): on
// the disk, or with the operating system.

// lateSync is how long a reservation, for which no reply waits, stays with the operating system
// before it is synced, if nothing else causes a sync earlier.
const lateSync = 10 * time.Millisecond

// addBatches adds batches that were carried out to the commit that is being filled. onWritten
// batches end when everything that has changed so far is written, onDurable batches when it is
// durable. changed says that there are changes for which no batch waits and that must become
// durable. It returns a commit to carry out now, by the caller or after handOver;
// nil if there is none. It also returns the batches that need not wait. The lock is held.
func (j *journal) addBatches(onWritten, onDurable []*storage.Batch, changed bool) (commit *commit, done []*storage.Batch) {
	mustSync := changed || len(onDurable) > 0
	g := j.filling
	if g.empty() {
		// What these batches have read may be in a commit that is not durable yet.
		if w := j.notDurable(); mustSync && w != nil {
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

// notDurable returns the last commit that is being written or synced and will become durable if
// a batch joins it; nil if there is none. The lock is held.
func (j *journal) notDurable() *commit {
	if w := j.writing; w != nil && (w.mustSync || !w.noJoin) {
		return w
	}
	if n := len(j.syncing); n > 0 {
		return j.syncing[n-1]
	}
	return nil
}

// startCommit makes the commit that was filled the one that is being written. The lock is held.
func (j *journal) startCommit() *commit {
	g := j.filling
	g.lastID, g.reclaim = j.machine.LastID(), j.guard.wantsReclaim()
	j.writing, j.filling = g, j.newCommit()
	j.cond.Broadcast()
	return g
}

// startReclaim returns a commit to carry out, even if nothing has changed, if a put was refused
// because the disk is full and the tables have to be compacted. It returns nil if not, or if a
// commit is being written. The lock is held.
func (j *journal) startReclaim() *commit {
	if j.writing != nil || !j.guard.mayReclaim() {
		return nil
	}
	return j.startCommit()
}

// forCommitter reports whether a committer has to carry out a commit that startCommit has returned:
// the commit would take its caller too long, or wait for one that does. The lock is held.
func (j *journal) forCommitter(g *commit) bool { return g.heavy() || len(j.syncing) > 0 }

// commit carries out a commit, and ends its batches. It hands the next commit to a committer, if there
// is one. If poll is not nil and the commit is light, commit calls poll before it syncs the log,
// see journal.poll. It does not return if the disk fails. The lock is not held.
func (j *journal) commit(g *commit, poll func(read bool) int) {
	if err := j.ownership.checkRecently(); err != nil {
		j.fatal(err)
	}
	if g.heavy() {
		j.commitHeavy(g)
	} else {
		j.commitLight(g, poll)
	}
	endBatches(g.onDurable)
	j.mu.Lock()
	j.recycle(g)
	j.mu.Unlock()
}

// commitLight carries out a commit up to the end of its onDurable batches.
func (j *journal) commitLight(g *commit, poll func(read bool) int) {
	j.write(g)
	endBatches(g.onWritten)
	if poll != nil && j.syncFirst {
		j.poll(g, poll)
		poll(false)
	}
	if j.endJoining(g) {
		j.syncTo(j.log.Mark())
	}
	j.rotateIfFull(g.reclaim)
	j.endCommit(g)
	j.endWriting()
}

// commitHeavy is commitLight for a commit that takes long: others are written while it is
// synced, and the disk works while onWritten batches end.
func (j *journal) commitHeavy(g *commit) {
	j.write(g)
	var replies sync.WaitGroup
	replies.Go(func() { endBatches(g.onWritten) })
	end, mustSync := j.log.Mark(), j.endJoining(g)
	j.rotateIfFull(g.reclaim)
	j.endWriting()
	if mustSync {
		j.syncTo(end)
	}
	j.endCommit(g)
	replies.Wait()
}

// write passes a commit to the operating system. After that the commit no longer needs the bodies
// of its jobs.
func (j *journal) write(g *commit) {
	var err error
	if len(g.full) == 0 && len(g.large) == 0 {
		g.frame, err = j.log.Append(g.frame)
	} else {
		err = g.each(j.log.AppendPieces)
	}
	if err != nil {
		j.fatal(err)
	}
	g.releaseBodies()
}

// syncTo waits until the log is on the disk up to m.
func (j *journal) syncTo(m wal.Mark) {
	begun := time.Now()
	if err := j.log.SyncTo(m); err != nil {
		j.fatal(err)
	}
	j.syncs.Since(begun)
}

// rotateIfFull begins a new segment of the log if the current one is full or, with reclaim, if
// the next one is prepared. Only the goroutine that writes a commit may call it.
func (j *journal) rotateIfFull(reclaim bool) {
	if j.log.Full() || reclaim && j.log.CanRotate() {
		j.rotate(reclaim)
	}
}

const (
	// maxPolls is how many times a commit polls. The replies that need no sync are sent in
	// between, and a client may send its next command before the last of them is written.
	maxPolls = 4

	// worthPolling is how many batches a poll must bring for another poll.
	worthPolling = 3
)

// poll carries out the commands that have arrived since g was written, and adds their changes
// to g: one sync makes all of them durable. The parameter poll is the one of DoPolling.
func (j *journal) poll(g *commit, poll func(read bool) int) {
	for range maxPolls {
		if !j.mayPoll(g) {
			return
		}
		n := poll(true)
		if next := j.joinFilled(g); next != nil {
			j.write(next)
			endBatches(next.onWritten)
			j.mu.Lock()
			j.recycle(next)
			j.mu.Unlock()
		}
		if n < worthPolling {
			return
		}
	}
}

// mayPoll reports whether sockets can be polled again before g is synced: g must be synced at
// all, and the commands that the poll finds must not have to wait for the tables. They run on
// the goroutine that commits g, and if that waited, no window could be written to the tables.
func (j *journal) mayPoll(g *commit) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return g.mustSync && j.behind <= maxBehind
}

// joinFilled makes the commit that was filled while g is being written a part of g, and returns
// it to be written; nil if it is empty.
func (j *journal) joinFilled(g *commit) *commit {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := j.filling
	if next.empty() {
		return nil
	}
	g.onDurable, g.mustSync = append(g.onDurable, next.onDurable...), g.mustSync || next.mustSync
	g.lastID, j.filling = j.machine.LastID(), j.newCommit()
	j.cond.Broadcast()
	return next
}

// endJoining decides whether g, which is written, has to be synced before its onDurable batches
// end. If it is not, batches that need a sync can no longer join it.
func (j *journal) endJoining(g *commit) (sync bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g.noJoin = true
	if g.mustSync {
		j.syncing = append(j.syncing, g)
	}
	return g.mustSync && j.syncFirst
}

// endWriting starts the next commit.
func (j *journal) endWriting() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = nil
	j.cond.Broadcast()
	if !j.filling.empty() {
		j.startCommit()
		j.handOver()
	} else if j.closing {
		j.commits.Broadcast()
	}
}

// endCommit records that g is durable. No batch can join it after that.
func (j *journal) endCommit(g *commit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if g.mustSync {
		j.durableID = max(j.durableID, g.lastID)
		j.syncing = slices.DeleteFunc(j.syncing, func(s *commit) bool { return s == g })
	}
	if j.closing {
		j.commits.Broadcast()
	}
}

// handOver makes a committer carry out the commit that startCommit has returned. The lock is held.
func (j *journal) handOver() {
	j.handedOver = true
	j.commits.Broadcast() // not Signal: close may also wait
}

// handOverIfFull makes a committer carry out the commit that was filled, if it is larger than
// commitOfTasks and no other commit is being written. It returns whether there are changes to be
// committed. The lock is held.
func (j *journal) handOverIfFull() (changed bool) {
	j.endFrame()
	if j.writing == nil && j.filling.bytes() > commitOfTasks {
		j.filling.mustSync = true
		j.startCommit()
		j.handOver()
		return true
	}
	return !j.filling.empty()
}

// committers is how many goroutines carry out commits: so one commit is written while another one is
// synced, or while the replies to its batches are sent.
const committers = 2

// commitHandedOver is a committer: it carries out commits that are handed over, until the journal
// ends.
func (j *journal) commitHandedOver() {
	for g := j.awaitHandOver(); g != nil; g = j.awaitHandOver() {
		j.commit(g, nil)
	}
}

// awaitHandOver waits for a commit that is handed over. It returns nil when the journal ends.
func (j *journal) awaitHandOver() *commit {
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

// commitAll commits all changes. It is called when no more changes come.
func (j *journal) commitAll() {
	j.mu.Lock()
	j.closing = true
	for j.writing != nil || len(j.syncing) > 0 {
		j.commits.Wait()
	}
	commit, _ := j.addBatches(nil, nil, true)
	j.mu.Unlock()
	if commit != nil {
		j.commit(commit, nil)
	}
}
