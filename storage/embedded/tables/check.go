package tables

import (
	"encoding/binary"
	"fmt"
	"slices"

	"redstalk/tube"
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
	counts, records := make(map[tube.ColdQueue]ColdCount), uint64(0)
	err = eachIn(from, coldKey, func(key, value []byte) error {
		records++
		r, _, err := DecodeRecord(binary.BigEndian.Uint64(key[1:]), value, func(b []byte) string { return string(b) })
		if err != nil {
			found("%v", err)
			return nil
		}
		p := PlaceOf(&r)
		counts[p.ColdQueue] = counts[p.ColdQueue].plus(countOf(p, r.Size))
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
	written := make(map[tube.ColdQueue]ColdCount)
	if err == nil {
		err = eachIn(from, coldCountKey, func(key, value []byte) error {
			of, count, err := decodeColdCount(key, value)
			written[of] = count
			return err
		})
	}
	for of := range union(counts, written) {
		if counts[of] != written[of] {
			found("tube %q has %+v cold jobs that are %v, and %+v were counted", of.Tube, counts[of], of.State, written[of])
		}
	}
	slices.Sort(faults)
	return faults, err
}

// union returns the queues that one of both has.
func union(a, b map[tube.ColdQueue]ColdCount) map[tube.ColdQueue]bool {
	all := make(map[tube.ColdQueue]bool)
	for _, m := range []map[tube.ColdQueue]ColdCount{a, b} {
		for of := range m {
			all[of] = true
		}
	}
	return all
}
