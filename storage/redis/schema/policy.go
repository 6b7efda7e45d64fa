package schema

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/tube"
)

// A policy is in Redis as a text of name:value words separated by spaces, in the order of policyWords, such as
// "retry:1000,2000 jitter:10 max:5 dead:graveyard". Times are ms. Unset fields are left out.

// policyWord is a word of the text of a policy.
type policyWord struct {
	name string
	kind PolicyKind
	text func(p *tube.Policy) string // the value; "" if it is not set
	set  func(p *tube.Policy, value string) error
}

// PolicyKind says how a script reads the value of a word.
type PolicyKind string

const (
	PolicyNumber PolicyKind = "number"
	PolicyText   PolicyKind = "text"
	PolicyList   PolicyKind = "list" // of numbers
)

var policyWords = []policyWord{
	{"retry", PolicyList, retryText, setRetry},
	numberWord("doubled", func(p *tube.Policy) uint64 { return uint64(p.Doubled) }, func(p *tube.Policy, n uint64) { p.Doubled = uint8(n) }),
	{"jitter", PolicyNumber, jitterText, setNumber(func(p *tube.Policy, n uint64) { p.Jitter = tube.JitterOf(uint8(n)) })},
	numberWord("max", func(p *tube.Policy) uint64 { return uint64(p.Max) }, func(p *tube.Policy, n uint64) { p.Max = uint32(n) }),
	textWord("dead", func(p *tube.Policy) *string { return &p.Dead }),
	knownWord("key-ttl", func(p *tube.Policy) (uint64, bool) { return inMS(p.KeyTTL), p.HasKeyTTL }, func(p *tube.Policy, n uint64) { p.KeyTTL, p.HasKeyTTL = ms(n), true }),
	knownWord("expire", func(p *tube.Policy) (uint64, bool) { return inMS(p.Expire.Duration()), p.Expire != tube.NoLifetime }, func(p *tube.Policy, n uint64) { p.Expire = tube.LifetimeOf(ms(n)) }),
	numberWord("on-expire", func(p *tube.Policy) uint64 { return uint64(p.OnExpire) }, func(p *tube.Policy, n uint64) { p.OnExpire = tube.OnExpire(n) }),
	numberWord("on-duplicate", func(p *tube.Policy) uint64 { return uint64(p.OnDuplicate) }, func(p *tube.Policy, n uint64) { p.OnDuplicate = tube.OnDuplicate(n) }),
	knownWord("quota-jobs", func(p *tube.Policy) (uint64, bool) { return p.QuotaJobs, p.HasQuotaJobs }, func(p *tube.Policy, n uint64) { p.QuotaJobs, p.HasQuotaJobs = n, true }),
	knownWord("quota-bytes", func(p *tube.Policy) (uint64, bool) { return p.QuotaBytes, p.HasQuotaBytes }, func(p *tube.Policy, n uint64) { p.QuotaBytes, p.HasQuotaBytes = n, true }),
	numberWord("concurrency", func(p *tube.Policy) uint64 { return uint64(p.Limits.Concurrency) }, func(p *tube.Policy, n uint64) { p.Limits.Concurrency = uint32(n) }),
	rateWord("rate", func(p *tube.Policy) *tube.Rates { return &p.Limits.Rates }),
	numberWord("group-concurrency", func(p *tube.Policy) uint64 { return uint64(p.GroupLimits.Concurrency) }, func(p *tube.Policy, n uint64) { p.GroupLimits.Concurrency = uint32(n) }),
	rateWord("group-rate", func(p *tube.Policy) *tube.Rates { return &p.GroupLimits.Rates }),
	numberWord("group-order", func(p *tube.Policy) uint64 { return uint64(p.GroupOrder) }, func(p *tube.Policy, n uint64) { p.GroupOrder = tube.GroupOrder(n) }),
	textWord("push", func(p *tube.Policy) *string { return &p.Push.URL }),
	numberWord("push-calls", func(p *tube.Policy) uint64 { return uint64(p.Push.Concurrency) }, func(p *tube.Policy, n uint64) { p.Push.Concurrency = uint32(n) }),
	numberWord("push-timeout", func(p *tube.Policy) uint64 { return inMS(p.Push.Timeout) }, func(p *tube.Policy, n uint64) { p.Push.Timeout = ms(n) }),
	numberWord("push-rate", func(p *tube.Policy) uint64 { return uint64(p.Push.Rate) }, func(p *tube.Policy, n uint64) { p.Push.Rate = uint32(n) }),
	numberWord("push-every", func(p *tube.Policy) uint64 { return inMS(p.Push.RateEvery) }, func(p *tube.Policy, n uint64) { p.Push.RateEvery = ms(n) }),
}

// PolicyWords returns the names of the words, in their order, and of what kind the value of each is.
func PolicyWords() iter.Seq2[string, PolicyKind] {
	return func(yield func(string, PolicyKind) bool) {
		for i := range policyWords {
			if !yield(policyWords[i].name, policyWords[i].kind) {
				return
			}
		}
	}
}

// numberWord is a word with a number that is not set if it is 0.
func numberWord(name string, get func(*tube.Policy) uint64, set func(*tube.Policy, uint64)) policyWord {
	return knownWord(name, func(p *tube.Policy) (uint64, bool) { n := get(p); return n, n != 0 }, set)
}

// knownWord is a word with a number, of which get says whether it is set.
func knownWord(name string, get func(*tube.Policy) (uint64, bool), set func(*tube.Policy, uint64)) policyWord {
	text := func(p *tube.Policy) string {
		if n, known := get(p); known {
			return strconv.FormatUint(n, 10)
		}
		return ""
	}
	return policyWord{name, PolicyNumber, text, setNumber(set)}
}

// textWord is a word with a text, which has no spaces.
func textWord(name string, field func(*tube.Policy) *string) policyWord {
	set := func(p *tube.Policy, value string) error { *field(p) = value; return nil }
	return policyWord{name, PolicyText, func(p *tube.Policy) string { return *field(p) }, set}
}

// rateWord is a word with rates.
func rateWord(name string, field func(*tube.Policy) *tube.Rates) policyWord {
	text := func(p *tube.Policy) string {
		if *field(p) == (tube.Rates{}) {
			return ""
		}
		return RatesText(*field(p))
	}
	return policyWord{name, PolicyText, text, func(p *tube.Policy, value string) error { return parseRates(field(p), value) }}
}

// setNumber returns a function that sets a field to the number that a text is.
func setNumber(set func(*tube.Policy, uint64)) func(*tube.Policy, string) error {
	return func(p *tube.Policy, value string) error {
		n, err := strconv.ParseUint(value, 10, 64)
		if err == nil {
			set(p, n)
		}
		return err
	}
}

func jitterText(p *tube.Policy) string {
	if p.Jitter == tube.NoJitter {
		return ""
	}
	return strconv.Itoa(int(p.Percent()))
}

func retryText(p *tube.Policy) string {
	var waits []string
	for _, wait := range p.Retry {
		waits = append(waits, strconv.FormatUint(inMS(wait), 10))
	}
	return strings.Join(waits, ",")
}

func setRetry(p *tube.Policy, value string) error {
	for text := range strings.SplitSeq(value, ",") {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		p.Retry = append(p.Retry, ms(n))
	}
	return nil
}

func inMS(d time.Duration) uint64 { return uint64(d.Milliseconds()) }
func ms(n uint64) time.Duration   { return time.Duration(n) * time.Millisecond }

// TextOfPolicy returns the text of a policy; "" for nil. An empty policy is a space.
func TextOfPolicy(p *tube.Policy) string {
	if p == nil {
		return ""
	}
	var words []string
	for i := range policyWords {
		if text := policyWords[i].text(p); text != "" {
			words = append(words, policyWords[i].name+":"+text)
		}
	}
	if words == nil {
		return " "
	}
	return strings.Join(words, " ")
}

// RatesText returns rates in the order of tube.RatePeriods, separated by commas; 0 for none.
func RatesText(r tube.Rates) string { return fmt.Sprintf("%d,%d,%d", r[0], r[1], r[2]) }

// LimitsStarts returns whether a policy limits which jobs may start.
func LimitsStarts(p *tube.Policy) bool {
	return p != nil && (p.Limits != tube.Limits{} || p.GroupLimits != tube.Limits{} || p.GroupOrder != tube.NoGroupOrder || p.Push.Rate > 0)
}

// LimitsText returns what of a policy concerns puts without tags: its quotas, "JOBS BYTES", where -
// is no limit; "" if nothing does. That jobs expire concerns them too.
func LimitsText(p *tube.Policy) string {
	if p == nil || !p.HasQuotaJobs && !p.HasQuotaBytes && p.Expire == tube.NoLifetime {
		return ""
	}
	text := func(ok bool, n uint64) string {
		if ok {
			return strconv.FormatUint(n, 10)
		}
		return "-"
	}
	return text(p.HasQuotaJobs, p.QuotaJobs) + " " + text(p.HasQuotaBytes, p.QuotaBytes)
}

// ParsePolicy is the reverse of TextOfPolicy; nil for "".
func ParsePolicy(text string) (*tube.Policy, error) {
	if text == "" {
		return nil, nil
	}
	p := new(tube.Policy)
	for text := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(text, ":")
		i := slices.IndexFunc(policyWords, func(w policyWord) bool { return w.name == name })
		if i < 0 || policyWords[i].set(p, value) != nil {
			return nil, fmt.Errorf("a policy says %q", text)
		}
	}
	return p, nil
}

// parseRates is the reverse of RatesText.
func parseRates(r *tube.Rates, text string) error {
	_, err := fmt.Sscanf(text, "%d,%d,%d", &r[0], &r[1], &r[2])
	return err
}
