package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// loader brings back jobs, and everything else, from the tables and from the
// part of the log that is not in them.
type loader struct {
	tables     *tables.Tables
	machine    *tube.Machine
	imports    map[string]tables.ImportMark // gets how far imports are
	tallies    *tallies                     // gets those that the tables lack
	saved      *jobCheckpoints              // likewise
	cold       *coldJobs
	coldCounts map[tube.ColdQueue]tables.ColdCount // those that no entry of the log is about
	storedID   uint64                              // the largest id that the tables can have
	now        tube.Instant
	log        *slog.Logger
	fromLog    *history
	window     *window // gets what the tables lack
	keep       int64   // bodies, in bytes, that stay in memory although they are on disk
	pausesOver []string

	begun    time.Time
	loggedAt time.Time // when progress was last logged
	jobs     int
}

// progressEvery is how often it is logged that jobs are still being read.
const progressEvery = time.Second

// load brings back everything. Policies come before jobs, because they say what becomes of a
// job that was reserved.
func (l *loader) load() error {
	l.begun, l.loggedAt = time.Now(), time.Now()
	if err := errors.Join(l.loadPolicies(), l.loadGroups(), l.loadImports(), l.loadNamed(tube.Schedules), l.loadNamed(tube.JobBatches)); err != nil {
		return err
	}
	if err := l.tables.Jobs(l.fromLog.names.name, l.loadStored); err != nil {
		return err
	}
	if err := l.loadCold(); err != nil {
		return err
	}
	l.machine.SortTubes()
	if err := errors.Join(l.loadPauses(), l.loadTombstones()); err != nil {
		return err
	}
	for k, t := range l.fromLog.Tallies {
		l.tallies.unsaved[k], l.window.Tallies[k] = t, t
	}
	for number, data := range l.fromLog.Checkpoints {
		l.saved.set(number, data)
		l.window.Checkpoints[number] = data
	}
	l.machine.SkipTo(l.fromLog.lastID)
	l.log.Info("all jobs are loaded", "jobs", l.jobs, "took", time.Since(l.begun))
	return nil
}

// loadStored brings back a job that is in the tables, and takes it out of fromLog. Its record
// is the one in the log, if there is one there.
func (l *loader) loadStored(r tube.Record, body []byte) error {
	if im := l.fromLog.jobs.find(r.ID); im != nil {
		l.fromLog.jobs.remove(r.ID)
		if im.gone {
			l.window.jobs[r.ID] = isGoneLarge
			return nil
		}
		l.window.jobs[r.ID] = isChanged
		var err error
		if r, err = l.decode(r.ID, im); err != nil {
			return err
		}
	}
	return l.restore(r, l.keepable(r, body))
}

// keepable returns a copy of an inline body, if the body stays in memory: it is likely to be
// needed soon, and there is room. Otherwise it returns nil.
func (l *loader) keepable(r tube.Record, body []byte) []byte {
	if len(body) == 0 || r.State != tube.Ready || l.machine.BodyBytes()+int64(len(body)) > l.keep {
		return nil
	}
	return bytes.Clone(body)
}

var errNoJob = errors.New("there is no such job")

// loadCold brings back the jobs that only the log says something of, or that are cold in the tables. The others that are cold
// there are only counted.
func (l *loader) loadCold() (err error) {
	if l.coldCounts, err = l.tables.LoadColdCounts(); err != nil {
		return err
	}
	if l.coldCounts = maps.Clone(l.coldCounts); len(l.coldCounts) > 0 {
		l.cold.lastID = l.storedID
	}
	if err := l.fromLog.jobs.drain(l.loadLogged); err != nil {
		return err
	}
	for of, n := range l.coldCounts {
		if n.Jobs == 0 {
			continue
		}
		first, _, err := l.tables.FirstCold(of)
		if err != nil {
			return err
		}
		of.Tube = l.fromLog.names.name([]byte(of.Tube))
		if of.State == tube.Ready {
			l.cold.behind[of.Tube] = first
		}
		l.machine.RestoreCold(l.now, of, int(n.Jobs), n.Bytes, int(n.Urgent), first)
	}
	return nil
}

// wasCold brings back a job of which the log says something, if it is cold in the tables.
func (l *loader) wasCold(id uint64, im *image) (is bool, err error) {
	if id > l.cold.lastID {
		return false, nil
	}
	stored, body, found, err := l.tables.ColdJob(id, l.fromLog.names.name)
	if err != nil || !found {
		return false, err
	}
	at := tables.PlaceOf(&stored)
	l.cold.keep(storedCold{place: at, size: stored.Size})
	l.coldCounts[at.ColdQueue] = l.coldCounts[at.ColdQueue].Without(at, stored.Size)
	if im.gone {
		l.window.jobs[id] = isGoneLarge
		return true, nil
	}
	l.window.jobs[id] = isChanged
	r, err := l.decode(id, im)
	if err != nil {
		return true, err
	}
	return true, l.restore(r, l.keepable(r, body))
}

// loadLogged brings back a job that is in the log, and not in the tables unless it is cold there.
func (l *loader) loadLogged(id uint64, im *image) error {
	if cold, err := l.wasCold(id, im); cold || err != nil {
		return err
	}
	switch {
	case im.gone:
		return nil
	case !im.put:
		return fmt.Errorf("reading the log's record of job %d: %w", id, errNoJob)
	}
	if id <= l.window.base {
		l.window.jobs[id] = isNew
	}
	r, err := l.decode(id, im)
	if err != nil {
		return err
	}
	return l.restore(r, im.body)
}

// decode returns the record of an image.
func (l *loader) decode(id uint64, im *image) (tube.Record, error) {
	r, _, err := tables.DecodeRecord(id, []byte(im.record), l.fromLog.names.name)
	return r, err
}

// restore gives a job to the machine.
func (l *loader) restore(r tube.Record, body []byte) error {
	l.fromLog.latest = max(l.fromLog.latest, r.Created)
	if l.jobs++; l.jobs%10_000 == 0 && time.Since(l.loggedAt) >= progressEvery {
		l.loggedAt = time.Now()
		l.log.Warn("loading the jobs; clients wait until that is done", "so far", l.jobs)
	}
	return l.machine.Restore(l.now, r, body)
}

// loadGroups brings back what is set for groups: each from the log or, if it is not there, from the
// tables.
func (l *loader) loadGroups() error {
	err := l.tables.Groups(func(k tables.TubeKey, r tube.GroupRecord) {
		if _, later := l.fromLog.Groups[k]; !later {
			l.machine.RestoreGroup(l.now, k.Tube, k.Key, r)
		}
	})
	for k, r := range l.fromLog.Groups {
		if l.window.Groups[k] = r; r != (tube.GroupRecord{}) {
			l.machine.RestoreGroup(l.now, k.Tube, k.Key, r)
		}
	}
	return err
}

// loadPauses brings back the pauses: each from the log or, if it is not there, from the tables.
func (l *loader) loadPauses() error {
	err := l.tables.Pauses(func(name string, p tables.Pause) {
		if _, later := l.fromLog.Pauses[name]; !later {
			l.fromLog.Pauses[name] = p
		}
	})
	for name, p := range l.fromLog.Pauses {
		if l.machine.RestorePause(l.now, name, p.Seconds, p.Until) {
			l.window.Pauses[name] = p
		} else {
			l.pausesOver = append(l.pausesOver, name)
		}
	}
	return err
}

// loadPolicies brings back the policies: each from the log or, if it is not there, from the
// tables.
func (l *loader) loadPolicies() error {
	inTablesOnly := func(name string) bool {
		_, later := l.fromLog.Policies[name]
		return !later
	}
	err := l.tables.Policies(l.fromLog.names.name, inTablesOnly, func(name string, p *tube.Policy) { l.machine.SetPolicy(name, p) })
	for name, p := range l.fromLog.Policies {
		l.machine.SetPolicy(name, p)
		l.window.Policies[name] = p
	}
	return err
}

// loadNamed brings back the named records of a kind: each from the log or, if it is not there, from the tables. The members of
// batches, which are counted in their records, come later.
func (l *loader) loadNamed(kind tube.RecordKind) error {
	err := l.tables.Named(kind, func(r tube.NamedRecord) {
		if _, later := l.fromLog.Named[kind][r.RecordName()]; !later {
			l.restoreNamed(r)
		}
	})
	for name, r := range l.fromLog.Named[kind] {
		if l.window.Named[kind][name] = r; r != nil {
			l.restoreNamed(r)
		}
	}
	return err
}

// restoreNamed gives a record to the machine. The wall clock can have been set back: then a batch began now.
func (l *loader) restoreNamed(r tube.NamedRecord) {
	switch r := r.(type) {
	case *tube.Schedule:
		l.machine.RestoreSchedule(r)
	case *tube.JobBatch:
		b := *r
		b.Created, b.Since = min(b.Created, l.now), min(b.Since, l.now)
		l.machine.RestoreBatch(b)
	}
}

// loadTombstones brings back the tombstones: each from the log or, if it is not there, from the
// tables. The next window removes from the tables those whose time is over.
func (l *loader) loadTombstones() error {
	err := l.tables.Tombstones(func(key tables.TubeKey, tomb tables.Tombstone) {
		if _, later := l.fromLog.Tombstones[key]; !later {
			l.restoreTombstone(key, tomb)
		}
	})
	for key, tomb := range l.fromLog.Tombstones {
		l.window.Tombstones[key] = tomb
		l.restoreTombstone(key, tomb)
	}
	return err
}

// restoreTombstone gives a tombstone to the machine, unless its time is over. If the wall clock was set back meanwhile, it ends
// that much earlier: by at least as much as the latest job lies ahead.
func (l *loader) restoreTombstone(key tables.TubeKey, tomb tables.Tombstone) {
	until := tomb.Until
	if until != 0 {
		until -= max(l.fromLog.latest-l.now, 0)
	}
	if !l.machine.RestoreKey(l.now, key.Tube, key.Key, tomb.ID, until) {
		l.window.Tombstones[key] = tables.Tombstone{}
	}
}

// loadImports brings back how far imports are, from the tables and then from the log.
func (l *loader) loadImports() error {
	err := l.tables.Imports(func(source string, m tables.ImportMark) { l.imports[source] = m })
	for source, m := range l.fromLog.Imports {
		l.imports[source], l.window.Imports[source] = m, m
	}
	return err
}
