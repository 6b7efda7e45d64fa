package field

import (
	"bytes"
	"net/netip"
	"net/url"
	"strconv"
)

const (
	// MaxTube is the longest name of a tube, in bytes.
	MaxTube = 200
	// MaxPushURL is the longest URL of a push, in bytes.
	MaxPushURL = 512
)

// TubeByte says which bytes can occur in a tube's name.
var TubeByte = func() (set [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()") {
		set[b] = true
	}
	return set
}()

// ValidTube reports whether name can be a tube's name: 1 to [MaxTube] bytes of
// A-Z a-z 0-9 - + / ; . $ _ ( ), the first one not '-'.
func ValidTube(name []byte) bool {
	if len(name) == 0 || len(name) > MaxTube || name[0] == '-' {
		return false
	}
	for _, b := range name {
		if !TubeByte[b] {
			return false
		}
	}
	return true
}

// Printable reports whether a word has 1 to limit bytes, all of them printable ASCII and
// no spaces.
func Printable(word []byte, limit int) bool {
	if len(word) == 0 || len(word) > limit {
		return false
	}
	for _, b := range word {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}

// ValidPushURL reports whether jobs can be sent to a URL: it is http or https with a host, has
// no user and no fragment, and only printable ASCII. Its host is letters, digits, and -._ or an
// IPv6 address in brackets.
func ValidPushURL(text []byte) bool {
	if !Printable(text, MaxPushURL) || bytes.ContainsAny(text, "#\\") {
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
