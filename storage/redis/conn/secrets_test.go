package conn

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// secretWith is a password with a character in it, and is nowhere else.
func secretWith(c byte) string { return "Zq7x" + string(c) + "Wv9k" + string(c) + "8Jy4" }

// leaks returns whether a text contains a part of a secret, of four characters or more.
func leaks(text, secret string) bool {
	for at := range len(secret) - 3 {
		if strings.Contains(text, secret[at:at+4]) {
			return true
		}
	}
	return false
}

// encoded is a user or password as it must be written in a URL.
func encoded(secret string) string {
	var b strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// withSecrets are URLs of all kinds, good and bad, with a secret to be filled in.
var withSecrets = []string{
	"redis://u:%s@127.0.0.1:1/0", "redis://:%s@127.0.0.1:1", "rediss://u:%s@127.0.0.1:1", "unix://u:%s@/nowhere/r.sock?db=2",
	"redis+sentinel://u:%s@127.0.0.1:1,127.0.0.1:2/jobs/0", "redis+cluster://u:%s@127.0.0.1:1,127.0.0.1:2",
	"redis://u:%s@127.0.0.1:port/0", "redis://u:%s@127.0.0.1:99999", "redis+cluster://u:%s@127.0.0.1:1,:x", "redis+sentinel://u:%s@,/jobs",
	"redis://u:%s@[::1/0", "redis://u:%s@127.0.0.1:1/x/y", "redis://u:%s@127.0.0.1:1/x", "redis://u:%s@127.0.0.1:1/0?nonsense=1", "redis://u:%s@127.0.0.1:1/0?%%zz",
	"rediss://u:%s@127.0.0.1:1?ca=/nowhere", "rediss://u:%s@127.0.0.1:1?cert=/nowhere", "redis://u:%s@127.0.0.1:1?pool_size=x",
	"redis://u:%s", "redis://:%s", "redis://:1234%s", "redis+cluster://u:%s", "redis+raft://u:%s@127.0.0.1:1",
}

// TestAddressErrorsHideSecrets tries passwords with every printable character, literally and
// encoded, and every possible fault in the rest of the URL.
func TestAddressErrorsHideSecrets(t *testing.T) {
	for c := byte(' '); c <= '~'; c++ {
		secret := secretWith(c)
		for i, form := range withSecrets {
			for _, written := range []string{secret, encoded(secret)} {
				url := fmt.Sprintf(form, written)
				if strings.Count(url, "@") == 2 && !strings.Contains(form, "@") {
					continue // what follows the last @ is a host
				}
				a, err := Parse(url, time.Second)
				switch {
				case err != nil && (leaks(err.Error(), secret) || leaks(err.Error(), encoded(secret))):
					t.Errorf("%s: %v", url, err)
				case err == nil && (a.options.Password != secret || leaks(a.Where(), secret)):
					t.Errorf("%s: password %q at %s", url, a.options.Password, a.Where())
				case err != nil && i < 6 && written != secret:
					t.Errorf("%s, which is well written: %v", url, err)
				case err != nil && i < 6 && !strings.Contains(err.Error(), "%23 %2F %3F %40 %3A"):
					t.Errorf("%s: %v does not say how to write it", url, err)
				}
			}
		}
	}
}
