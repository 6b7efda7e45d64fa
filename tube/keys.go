package tube

import "strings"

// keys says which keys are taken: those of jobs, and those that stay taken although their jobs are gone.
type keys struct {
	*base
	jobs       map[string]ref       // by keyName
	tombstones map[string]tombstone // by keyName
	ends       heap[keyEnd]         // of the tombstones. An entry is void if its key has another end by now, or no tombstone
	alarm      alarm
}

// tombstone is a key that stays taken although its job is gone.
type tombstone struct {
	id    uint64
	until Instant
}

// keyEnd is when a key is free again.
type keyEnd struct {
	at   Instant
	name string
}

func (k keyEnd) before(other keyEnd) bool { return k.at < other.at }

func newKeys(b *base) keys {
	return keys{base: b, jobs: make(map[string]ref), tombstones: make(map[string]tombstone)}
}

// keyName is the name of a key inside the Machine: it includes the tube. No tube name
// contains a zero byte.
func keyName(tube, key string) string { return tube + "\x00" + key }

// splitName is the reverse of keyName.
func splitName(name string) (tube, key string) {
	tube, key, _ = strings.Cut(name, "\x00")
	return tube, key
}

// leave lets a key stay taken, whose job is gone.
func (k *keys) leave(name string, g tombstone) {
	k.restore(name, g)
	k.report(name, g)
}

// restore is leave without a report to the journal.
func (k *keys) restore(name string, g tombstone) {
	k.tombstones[name] = g
	k.ends.add(keyEnd{g.until, name})
	k.rearm()
}

// freeNext removes the tombstone that ends first, or drops a void entry.
func (k *keys) freeNext() {
	end := k.ends.take()
	if k.tombstones[end.name].until == end.at {
		k.free(end.name)
	}
	k.rearm()
}

// free removes the tombstone of a key, if there is one.
func (k *keys) free(name string) {
	if g, ok := k.tombstones[name]; ok {
		delete(k.tombstones, name)
		k.report(name, tombstone{id: g.id})
	}
}

func (k *keys) rearm() {
	at := Never
	if k.ends.len() > 0 {
		at = k.ends.first().at
	}
	k.alarms.set(&k.alarm, at)
}

// report reports a tombstone to the journal.
func (k *keys) report(name string, g tombstone) {
	if k.journal != nil {
		tube, key := splitName(name)
		k.journal.KeyTombstone(tube, key, g.id, k.Wall(g.until))
	}
}

// HeldKeys returns how many keys stay taken although their jobs are gone.
func (m *jobs) HeldKeys() int { return len(m.keys.tombstones) }
