package field

import (
	"math"
	"time"
)

// count makes a row of a number from 1 to most; 0 is not set.
func count[T any, N ~uint8 | ~uint32](f Field[T], most uint64, of func(*T) *N) Field[T] {
	f.Kind, f.Min, f.Max = Number, 1, most
	f.Get = func(v *T) (uint64, bool) { n := uint64(*of(v)); return n, n != 0 }
	f.Set = func(v *T, n uint64) { *of(v) = N(n) }
	return f
}

// known makes a row of any number, which can be 0: isSet is where it is said that it is set.
func known[T any](f Field[T], of func(v *T) (n *uint64, isSet *bool)) Field[T] {
	f.Kind, f.Max = Number, math.MaxUint64
	f.Get = func(v *T) (uint64, bool) { n, isSet := of(v); return *n, *isSet }
	f.Set = func(v *T, to uint64) { n, isSet := of(v); *n, *isSet = to, true }
	return f
}

// duration makes a row of a duration, from 0 to MaxDuration.
func duration[T any](f Field[T], get func(*T) (time.Duration, bool), set func(*T, time.Duration)) Field[T] {
	f.Kind, f.Max = Duration, inMS(MaxDuration)
	f.Get = func(v *T) (uint64, bool) { d, isSet := get(v); return inMS(d), isSet }
	f.Set = func(v *T, n uint64) { set(v, ms(n)) }
	return f
}

// word makes a row of one of several words; 0 is not set.
func word[T any, W ~uint8](f Field[T], words []string, of func(*T) *W) Field[T] {
	f = count(f, uint64(len(words)-1), of)
	f.Kind, f.Words = Word, words
	return f
}

// text makes a row of a text without spaces; "" is not set.
func text[T any](f Field[T], valid func([]byte) bool, of func(*T) *string) Field[T] {
	f.Kind, f.Valid, f.Text = Text, valid, of
	return f
}

// rates makes a row of rates.
func rates[T any](f Field[T], of func(*T) *Rates) Field[T] {
	f.Kind = Rate
	f.parse = func(v *T, text []byte) bool {
		r, ok := ParseRates(text)
		if ok {
			*of(v) = r
		}
		return ok
	}
	f.format = func(v *T) string { return of(v).String() }
	f.load = func(v *T, text string) bool { return loadRates(of(v), text) }
	f.store = func(v *T) string {
		if *of(v) == (Rates{}) {
			return ""
		}
		return of(v).Stored()
	}
	return f
}

// lift makes a row of Policy from one of its Rules.
func lift(f Field[Rules]) Field[Policy] {
	up := Field[Policy]{
		Name: f.Name, In: f.In, Value: f.Value, Help: f.Help, Capability: f.Capability, Kind: f.Kind, Min: f.Min, Max: f.Max, Words: f.Words,
		Valid: f.Valid, Quoted: f.Quoted, Stored: f.Stored,
	}
	if f.Get != nil {
		up.Get = func(p *Policy) (uint64, bool) { return f.Get(&p.Rules) }
		up.Set = func(p *Policy, n uint64) { f.Set(&p.Rules, n) }
	}
	if f.Text != nil {
		up.Text = func(p *Policy) *string { return f.Text(&p.Rules) }
	}
	up.parse = func(p *Policy, text []byte) bool { return f.Parse(&p.Rules, text) }
	up.format = func(p *Policy) string { return f.Format(&p.Rules) }
	up.load = func(p *Policy, text string) bool { return f.Load(&p.Rules, text) }
	up.store = func(p *Policy) string { return f.Store(&p.Rules) }
	return up
}
