package tables

import (
	"math"
	"slices"
	"time"

	"redstalk/tube"
	"redstalk/tube/field"
)

// rows are the rows of package field about a T that have a tag.
type rows[T any] struct {
	inOrder []*field.Field[T] // of their tags
	byTag   [math.MaxUint8 + 1]*field.Field[T]
}

var (
	rulesRows  = rowsOf(field.OfRules, nil)
	policyRows = rowsOf(field.OfPolicy, rulesRows.inOrder) // without those of the rules in it
)

func rowsOf[T any](all []field.Field[T], without []*field.Field[tube.Rules]) *rows[T] {
	r := new(rows[T])
	for i := range all {
		f := &all[i]
		if f.Stored.Tag > 0 && f.Kind != field.Retry && !slices.ContainsFunc(without, func(other *field.Field[tube.Rules]) bool { return other.Name == f.Name }) {
			r.inOrder, r.byTag[f.Stored.Tag] = append(r.inOrder, f), f
		}
	}
	slices.SortFunc(r.inOrder, func(f, g *field.Field[T]) int { return int(f.Stored.Tag) - int(g.Stored.Tag) })
	return r
}

// appendRows appends the fields of v that are set, and whose tags are between after and before.
func appendRows[T any](b []byte, r *rows[T], v *T, after, before byte) []byte {
	for _, f := range r.inOrder {
		switch tag := f.Stored.Tag; {
		case tag <= after || tag >= before:
		case f.Kind == field.Text:
			b = appendString(b, tag, *f.Text(v))
		default:
			n, isSet := f.Get(v)
			b = appendKnown(b, tag, isSet, n+f.Stored.Plus)
		}
	}
	return b
}

// readRow reads the field of a row, nil if there is none for a tag. name makes strings of the names of tubes.
func readRow[T any](b *block, f *field.Field[T], v *T, name func([]byte) string) {
	switch {
	case f == nil:
		b.bad = true
	case f.Kind == field.Text:
		*f.Text(v) = name(b.long())
	case f.Kind == field.Duration:
		f.Set(v, b.number(uint64(math.MaxInt64/time.Millisecond)))
	default:
		n := b.number(f.Max + f.Stored.Plus)
		f.Set(v, n-min(n, f.Stored.Plus))
	}
}
