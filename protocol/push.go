package protocol

import (
	"bytes"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// This file reads the tags of set-policy that have the jobs of a tube sent to a URL.

const (
	// MaxPushURL is the longest URL of a push, in bytes.
	MaxPushURL = 512
	// MaxPushConcurrency is how many calls at a time push-concurrency may ask for.
	MaxPushConcurrency = 10_000
	// MaxPushTimeout is the longest push-timeout.
	MaxPushTimeout = time.Hour
	// MaxPushRate is how many calls push-rate may ask for in its second, minute or hour.
	MaxPushRate = 1_000_000
)

// Push is what set-policy says of a push. What is not said is zero.
type Push struct {
	URL         string        // valid by [ValidPushURL]; "": there is no push, and nothing else is said
	Concurrency uint32        // at most MaxPushConcurrency
	Timeout     time.Duration // whole milliseconds, at most MaxPushTimeout
	Rate        PushRate
}

// PushRate is a number of calls in a time: second, minute or hour.
type PushRate struct {
	Calls uint32 // at most MaxPushRate; 0: not said
	Every time.Duration
}

// String is the rate as it is on the wire, such as 100/s; "" for none.
func (r PushRate) String() string {
	for _, unit := range rateUnits {
		if r.Calls > 0 && r.Every == unit.is {
			return strconv.FormatUint(uint64(r.Calls), 10) + "/" + unit.letter
		}
	}
	return ""
}

// rateUnits are the times that a rate may be for, by their letters.
var rateUnits = []struct {
	letter string
	is     time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// ValidPushURL returns whether something may be sent to a URL: it is http or https with a
// host, and has no user, no fragment, and only printable ASCII. Its host is letters, digits,
// and -._ or an IPv6 address in brackets.
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

// validEscapes tells whether two hexadecimal digits follow each per cent sign.
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

// validPort tells whether u names a port from 1 to 65535, or none.
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

// readPushRate reads a number of calls, and perhaps a slash and the letter of a time; else it
// is a second.
func (t *Tags) readPushRate(value []byte) bool {
	number, letter, found := bytes.Cut(value, []byte("/"))
	t.Push.Rate.Every = time.Second
	if found {
		t.Push.Rate.Every = 0
		for _, unit := range rateUnits {
			if string(letter) == unit.letter {
				t.Push.Rate.Every = unit.is
			}
		}
	}
	return smallNumber(&t.Push.Rate.Calls, number, MaxPushRate) && t.Push.Rate.Every > 0
}

// smallNumber reads value and returns whether it is a number from 1 to most.
func smallNumber(n *uint32, value []byte, most uint64) bool {
	v, rest, ok := digits(value)
	*n = uint32(v)
	return ok && len(rest) == 0 && 1 <= v && v <= most
}
