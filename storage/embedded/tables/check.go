package tables

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// maxFaults is how many faults CheckCold describes at most.
const maxFaults = 100

// CheckCold compares the cold jobs with their index and their counts, and returns what differs, at most maxFaults faults.
func (t *Tables) CheckCold() (faults []string, err error) {
	from := t.db.NewSnapshot()
	defer from.Close()
	found := func(format string, args ...any) {
		if len(faults) < maxFaults {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	counts, records := make(map[string]ColdCount), uint64(0)
	err = eachIn(from, coldKey, func(key, value []byte) error {
		records++
		r, _, err := DecodeRecord(binary.BigEndian.Uint64(key[1:]), value, func(b []byte) string { return string(b) })
		if err != nil {
			found("%v", err)
			return nil
		}
		n := counts[r.Tube]
		counts[r.Tube] = ColdCount{n.Jobs + 1, n.Bytes + uint64(r.Size)}
		p := PlaceOf(&r)
		if _, closer, err := from.Get(p.key()); err != nil {
			found("job %d is not in the index of tube %q: %v", r.ID, r.Tube, err)
		} else {
			closer.Close()
		}
		if _, closer, err := from.Get(idKey(nil, jobKey, r.ID)); err == nil {
			closer.Close()
			found("job %d is there twice", r.ID)
		}
		return nil
	})
	if err != nil {
		return faults, err
	}
	entries := uint64(0)
	err = eachIn(from, indexKey, func(key, _ []byte) error { entries++; return nil })
	if entries != records {
		found("the index has %d entries of %d jobs", entries, records)
	}
	written := make(map[string]ColdCount)
	if err == nil {
		err = eachIn(from, coldCountKey, func(key, value []byte) error {
			written[string(key[1:])] = ColdCount{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])}
			return nil
		})
	}
	for name := range union(counts, written) {
		if counts[name] != written[name] {
			found("tube %q has %+v cold jobs, and %+v were counted", name, counts[name], written[name])
		}
	}
	slices.Sort(faults)
	return faults, err
}

// union returns the names that one of both has.
func union(a, b map[string]ColdCount) map[string]bool {
	all := make(map[string]bool)
	for _, m := range []map[string]ColdCount{a, b} {
		for name := range m {
			all[name] = true
		}
	}
	return all
}
