package tube

import (
	"cmp"
	"slices"
	"time"
)

// tombstone is a key that stays taken although its job is gone.
type tombstone struct {
	id    uint64
	until Instant
}

// tombstones has the tombstones by keyName, and when they end. An entry of order is void if
// its key has another end by now, or no tombstone.
type tombstones struct {
	keys  map[string]tombstone
	order heap[keyEnd]
	alarm alarm
}

// keyEnd is when a key is free again.
type keyEnd struct {
	at   Instant
	name string
}

func (k keyEnd) before(other keyEnd) bool { return k.at < other.at }
func (keyEnd) moved(int)                  {}

// ByKey returns the job of a tube that has a key, or nil.
func (m *Machine) ByKey(tube, key string) *Job {
	if key == "" {
		return nil
	}
	if r := m.keys[keyName(tube, key)]; r != 0 {
		return m.slab.at(r)
	}
	return nil
}

// FindKey returns the jobs of all tubes that have a key, in the order of their ids. It examines
// every tube.
func (m *Machine) FindKey(key string) (jobs []*Job) {
	if len(m.keys) == 0 {
		return nil
	}
	for _, t := range m.order {
		if j := m.ByKey(t.name, key); j != nil {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs
}

// forgetMetadata removes the metadata of j, which is about to be removed. Its key stays taken
// for as long as the rules say.
func (m *Machine) forgetMetadata(now Instant, j *Job) {
	m.expireNoMore(j)
	if name := m.metadata[j.self].name; name != "" {
		delete(m.keys, name)
		if ttl := m.rulesOf(j).KeyTTL; ttl > 0 {
			m.addTombstone(name, tombstone{j.ID, now + Instant(ttl)})
		}
	}
	delete(m.metadata, j.self)
}

// loseKey takes the key of j away from it, without a tombstone and without a report to the journal.
func (m *Machine) loseKey(j *Job) {
	f := m.metadata[j.self]
	delete(m.keys, f.name)
	f.name = ""
	m.metadata[j.self] = f
}

// addTombstone makes a key stay taken.
func (m *Machine) addTombstone(name string, g tombstone) {
	m.tombstones.keys[name] = g
	m.tombstones.order.add(keyEnd{g.until, name})
	m.rearmKeys()
	m.journalKey(name, g)
}

// freeKey removes the tombstone of a key, if there is one.
func (m *Machine) freeKey(name string) {
	if g, ok := m.tombstones.keys[name]; ok {
		delete(m.tombstones.keys, name)
		m.journalKey(name, tombstone{id: g.id})
	}
}

// fireKeys removes the tombstone that ends first, or drops a void entry.
func (m *Machine) fireKeys() {
	end := m.tombstones.order.take()
	if m.tombstones.keys[end.name].until == end.at {
		m.freeKey(end.name)
	}
	m.rearmKeys()
}

func (m *Machine) rearmKeys() {
	at := Never
	if m.tombstones.order.len() > 0 {
		at = m.tombstones.order.first().at
	}
	m.alarms.set(&m.tombstones.alarm, at)
}

func (m *Machine) journalKey(name string, g tombstone) {
	if m.journal != nil {
		tube, key := splitName(name)
		m.journal.KeyTombstone(tube, key, g.id, m.Wall(g.until))
	}
}

// RestoreKey brings back a tombstone: a key that stays taken although its job is gone. It
// returns false if its time is over.
func (m *Machine) RestoreKey(now Instant, tube, key string, id uint64, until Instant) bool {
	if until <= now {
		return false
	}
	name := keyName(tube, key)
	m.tombstones.keys[name] = tombstone{id, until}
	m.tombstones.order.add(keyEnd{until, name})
	m.rearmKeys()
	return true
}

// KeyTombstone returns which job had a key of a tube that has a tombstone, and how long the key
// stays taken; false if there is none.
func (m *Machine) KeyTombstone(now Instant, tube, key string) (id uint64, left time.Duration, ok bool) {
	g, ok := m.tombstones.keys[keyName(tube, key)]
	return g.id, g.until.Until(now), ok && g.until > now
}
