package field

import (
	"reflect"
	"strings"
	"testing"
)

// valueFor returns a valid value of a field.
func valueFor[T any](f *Field[T]) string {
	switch {
	case f.Value == "URL":
		return "http://h/x"
	case f.Kind == Word:
		return f.Words[len(f.Words)-1]
	case f.Kind == Duration:
		return "1m"
	case f.Kind == Retry:
		return "exp(1s,1h,5)"
	case f.Kind == Rate:
		return "5/m"
	}
	return "7"
}

// TestRows: each field is written as it is read, on the wire and stored, and Over takes it over from other policies.
func TestRows(t *testing.T) {
	for i := range OfPolicy {
		f := &OfPolicy[i]
		if f.In == 0 {
			continue
		}
		var p Policy
		if f.IsSet(&p) {
			t.Errorf("%s is set in an empty policy: %s", f.Name, f.Format(&p))
		}
		if text := valueFor(f); !f.Parse(&p, []byte(text)) || f.Format(&p) != text {
			t.Errorf("%s is %q after %q", f.Name, f.Format(&p), text)
		}
		if again := load(t, &p); !reflect.DeepEqual(again, &p) {
			t.Errorf("%s is stored as %+v, want %+v", f.Name, again, p)
		}
		if merged := new(Policy).Over(&p); !strings.HasPrefix(f.Name, "push") && !reflect.DeepEqual(merged, &p) {
			t.Errorf("%s is not taken over", f.Name)
		}
		if before := p; f.Parse(&p, []byte("?")) || !reflect.DeepEqual(before, p) {
			t.Errorf("%s can be ?", f.Name)
		}
		if f.Help == "" || !strings.Contains(f.Help, "`"+f.Value+"`") {
			t.Errorf("the help of %s is %q", f.Name, f.Help)
		}
	}
}

// load returns what is stored of p.
func load(t *testing.T, p *Policy) *Policy {
	loaded := new(Policy)
	for i := range OfPolicy {
		f := &OfPolicy[i]
		if text := f.Store(p); text != "" && !f.Load(loaded, text) {
			t.Errorf("%s cannot be loaded from %q", f.StoredName(), text)
		}
	}
	return loaded
}

// TestStoredPlaces: no two fields have the same place in a stored form.
func TestStoredPlaces(t *testing.T) {
	names, tags, flags := make(map[string]bool), make(map[byte]bool), make(map[uint32]bool)
	for _, f := range OfPolicy {
		s := f.Stored
		if names[f.StoredName()] || s.Tag != 0 && tags[s.Tag] || s.Flag != 0 && flags[s.Flag] || s.Flag&(s.Flag-1) != 0 {
			t.Errorf("%s is stored as %s with the tag %d and the flag %d", f.Name, f.StoredName(), s.Tag, s.Flag)
		}
		names[f.StoredName()], tags[s.Tag], flags[s.Flag] = true, true, true
	}
}

// TestEmpty: rules with any field that jobs have are not empty.
func TestEmpty(t *testing.T) {
	for i := range OfRules {
		f, r := &OfRules[i], new(Rules)
		if f.In != 0 && (!r.Empty() || !f.Parse(r, []byte(valueFor(f))) || r.Empty()) {
			t.Errorf("rules with %s are empty, or rules without are not", f.Name)
		}
	}
}
