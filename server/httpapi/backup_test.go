package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"
)

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
