package field

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is the longest allowed duration: ten years.
const MaxDuration = 10 * 365 * 24 * time.Hour

// units are the units of durations, by the letters after the number. No letters mean seconds.
var units = []struct {
	letters string
	length  time.Duration
}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"", time.Second}}

// ParseDuration parses a number with one of the units ms, s, m, h and d, or of seconds. It is at most MaxDuration.
func ParseDuration[Text string | []byte](text Text) (d time.Duration, ok bool) {
	n, unit, ok := Digits(text)
	if !ok {
		return 0, false
	}
	for _, u := range units {
		if string(unit) == u.letters {
			return time.Duration(n) * u.length, n <= uint64(MaxDuration/u.length)
		}
	}
	return 0, false
}

// Durations formats durations of whole milliseconds: separated by commas, each as a whole number of its largest unit.
func Durations(all ...time.Duration) string {
	words := make([]string, len(all))
	for i, d := range all {
		words[i] = durationText(d)
	}
	return strings.Join(words, ",")
}

func durationText(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	best := units[0]
	for _, u := range units[:len(units)-1] { // the last one has no letters
		if d%u.length == 0 {
			best = u
		}
	}
	return strconv.FormatInt(int64(d/best.length), 10) + best.letters
}

// Digits parses one or more decimal digits; leading zeros are allowed. ok is false if there are none, or if the number
// does not fit.
func Digits[Text string | []byte](text Text) (n uint64, rest Text, ok bool) {
	i := 0
	for ; i < len(text); i++ {
		d := uint64(text[i] - '0')
		if d > 9 {
			break
		}
		if n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			return 0, text[i:], false
		}
		n = n*10 + d
	}
	return n, text[i:], i > 0
}

// number parses digits and nothing else.
func number(text []byte) (n uint64, ok bool) {
	n, rest, ok := Digits(text)
	return n, ok && len(rest) == 0
}

func inMS(d time.Duration) uint64 { return uint64(d / time.Millisecond) }
func ms(n uint64) time.Duration   { return time.Duration(n) * time.Millisecond }
