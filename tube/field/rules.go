package field

import "time"

// Rules are what a job's tags or a tube's policy say about failures and keys. A value that is
// not set is zero. The small fields are together: there are Rules for every job with tags.
type Rules struct {
	Retry     []time.Duration `json:",omitzero"` // the waits after failures; whole milliseconds
	Max       uint32          `json:",omitzero"` // largest number of deliveries
	Doubled   uint8           `json:",omitzero"` // Retry is the first and the longest of that many waits; 0: Retry is a list
	Jitter    Jitter          `json:",omitzero"` // how far each wait is spread
	HasKeyTTL bool            `json:",omitzero"`
	OnExpire  OnExpire        `json:",omitzero"` // what happens to a job when its time is over
	Keep      Lifetime        `json:",omitzero"` // how long the record of a job is kept after its end; zero time: there is none
	Dead      string          `json:",omitzero"` // the tube where an exhausted job goes, instead of being buried
	KeyTTL    time.Duration   `json:",omitzero"` // how long a key stays taken after its job is gone; whole milliseconds
}

// MaxDeliveries is the largest Rules.Max.
const MaxDeliveries = 1_000_000

// Over returns r, with the values it does not set taken from other.
func (r Rules) Over(other *Rules) Rules {
	if r.Retry == nil {
		r.Retry, r.Doubled = other.Retry, other.Doubled
	}
	if r.Jitter == NoJitter {
		r.Jitter = other.Jitter
	}
	if r.OnExpire == NoOnExpire {
		r.OnExpire = other.OnExpire
	}
	if r.Keep == NoLifetime {
		r.Keep = other.Keep
	}
	if r.Max == 0 {
		r.Max = other.Max
	}
	if r.Dead == "" {
		r.Dead = other.Dead
	}
	if !r.HasKeyTTL {
		r.KeyTTL, r.HasKeyTTL = other.KeyTTL, other.HasKeyTTL
	}
	return r
}

// Empty reports whether r sets nothing.
func (r *Rules) Empty() bool {
	return r.Retry == nil && r.Jitter == NoJitter && r.OnExpire == NoOnExpire && r.Max == 0 && r.Dead == "" && !r.HasKeyTTL &&
		r.Keep == NoLifetime
}

// Percent returns by how many per cent waits are spread.
func (r *Rules) Percent() uint8 {
	switch {
	case r.Jitter != NoJitter:
		return uint8(r.Jitter) - 1
	case r.Doubled > 0:
		return JitterOfDoubled
	}
	return 0
}

const (
	onPut      = InPut | InPolicy
	everywhere = onPut | InSchedule
)

// OfRules are the rows of Rules.
var OfRules = []Field[Rules]{
	{
		Name: "retry", In: everywhere, Capability: "put-tags", Value: "DURATIONS",
		Help: "`DURATIONS`, separated by commas: delays after the first failure, the second and so on; or exp(FIRST,LONGEST,COUNT)",
		Kind: Retry, Stored: Stored{Tag: 2, Flag: 1 << 0},
		parse: func(r *Rules, text []byte) bool {
			waits, doubled, ok := ParseRetry(text)
			if ok {
				r.Retry, r.Doubled = waits, doubled
			}
			return ok
		},
		format: func(r *Rules) string { return RetryText(r.Retry, r.Doubled) },
		load:   loadRetry, store: storedRetry,
	},
	count(Field[Rules]{Name: "doubled", Stored: Stored{Tag: 22, Flag: 1 << 8, Width: 1}}, MaxDoubled, func(r *Rules) *uint8 { return &r.Doubled }),
	{
		Name: "jitter", In: onPut, Capability: "backoff", Value: "PERCENT",
		Help: "spread each delay by up to `PERCENT`, from 0 to 100", // the jitter of a schedule is another field
		Kind: Number, Max: 100, Stored: Stored{Tag: 23, Plus: 1, Flag: 1 << 9, Width: 1},
		Get: func(r *Rules) (uint64, bool) { return uint64(max(r.Jitter, 1) - 1), r.Jitter != NoJitter },
		Set: func(r *Rules, n uint64) { r.Jitter = JitterOf(uint8(n)) },
	},
	count(Field[Rules]{
		Name: "max", In: everywhere, Capability: "put-tags", Value: "N", Help: "park the job after `N` deliveries",
		Stored: Stored{Tag: 3, Flag: 1 << 1, Width: 4},
	}, MaxDeliveries, func(r *Rules) *uint32 { return &r.Max }),
	text(Field[Rules]{
		Name: "dead", In: everywhere, Capability: "put-tags", Value: "TUBE", Help: "`TUBE` for the job when its retries or deliveries are used up",
		Stored: Stored{Tag: 4, Flag: 1 << 2},
	}, ValidTube, func(r *Rules) *string { return &r.Dead }),
	duration(Field[Rules]{
		Name: "key-ttl", In: everywhere, Capability: "put-tags", Value: "DURATION", Help: "`DURATION` for which the key stays taken after the job is gone",
		Stored: Stored{Tag: 5, Flag: 1 << 3, Width: 8},
	}, func(r *Rules) (time.Duration, bool) { return r.KeyTTL, r.HasKeyTTL }, func(r *Rules, d time.Duration) { r.KeyTTL, r.HasKeyTTL = d, true }),
	word(Field[Rules]{
		Name: "on-expire", In: everywhere, Capability: "expire", Value: "ACTION", Help: "`ACTION` when that is over: delete or park",
		Stored: Stored{Tag: 24, Flag: 1 << 10, Width: 1},
	}, OnExpireWords, func(r *Rules) *OnExpire { return &r.OnExpire }),
	duration(Field[Rules]{
		Name: "keep", In: everywhere, Capability: "results", Value: "DURATION", Help: "`DURATION` for which the record of the job is kept after its end",
		Stored: Stored{Tag: 39, Flag: 1 << 16, Width: 8},
	}, func(r *Rules) (time.Duration, bool) { return r.Keep.Duration(), r.Keep != NoLifetime }, func(r *Rules, d time.Duration) { r.Keep = LifetimeOf(d) }),
}
