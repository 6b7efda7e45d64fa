package embedded

import (
	"fmt"
	"strings"
)

// loadPauses brings back the pauses, from the log or else from the tables.
func (l *loader) loadPauses() error {
	err := l.each(pauseKey, func(key, value []byte) error {
		if len(value) != pauseSize {
			return fmt.Errorf("reading the pause of tube %q: it has %d bytes", key[1:], len(value))
		}
		if _, later := l.fromLog.pauses[string(key[1:])]; !later {
			l.fromLog.pauses[string(key[1:])] = decodePause(value)
		}
		return nil
	})
	for name, p := range l.fromLog.pauses {
		if l.machine.RestorePause(l.now, name, p.seconds, p.until) {
			l.window.pauses[name] = p
		} else {
			l.pausesOver = append(l.pausesOver, name)
		}
	}
	return err
}

// loadPolicies brings back the policies, from the log or else from the tables.
func (l *loader) loadPolicies() error {
	err := l.each(policyKey, func(key, value []byte) error {
		name := l.fromLog.names.name(key[1:])
		if _, later := l.fromLog.policies[name]; later {
			return nil
		}
		p, rest, err := decodePolicy(name, value, l.fromLog.names.name)
		if err != nil || len(rest) > 0 {
			return fmt.Errorf("reading the policy of tube %q: %w", name, errPolicy)
		}
		l.machine.SetPolicy(name, p)
		return nil
	})
	for name, p := range l.fromLog.policies {
		l.machine.SetPolicy(name, p)
		l.window.policies[name] = p
	}
	return err
}

// loadKeys brings back the keys that stay taken, from the log or else from the tables. Those
// whose time is over are taken out of the tables with the next window.
func (l *loader) loadKeys() error {
	err := l.each(keptKeyKey, func(key, value []byte) error {
		tube, name, ok := strings.Cut(string(key[1:]), "\x00")
		if !ok || len(value) != keptKeySize {
			return fmt.Errorf("reading the kept key %q: it has %d bytes", key[1:], len(value))
		}
		if k := (keyOfTube{tube, name}); !l.logged(k) {
			l.restoreKey(k, decodeKeptKey(value))
		}
		return nil
	})
	for k, kept := range l.fromLog.keys {
		l.window.keys[k] = kept
		l.restoreKey(k, kept)
	}
	return err
}

// loadImports brings back how far imports are, from the log or else from the tables.
func (l *loader) loadImports() error {
	err := l.each(importKey, func(key, value []byte) error {
		if len(value) != importMarkSize {
			return fmt.Errorf("reading the import %q: it has %d bytes", key[1:], len(value))
		}
		l.imports[string(key[1:])] = decodeImportMark(value)
		return nil
	})
	for source, mark := range l.fromLog.imports {
		l.imports[source], l.window.imports[source] = mark, mark
	}
	return err
}

// logged reports whether the log says something about a kept key.
func (l *loader) logged(k keyOfTube) bool {
	_, ok := l.fromLog.keys[k]
	return ok
}

// restoreKey gives a kept key to the machine, unless its time is over.
func (l *loader) restoreKey(k keyOfTube, kept keptKey) {
	if !l.machine.RestoreKey(l.now, k.tube, k.key, kept.id, kept.until) {
		l.window.keys[k] = keptKey{}
	}
}
