package field

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rates are how many jobs can start in any period of each length in RatePeriods, at most MaxLimit each; 0: any number.
// Each start takes a token of each rate, which comes back one period later.
type Rates [3]uint32

// RatePeriods are the periods of Rates.
var RatePeriods = [len(Rates{})]time.Duration{time.Second, time.Minute, time.Hour}

// rateLetters are the letters of these periods.
const rateLetters = "smh"

// ParseRate parses a number from 1 to MaxLimit, optionally followed by a slash and the letter of a period: s, m or h;
// the default is a second.
func ParseRate(text []byte) (n uint32, every time.Duration, ok bool) {
	digits, letter, found := bytes.Cut(text, []byte("/"))
	every = time.Second
	if found {
		i := strings.IndexByte(rateLetters, letterOf(letter))
		if i < 0 {
			return 0, 0, false
		}
		every = RatePeriods[i]
	}
	wide, ok := number(digits)
	return uint32(wide), every, ok && 1 <= wide && wide <= MaxLimit
}

// letterOf returns the only byte of a text, 0 if it has not just one.
func letterOf(text []byte) byte {
	if len(text) != 1 {
		return 0
	}
	return text[0]
}

// RateText formats a rate, such as 100/s; "" for none.
func RateText(n uint32, every time.Duration) string {
	for i, period := range RatePeriods {
		if n > 0 && every == period {
			return strconv.FormatUint(uint64(n), 10) + "/" + rateLetters[i:i+1]
		}
	}
	return ""
}

// ParseRates parses rates such as 100/m,1000/h, separated by commas. No period can occur twice.
func ParseRates(text []byte) (r Rates, ok bool) {
	for more := true; more; {
		var one []byte
		one, text, more = bytes.Cut(text, []byte(","))
		n, every, ok := ParseRate(one)
		i := 0
		for ok && RatePeriods[i] != every {
			i++
		}
		if !ok || r[i] > 0 {
			return r, false
		}
		r[i] = n
	}
	return r, true
}

// String formats the rates as ParseRates reads them; "" for none.
func (r Rates) String() string {
	var words []string
	for i, n := range r {
		if n > 0 {
			words = append(words, RateText(n, RatePeriods[i]))
		}
	}
	return strings.Join(words, ",")
}

// Stored formats rates as they are in a stored text: the number of each period, separated by commas.
func (r Rates) Stored() string { return fmt.Sprintf("%d,%d,%d", r[0], r[1], r[2]) }

// loadRates is the reverse of Rates.Stored.
func loadRates(r *Rates, text string) bool {
	_, err := fmt.Sscanf(text, "%d,%d,%d", &r[0], &r[1], &r[2])
	return err == nil
}
