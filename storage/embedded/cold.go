package embedded

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// Delayed jobs that are not due soon are cold: they are in the tables only, and the machine counts them (tube.Machine.Evict). So are ready
// jobs of a tube behind its first ones, if there are very many (cooling.go). The checkpointer makes jobs cold after it has written them.
// They are admitted, which means that they are read and given back to the machine, when they are due soon, or few ready jobs are left in
// memory (admitDue), and for operations that may concern them (coldneeds.go). Whether a job is cold is nowhere in the log: after a crash a
// job is where the tables and the log say.
//
// What the tables say of a job is true if no window that is not in the tables says anything of it. Only such jobs are made cold. A job that
// was read is admitted if it is not in the machine and in no such window, and if no window became part of the tables between the
// reading and the lock: otherwise a job that was deleted could come back. That is what ingesting is for.

// coldJobs is what an engine knows of cold jobs. Its fields but ingesting are guarded by the engine's lock.
type coldJobs struct {
	after time.Duration // from now: jobs that are due later can be cold; negative: none can

	// ingesting is locked while a window becomes part of the tables; and, shared, while cold jobs are read and admitted. It is locked before the
	// engine's lock.
	ingesting sync.RWMutex

	lastID    uint64                // no cold job has a larger id; 0: there are none
	stored    map[uint64]storedCold // jobs that the tables have as cold ones, but are in the machine or have gone since; see keep and forget
	warm      map[string]int        // how many of these each tube has in the machine
	watches   map[*coldWatch]bool   // of operations that read cold jobs
	afterRead func()                // for tests: is called between the reading of cold jobs and their admission
	keepWarm  map[string]int        // tubes whose jobs are not made cold at present
	allWarm   bool                  // no jobs are made cold at present
	admitting bool                  // admitDue runs

	mostReady int                       // ready jobs in memory before some are made cold
	fewReady  int                       // see tube.Machine.SetCold
	behind    map[string]tube.ColdPlace // ready jobs of these tubes can be cold from there on
	mostWarm  int                       // see the constant of that name
	crowded   string                    // a tube with so many ready jobs that were cold that no more are admitted; "": none was found
	cooling   bool                      // cool runs
}

func newColdJobs() coldJobs {
	return coldJobs{
		after: -1, stored: make(map[uint64]storedCold), warm: make(map[string]int), keepWarm: make(map[string]int),
		behind: make(map[string]tube.ColdPlace), mostWarm: mostWarm, watches: make(map[*coldWatch]bool),
	}
}

// storedCold is what the tables have of a cold job in their index.
type storedCold struct {
	place tables.Place
	size  uint32
	gone  bool // it was deleted
}

// keep records that the tables have a job as a cold one that is not cold now.
func (c *coldJobs) keep(s storedCold) {
	if old, has := c.stored[s.place.ID]; !has || old.gone {
		c.warm[s.place.Tube]++
	}
	c.stored[s.place.ID] = s
}

// forget is called when such a job is cold, or the tables no longer have it as a cold one.
func (c *coldJobs) forget(id uint64) {
	s, has := c.stored[id]
	delete(c.stored, id)
	if has && !s.gone {
		c.cool(s.place.Tube)
	}
}

// deleted is called when a job is deleted.
func (c *coldJobs) deleted(id uint64) {
	if s, has := c.stored[id]; has && !s.gone {
		s.gone = true
		c.stored[id] = s
		c.cool(s.place.Tube)
	}
}

func (c *coldJobs) cool(name string) {
	if c.warm[name]--; c.warm[name] == 0 {
		delete(c.warm, name)
	}
}

// lead is how long before they are due jobs are admitted, and reach how far ahead admitDue reads at most. Since that is less than after, no job is
// made cold before a place that admitDue has passed.
func (c *coldJobs) lead() time.Duration  { return c.after / 2 }
func (c *coldJobs) reach() time.Duration { return c.after / 4 * 3 }

const (
	// coldAfter is coldJobs.after unless a test says otherwise.
	coldAfter = time.Minute

	// coldPage is how many cold jobs are admitted at once when they are due soon.
	coldPage = 1000

	// mostWarm is how many of the jobs that were cold a tube can have in memory before no more are admitted because they are due.
	mostWarm = 250_000
)

// canBeCold reports whether a job can be written as a cold one. The lock is held.
func (j *journal) canBeCold(job *tube.Job, r *tube.Record) bool {
	return j.cold.after >= 0 && j.machine.CanBeCold(job) && j.isFarAhead(tables.PlaceOf(r))
}

// isFarAhead reports whether a job in a place can be cold because it is not due soon, or because it is ready and many come before it. The
// lock is held.
func (j *journal) isFarAhead(p tables.Place) bool {
	if p.State == tube.Ready {
		return j.isFarBehind(p)
	}
	return tube.Instant(p.Rank).Until(j.machine.Wall(j.now())) > j.cold.after
}

// coldWritten is what has become of cold jobs in a window.
type coldWritten struct {
	cold   []storedCold // these were written as cold jobs
	others []uint64     // these are cold in the tables no longer
}

// makeCold makes the jobs of a window cold that were written as such, unless they have changed.
func (j *journal) makeCold(c *coldWritten) {
	for ids := range slices.Chunk(c.others, perHold) {
		j.forgetStored(ids)
	}
	for jobs := range slices.Chunk(c.cold, perHold) {
		j.evictWritten(jobs)
	}
}

// ingest makes a window part of the tables, and calls written at once: until then its records of ended jobs are counted twice.
func (j *journal) ingest(in *tables.Ingest, w *window, written func(bool)) error {
	if err := in.Finish(); err != nil {
		return err
	}
	j.cold.ingesting.Lock()
	defer j.cold.ingesting.Unlock()
	if err := in.Commit(); err != nil {
		return err
	}
	written(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queued = slices.DeleteFunc(j.queued, func(q *window) bool { return q == w })
	return nil
}

func (j *journal) forgetStored(ids []uint64) {
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	for _, id := range ids {
		j.cold.forget(id)
	}
}

// evictWritten makes jobs cold that were written as such, unless they have changed.
func (j *journal) evictWritten(jobs []storedCold) {
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	for _, s := range jobs {
		j.cold.lastID = max(j.cold.lastID, s.place.ID)
		j.cold.keep(s)
		j.evict(s.place.ID)
	}
}

// evict makes a job cold again, if the tables have it as it is, and it is not due soon. The lock is held.
func (j *journal) evict(id uint64) {
	s, has := j.cold.stored[id]
	if !has || j.cold.allWarm || !j.isFarAhead(s.place) || j.cold.keepWarm[s.place.Tube] > 0 || j.isChanging(id) {
		return
	}
	var metadata tube.Metadata
	r, _, found := j.machine.Record(id, &metadata)
	if found && tables.PlaceOf(&r) == s.place && !j.cold.isKept(&s.place) && j.machine.Evict(id) {
		j.cold.forget(id)
		for w := range j.cold.watches {
			w.note(&s.place)
		}
	}
}

// isChanging reports whether a window that is not in the tables says anything of a job that they have. The lock is held.
func (j *journal) isChanging(id uint64) bool {
	if _, is := j.window.jobs[id]; is {
		return true
	}
	if j.held != nil {
		if _, is := j.held.jobs[id]; is {
			return true
		}
	}
	for _, w := range j.queued {
		if _, is := w.jobs[id]; is {
			return true
		}
	}
	return false
}

// coldWatch notices which jobs of a queue become cold while others are read.
type coldWatch struct {
	of   tube.ColdQueue
	from tube.ColdPlace // no job before it became cold
	keep tube.ColdPlace // no job before it becomes cold until unwatch
	kept []uint64       // these would have
}

// watch begins to watch a queue, until unwatch. The lock is held, since before it was decided from where to read.
func (c *coldJobs) watch(of tube.ColdQueue) *coldWatch {
	w := &coldWatch{of: of, from: tube.NoColdPlace}
	c.watches[w] = true
	return w
}

// unwatch ends a watch, if it is not nil. The lock is held.
func (j *journal) unwatch(w *coldWatch) {
	if w == nil {
		return
	}
	delete(j.cold.watches, w)
	for _, id := range w.kept {
		j.evict(id)
	}
}

// isKept reports whether a job must not become cold because of a watch. The lock is held.
func (c *coldJobs) isKept(p *tables.Place) bool {
	for w := range c.watches {
		if p.Tube == w.of.Tube && p.State == w.of.State && p.ColdPlace.Before(w.keep) {
			w.kept = append(w.kept, p.ID)
			return true
		}
	}
	return false
}

// unwatch is journal.unwatch. The lock is not held.
func (e *Engine) unwatch(w *coldWatch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.journal.unwatch(w)
}

// note is called when a job became cold.
func (w *coldWatch) note(p *tables.Place) {
	if p.Tube == w.of.Tube && p.State == w.of.State && p.ColdPlace.Before(w.from) {
		w.from = p.ColdPlace
	}
}

// coldPlaces says which cold jobs of a queue are to be admitted.
type coldPlaces struct {
	of    tube.ColdQueue
	after tube.ColdPlace // those behind it
	upTo  int64          // up to this rank
	n     int            // up to so many
}

// anyRank is coldPlaces.upTo for all ranks.
const anyRank = int64(tube.Never)

// admittedPage says which cold jobs were admitted.
type admittedPage struct {
	ids    []uint64
	next   tube.ColdPlace // the place behind those that were read; tube.NoColdPlace: there are no more
	watch  *coldWatch     // of jobs that became cold since; nil: none is needed
	oldest tube.Instant   // of needOldest, which admits none
}

// isPassed reports whether all jobs before next are admitted: none of them became cold since.
func (p *admittedPage) isPassed() bool { return p.watch == nil || !p.watch.from.Before(p.next) }

// coldFrom returns the place before which all jobs are admitted.
func (p *admittedPage) coldFrom() tube.ColdPlace {
	if p.isPassed() {
		return p.next
	}
	return p.watch.from
}

// admitPage admits cold jobs of a queue.
func (j *journal) admitPage(which coldPlaces) (page admittedPage, err error) {
	j.cold.ingesting.RLock()
	defer j.cold.ingesting.RUnlock()
	for left := which.n; left > 0; left = which.n - len(page.ids) {
		var places []tube.ColdPlace
		places, page.next, err = j.tables.ColdPlaces(which.of, which.after, which.upTo, left)
		if err != nil {
			return page, err
		}
		var jobs []coldJob
		if jobs, err = j.readCold(which.of.Tube, j.areCold(places)); err != nil {
			return page, err
		}
		if j.cold.afterRead != nil {
			j.cold.afterRead()
		}
		for part := range slices.Chunk(jobs, perHold) {
			page.ids = append(page.ids, j.admitAll(part)...)
		}
		if page.next.Rank > which.upTo || page.next == tube.NoColdPlace {
			break
		}
		which.after = justBefore(page.next)
	}
	return page, nil
}

// readCold reads cold jobs of a tube. It leaves out those that are damaged. ingesting is locked for sharing.
func (j *journal) readCold(name string, places []tube.ColdPlace) (jobs []coldJob, err error) {
	err = j.tables.ColdJobs(name, places, func(r tube.Record, body []byte) {
		jobs = append(jobs, coldJob{r, bytes.Clone(body)})
	})
	if err == nil || !tables.IsDamage(err) {
		return jobs, err
	}
	jobs = nil
	for _, p := range places {
		r, body, found, err := j.tables.ColdJob(p.ID, func(b []byte) string { return string(b) })
		switch {
		case err == nil && found:
			jobs = append(jobs, coldJob{r, body})
		case err == nil || tables.IsDamage(err):
			j.bodyReads.report("a job is damaged, and stays as it is", p.ID, err)
		default:
			return nil, err
		}
	}
	return jobs, nil
}

// areCold returns the places whose jobs are cold. ingesting is locked for sharing.
func (j *journal) areCold(places []tube.ColdPlace) []tube.ColdPlace {
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	return slices.DeleteFunc(places, func(p tube.ColdPlace) bool { return j.machine.Find(p.ID) != nil || j.isChanging(p.ID) })
}

// admitAll admits jobs that were read, and returns those that were cold. ingesting is locked for sharing.
func (j *journal) admitAll(jobs []coldJob) (admitted []uint64) {
	j.mu.Lock()
	defer unlockAndYield(j.mu)
	now := j.now()
	for i := range jobs {
		if j.admit(now, &jobs[i]) {
			admitted = append(admitted, jobs[i].record.ID)
		}
	}
	return admitted
}

// admitOne admits a job, if it is cold.
func (j *journal) admitOne(id uint64) (admitted []uint64, err error) {
	j.cold.ingesting.RLock()
	defer j.cold.ingesting.RUnlock()
	r, body, found, err := j.tables.ColdJob(id, func(name []byte) string { return string(name) })
	if err != nil || !found {
		return nil, err
	}
	return j.admitAll([]coldJob{{r, body}}), nil
}

// coldJob is a cold job that was read.
type coldJob struct {
	record tube.Record
	body   []byte // nil if it is not inline
}

// admit gives a job back to the machine that was read. It returns false if it is not cold, but there already, or gone. The lock is held.
func (j *journal) admit(now tube.Instant, c *coldJob) bool {
	id := c.record.ID
	if j.machine.Find(id) != nil || j.isChanging(id) {
		return false
	}
	stored, body := storedCold{place: tables.PlaceOf(&c.record), size: c.record.Size}, c.body
	if len(body) == 0 || j.bytesInMemory() > j.keep {
		body = nil
	}
	if err := j.machine.Admit(now, c.record, body); err != nil {
		j.bodyReads.report("a job cannot be read from the journal", id, err)
		return false
	}
	j.cold.keep(stored)
	return true
}

// admitFirst admits up to n of the first cold jobs of a queue. The caller ends the watch of the page.
func (j *journal) admitFirst(of tube.ColdQueue, n int) (page admittedPage, err error) {
	j.mu.Lock()
	_, first := j.machine.Cold(of)
	watch := j.cold.watch(of)
	j.mu.Unlock()
	page, err = j.admitPage(coldPlaces{of, justBefore(first), anyRank, n})
	page.watch = watch
	if err != nil {
		return page, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.machine.ColdFrom(of, page.coldFrom())
	if of.State == tube.Ready {
		j.cold.passed(of.Tube, page.next)
	}
	return page, nil
}

func justBefore(p tube.ColdPlace) tube.ColdPlace {
	if p.ID > 0 {
		return tube.ColdPlace{Rank: p.Rank, ID: p.ID - 1}
	}
	return tube.ColdPlace{Rank: max(p.Rank-1, 0), ID: 1<<64 - 1}
}

// startAdmitting starts admitDue if cold jobs are due soon, or few ready jobs are in memory. The lock is held.
func (e *Engine) startAdmitting() {
	if queues := e.machine.ColdDue(); len(queues) > 0 && !e.cold.admitting && !e.closed {
		e.cold.admitting = true
		e.pending++
		go e.admitDue(queues)
	}
}

// admitDue admits the cold jobs of queues that are due soon, or the first ones that are ready.
func (e *Engine) admitDue(queues []tube.ColdQueue) {
	y, release := ownThread()
	defer release()
	for _, of := range queues {
		admitPage := e.admitDuePage
		if of.State == tube.Ready {
			admitPage = e.admitReadyPage
		}
		for admitPage(of) {
			y.work()
		}
	}
	e.mu.Lock()
	e.cold.admitting = false
	next, now := e.machine.Next(), e.now()
	e.mu.Unlock()
	e.tasksEnded(1)
	e.listener.Due(untilDue(next, now))
}

// admitDuePage admits the next delayed jobs of a tube. It returns whether there are more that are due soon.
func (e *Engine) admitDuePage(of tube.ColdQueue) (more bool) {
	j := e.journal
	e.mu.Lock()
	jobs, first := e.machine.Cold(of)
	ahead, now := e.machine.WallAhead(), e.machine.Wall(e.now())
	wanted := jobs > 0 && !e.closed && tube.Instant(first.Rank).Until(now) <= e.cold.lead()
	room := min(coldPage, e.cold.mostWarm-e.cold.warm[of.Tube])
	if wanted && room <= 0 {
		wanted, e.cold.crowded = false, of.Tube
	}
	watch := e.cold.watch(of)
	defer e.unwatch(watch)
	e.mu.Unlock()
	if !wanted {
		return false
	}
	by := int64(now.Plus(e.cold.reach()))
	page, err := j.admitPage(coldPlaces{of, justBefore(first), by, room})
	if err != nil {
		j.bodyReads.report("the next delayed jobs of a tube cannot be read from the journal", 0, err)
		return false
	}
	page.watch = watch
	e.mu.Lock()
	defer e.mu.Unlock()
	next := page.coldFrom()
	if ahead == e.machine.WallAhead() {
		e.machine.ColdFrom(of, next)
	}
	return next.Rank <= by
}
