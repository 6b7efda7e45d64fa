package field

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxRetry is the largest number of durations in a retry list.
	MaxRetry = 32
	// MaxDoubled is the largest COUNT of exp(FIRST,LONGEST,COUNT).
	MaxDoubled = 250
)

// ParseRetry parses 1 to MaxRetry durations, separated by commas, or exp(FIRST,LONGEST,COUNT); then doubled is COUNT,
// and waits has the other two.
func ParseRetry(text []byte) (waits []time.Duration, doubled uint8, ok bool) {
	args, exp := bytes.CutPrefix(text, []byte("exp("))
	if !exp {
		waits, ok = parseDurations(text)
		return waits, 0, ok
	}
	args, closed := bytes.CutSuffix(args, []byte(")"))
	comma := bytes.LastIndexByte(args, ',')
	if !closed || comma < 0 {
		return nil, 0, false
	}
	waits, ok = parseDurations(args[:comma])
	count, isNumber := number(args[comma+1:])
	if !ok || !isNumber || count < 1 || count > MaxDoubled || len(waits) != 2 || waits[0] <= 0 || waits[0] > waits[1] {
		return nil, 0, false
	}
	return waits, uint8(count), true
}

// parseDurations parses 1 to MaxRetry durations, separated by commas.
func parseDurations(text []byte) (all []time.Duration, ok bool) {
	n := 1 + bytes.Count(text, []byte(","))
	if n > MaxRetry {
		return nil, false
	}
	all = make([]time.Duration, n)
	for i := range all {
		var one []byte
		one, text, _ = bytes.Cut(text, []byte(","))
		if all[i], ok = ParseDuration(one); !ok {
			return nil, false
		}
	}
	return all, true
}

// RetryText formats waits as ParseRetry reads them; "" for none.
func RetryText(waits []time.Duration, doubled uint8) string {
	if doubled > 0 {
		return "exp(" + Durations(waits...) + "," + strconv.Itoa(int(doubled)) + ")"
	}
	return Durations(waits...)
}

// storedRetry formats waits as they are in a stored text: in ms.
func storedRetry(r *Rules) string {
	var words []string
	for _, wait := range r.Retry {
		words = append(words, strconv.FormatUint(inMS(wait), 10))
	}
	return strings.Join(words, ",")
}

// loadRetry is the reverse of storedRetry.
func loadRetry(r *Rules, text string) bool {
	for word := range strings.SplitSeq(text, ",") {
		n, ok := number([]byte(word))
		if !ok {
			return false
		}
		r.Retry = append(r.Retry, ms(n))
	}
	return true
}
