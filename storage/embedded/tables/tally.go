package tables

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/tube"
)

// TallyKey is a tube and a period, by the number of that. The name of all tubes together is "".
type TallyKey struct {
	Period tube.Period
	Number uint64
	Tube   string
}

// tablesKey returns the key in the tables.
func (k TallyKey) tablesKey() []byte {
	return append(binary.BigEndian.AppendUint64([]byte{tallyKey, byte(k.Period)}, k.Number), k.Tube...)
}

var errTally = errors.New("not a tally")

// AppendTally appends the block of a tally: its numbers, as varints.
func AppendTally(to []byte, t *tube.Tally) []byte {
	var room [blockRoom]byte
	b := append(room[:0], blockVersion)
	for _, n := range t {
		b = binary.AppendUvarint(b, n)
	}
	return appendBlock(to, b)
}

// DecodeTally reads the block of a tally. It also returns the bytes behind it.
func DecodeTally(from []byte) (t tube.Tally, rest []byte, err error) {
	b, rest := cutBlock(from)
	for i := range t {
		t[i] = b.number(math.MaxUint64)
	}
	if b.bad || len(b.rest) > 0 {
		return t, nil, errTally
	}
	return t, rest, nil
}

// Tally reads a tally; it is zero if there is none.
func (t *Tables) Tally(k TallyKey) (tally tube.Tally, err error) {
	value, closer, err := t.db.Get(k.tablesKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return tally, nil
	}
	if err == nil {
		defer closer.Close() // the value is valid until then
		tally, _, err = DecodeTally(value)
	}
	if err != nil {
		return tally, fmt.Errorf("reading a tally of the tube %q: %w", k.Tube, err)
	}
	return tally, nil
}

// Tallies calls do with all tallies of a period.
func (t *Tables) Tallies(period tube.Period, number uint64, do func(tube string, tally tube.Tally)) error {
	from := TallyKey{Period: period, Number: number}.tablesKey()
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: TallyKey{Period: period, Number: number + 1}.tablesKey()})
	if err != nil {
		return fmt.Errorf("reading the tallies of a period: %w", err)
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		var tally tube.Tally
		if tally, _, err = DecodeTally(it.Value()); err == nil {
			do(string(it.Key()[len(from):]), tally)
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("reading the tallies of a period: %w", err)
	}
	return nil
}

// ForgetTallies removes all tallies of periods before that of a number.
func (t *Tables) ForgetTallies(period tube.Period, number uint64) error {
	err := t.db.DeleteRange(TallyKey{Period: period}.tablesKey(), TallyKey{Period: period, Number: number}.tablesKey(), pebble.NoSync)
	if err = errors.Join(err, t.db.Flush()); err != nil {
		return fmt.Errorf("removing old tallies: %w", err)
	}
	return nil
}

// compare compares the keys in the tables.
func (k TallyKey) compare(other TallyKey) int {
	return cmp.Or(cmp.Compare(k.Period, other.Period), cmp.Compare(k.Number, other.Number), cmp.Compare(k.Tube, other.Tube))
}
