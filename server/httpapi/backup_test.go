package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"redstalk/server/access"
)

// TestBackupWhere: either a path or a directory says where a backup goes, and only a directory has a number to keep.
func TestBackupWhere(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for body, want := range map[string]int{
		`{}`: 422, `{"to":"/x","dir":"/y"}`: 422, `{"to":"/x","keep":1}`: 422, `{"dir":"x"}`: 422, `{"dir":"/x","keep":-1}`: 422,
		`{"dir":"/x","keep":7}`: 501, `{"dir":"/x"}`: 501, `{"to":"/x"}`: 501,
	} {
		r := httptest.NewRequest("POST", "/v1/server/backup", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = "127.0.0.1:99"
		w := httptest.NewRecorder()
		a.api.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
}

// TestBackupFromElsewhere: without a users file, clients on other machines, or behind a trusted proxy, may not write backups.
func TestBackupFromElsewhere(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	for from, want := range map[string]int{"127.0.0.1:99": 501, "[::1]:99": 501, "[::ffff:127.0.0.1]:99": 501, "192.0.2.1:99": 403, "": 403} {
		r := httptest.NewRequest("POST", "/v1/server/backup", strings.NewReader(`{"to":"/nowhere/x"}`))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		a.api.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %q: %d %s, want %d", from, w.Code, w.Body, want)
		}
	}
	proxies := new(access.Proxies)
	if err := proxies.Add("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"203.0.113.9", "127.0.0.1", ""} {
		r := httptest.NewRequest("POST", "/v1/server/backup", strings.NewReader(`{"to":"/nowhere/x"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", client)
		r.RemoteAddr = "127.0.0.1:99"
		w := httptest.NewRecorder()
		if a.api.ServeHTTP(w, proxies.Resolve(r)); w.Code != 403 {
			t.Errorf("from %q behind a proxy: %d %s", client, w.Code, w.Body)
		}
	}
}
