package conn

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// TestCertificatesAreLogged: it is logged when the files have changed, and once if they are faulty.
func TestCertificatesAreLogged(t *testing.T) {
	files, log := redistest.NewCertificates(t), &bytes.Buffer{}
	text, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Parse("rediss+cluster://h?ca="+files.CA, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	a.SetLog(slog.New(slog.NewTextHandler(log, nil)))
	first := a.certificates.current()
	for _, content := range []string{"", "", string(text) + string(text)} {
		if err := os.WriteFile(files.CA, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if now := a.certificates.current(); (now == first) != (content == "") {
			t.Errorf("with %d bytes: changed is %v", len(content), now != first)
		}
	}
	if err := os.Remove(files.CA); err != nil {
		t.Fatal(err)
	}
	a.certificates.current()
	if said := log.String(); strings.Count(said, "cannot be used") != 2 || strings.Count(said, "read again") != 1 {
		t.Error(said)
	}
}
