package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"
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

// TestBackupFromElsewhere: without a users file, clients on other machines may not write backups.
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
}
