package embedded

// What happens when changes come faster than the disk takes them: puts wait while too many
// bodies are in memory (overLimit), tasks wait while a commit other than the one that they fill
// is written, and while the tables are behind the log (awaitTaskTurn), and all calls wait while
// the tables are far behind (awaitTables). If the tables cannot be written at all, puts are
// refused instead (stalled).

const (
	// maxUnwritten is how many bytes of bodies can wait to be written before further puts wait.
	maxUnwritten = 64 << 20

	// maxPendingBodies is how many bytes of bodies can wait in memory for the tables, in
	// addition to those that stay there anyway (Options.KeepBodies).
	maxPendingBodies = 256 << 20

	// maxBehind is how many windows can wait for the tables before changes have to wait for
	// them.
	maxBehind = 8

	// behindOfTasks is the same for tasks. It is lower, so that a task, which changes more than
	// any connection does, never makes connections wait.
	behindOfTasks = maxBehind / 4

	// commitOfTasks is the size in bytes up to which tasks fill a commit while another one is
	// written. A put that has joined the commit waits for all of it.
	commitOfTasks = 32 << 10

	// maxWindows is how many windows can wait for the tables, see endWindow.
	maxWindows = maxBehind + 2
)

// overLimit reports whether further puts have to wait until bodies are written, or are in the
// tables. The lock is held.
func (j *journal) overLimit() bool {
	limit := int64(maxUnwritten)
	if j.unwrittenAt > 0 {
		limit = j.unwrittenAt
	}
	tablesCatchUp := j.behind > 0 && !j.failing
	return j.unwritten > limit || tablesCatchUp && j.overBodyLimit()
}

// overBodyLimit reports whether more bodies are in memory than can wait there for the tables.
// The lock is held.
func (j *journal) overBodyLimit() bool { return j.bytesInMemory() > j.keep+maxPendingBodies }

// stalled reports whether the tables cannot be written, and are so far behind that puts are
// refused. Everything else goes on, in the log. The lock is held.
func (j *journal) stalled() bool {
	return j.failing && (j.behind > maxBehind || j.overBodyLimit())
}

// awaitTables waits while the tables are too far behind the log. It does not wait while they
// cannot be written, because that can last for ever. It releases the lock while it waits; the
// lock is held before and after.
func (j *journal) awaitTables() {
	for j.behind > maxBehind && !j.failing && !j.ending {
		j.cond.Wait()
	}
}

// awaitTaskTurn waits while a commit is written and the next one is already large, or while the
// tables are behind the log: tasks change jobs faster than a disk writes them. It does not wait
// for tables that cannot be written, and else for one window at most: connections can keep the tables
// behind for ever. It releases the lock while it waits; the lock is held before and after.
func (j *journal) awaitTaskTurn() {
	done := j.windowsDone
	for !j.ending && (j.behind > behindOfTasks && !j.failing && j.windowsDone == done || j.writing != nil && j.filling.bytes() > commitOfTasks) {
		j.cond.Wait()
	}
}
