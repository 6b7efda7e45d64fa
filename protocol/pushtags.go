package protocol

import (
	"bytes"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// This file parses the push tags of set-policy, which send the jobs of a tube to a URL.

const (
	// MaxPushURL is the longest URL of a push, in bytes.
	MaxPushURL = 512
	// MaxPushConcurrency is the largest value of push-concurrency.
	MaxPushConcurrency = 10_000
	// MaxPushTimeout is the longest push-timeout.
	MaxPushTimeout = time.Hour
	// MaxPushRate is the largest number of calls in push-rate, per second, minute or hour.
	MaxPushRate = 1_000_000
)

// Push has the push tags of set-policy. A value that is not set is zero.
type Push struct {
	URL         string        // valid by [ValidPushURL]; "": there is no push, and the other fields are not set
	Concurrency uint32        // at most MaxPushConcurrency
	Timeout     time.Duration // whole milliseconds, at most MaxPushTimeout
	Rate        PushRate
}

// PushRate is a number of calls per second, minute or hour.
type PushRate struct {
	Calls uint32 // at most MaxPushRate; 0: not set
	Every time.Duration
}

// String returns the rate as it is in the protocol, such as 100/s; "" for none.
func (r PushRate) String() string {
	for _, unit := range rateUnits {
		if r.Calls > 0 && r.Every == unit.length {
			return strconv.FormatUint(uint64(r.Calls), 10) + "/" + unit.letter
		}
	}
	return ""
}

// rateUnits are the units of a rate, by their letters.
var rateUnits = []struct {
	letter string
	length time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// ValidPushURL reports whether jobs can be sent to a URL: it is http or https with a host, has
// no user and no fragment, and only printable ASCII. Its host is letters, digits, and -._ or an
// IPv6 address in brackets.
func ValidPushURL(text []byte) bool {
	if !printable(text, MaxPushURL) || bytes.ContainsAny(text, "#\\") {
		return false
	}
	u, err := url.Parse(string(text))
	switch {
	case err != nil, u.User != nil, u.Opaque != "":
		return false
	case !bytes.HasPrefix(text, []byte("http://")) && !bytes.HasPrefix(text, []byte("https://")):
		return false
	}
	return validHost(u) && validPort(u) && validEscapes(text)
}

func validHost(u *url.URL) bool {
	host := u.Hostname()
	if u.Host != "" && u.Host[0] == '[' {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	for i := range len(host) {
		switch b := host[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '.', b == '_':
		default:
			return false
		}
	}
	return host != ""
}

// validEscapes reports whether two hexadecimal digits follow each per cent sign.
func validEscapes(text []byte) bool {
	for rest := text; ; {
		at := bytes.IndexByte(rest, '%')
		if at < 0 {
			return true
		}
		rest = rest[at+1:]
		if len(rest) < 2 {
			return false
		}
		if _, err := strconv.ParseUint(string(rest[:2]), 16, 8); err != nil {
			return false
		}
	}
}

// validPort reports whether u has a port from 1 to 65535, or none.
func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return u.Host[len(u.Host)-1] != ':'
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

func (t *Tags) readPush(value []byte) bool {
	t.Push.URL = string(value)
	return ValidPushURL(value)
}

func (t *Tags) readPushConcurrency(value []byte) bool {
	return smallNumber(&t.Push.Concurrency, value, MaxPushConcurrency)
}

func (t *Tags) readPushTimeout(value []byte) bool {
	return wholeDuration(&t.Push.Timeout, value) && 0 < t.Push.Timeout && t.Push.Timeout <= MaxPushTimeout
}

func (t *Tags) readPushRate(value []byte) (ok bool) {
	t.Push.Rate, ok = ParsePushRate(value)
	return ok
}

// ParsePushRate parses a number of calls, optionally followed by a slash and the letter of a
// unit; the default is a second.
func ParsePushRate(text []byte) (r PushRate, ok bool) {
	number, letter, found := bytes.Cut(text, []byte("/"))
	r.Every = time.Second
	if found {
		r.Every = 0
		for _, unit := range rateUnits {
			if string(letter) == unit.letter {
				r.Every = unit.length
			}
		}
	}
	ok = smallNumber(&r.Calls, number, MaxPushRate) && r.Every > 0
	return r, ok
}

// smallNumber parses value and returns whether it is a number from 1 to limit.
func smallNumber(n *uint32, value []byte, limit uint64) bool {
	v, rest, ok := digits(value)
	*n = uint32(v)
	return ok && len(rest) == 0 && 1 <= v && v <= limit
}
