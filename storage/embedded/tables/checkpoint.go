package tables

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Checkpoint reads the checkpoint of a job, by its number.
func (s Snapshot) Checkpoint(number uint64) ([]byte, error) {
	data, err := get(s.s, idKey(nil, checkpointKey, number), func(value []byte) ([]byte, error) { return value, nil })
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint %d: %w", number, err)
	}
	return data, nil
}

// setCheckpoints writes checkpoints by their numbers; nil removes one.
func (in *Ingest) setCheckpoints(all map[uint64][]byte) (err error) {
	for _, number := range slices.SortedFunc(maps.Keys(all), yielding(in, cmp.Compare[uint64])) {
		in.key = idKey(in.key[:0], checkpointKey, number)
		if data := all[number]; data == nil {
			err = errors.Join(err, in.delete(checkpoints, in.key))
		} else {
			err = errors.Join(err, in.set(checkpoints, in.key, data))
		}
	}
	return err
}
