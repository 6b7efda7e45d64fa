package redis

import (
	"net/url"
	"strings"
	"testing"

	"redstalk/storage/redis/redistest"
)

// TestTLS: the certificates of server and client are checked by both.
func TestTLS(t *testing.T) {
	files := redistest.NewCertificates(t)
	_, addr := redistest.StartTLS(t, files)
	open := func(pairs ...string) error {
		query := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			query.Set(pairs[i], pairs[i+1])
		}
		_, err := tryOpen(Options{URL: "rediss://" + addr + "/0?" + query.Encode()})
		return err
	}
	if err := open("ca", files.CA, "cert", files.ClientCert, "key", files.ClientKey); err != nil {
		t.Errorf("with all that it needs: %v", err)
	}
	if err := open("ca", files.CA, "cert", files.ClientCert, "key", files.ClientKey, "server_name", "server"); err != nil {
		t.Errorf("with another name of the server: %v", err)
	}
	for want, pairs := range map[string][]string{
		"authority": {"cert", files.ClientCert, "key", files.ClientKey},
		"":          {"ca", files.CA}, // Redis may just hang up
		"blah":      {"ca", files.CA, "cert", files.ClientCert, "key", files.ClientKey, "server_name", "blah"},
	} {
		if err := open(pairs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %v: %v, want %s", pairs, err, want)
		}
	}
}
