package schema

import (
	"testing"

	"redstalk/tube"
)

// TestHeaderFields: Lua and Go agree on the layout of a record's header.
func TestHeaderFields(t *testing.T) {
	places := map[string]int{
		"letter": LetterAt, "ttr": TTRAt, "pri": PriAt, "delay": DelayAt, "created": CreatedAt,
		tube.Reserves.String(): CountersAt, tube.Kicks.String(): NameLengthAt - 4, "name_length": NameLengthAt,
	}
	widths := map[string]int{"c1": 1, "I4": 4, "I8": 8, "B": 1}
	at, found := 0, 0
	for _, f := range HeaderFields {
		if want, ok := places[f.Name]; ok {
			if found++; at != want {
				t.Errorf("%s is at %d, want %d", f.Name, at, want)
			}
		}
		at += widths[f.Packed]
	}
	if at != NameAt || found != len(places) {
		t.Errorf("the header has %d bytes, want %d, and %d of the fields that Go knows, want %d", at, NameAt, found, len(places))
	}
}
