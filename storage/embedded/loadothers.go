package embedded

import (
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

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

// restoreTombstone gives a tombstone to the machine, unless its time is over.
func (l *loader) restoreTombstone(key tables.TubeKey, tomb tables.Tombstone) {
	if !l.machine.RestoreKey(l.now, key.Tube, key.Key, tomb.ID, tomb.Until) {
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
