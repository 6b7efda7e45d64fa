package redis

import (
	"context"
	"strings"
	"testing"

	"redstalk/storage/redis/redistest"
)

func TestCheckNamespace(t *testing.T) {
	for _, name := range []string{
		"redstalk", "a:b-c_d.e/f", "Aufträge", "仕事", "two words", " a", "*?[a-z]\\", "0", strings.Repeat("n", 200), "Auftr\xe4ge",
	} {
		if err := CheckNamespace(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"": "empty", " ": "empty", "\t\n": "empty", "{0}": "brace", "a}": "brace", "a{": "brace",
		"a\nb": "control", "a\tb": "control", "a\x00": "control", "a\x7f": "control", "a\u0085": "control",
		strings.Repeat("n", 201): "201 bytes",
	} {
		if err := CheckNamespace(name); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\t\x00\x7f") {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// TestNamespaces: an invalid namespace is refused before Redis is contacted; all others are
// used and checked literally.
func TestNamespaces(t *testing.T) {
	ctx := context.Background()
	bad := Options{URL: "redis://127.0.0.1:1", Namespace: "a{1}"}
	_, opening := Open(ctx, bad)
	_, checking := Check(ctx, bad, false, Report{})
	for _, err := range []error{opening, checking} {
		if err == nil || !strings.Contains(err.Error(), "brace") {
			t.Errorf("%v", err)
		}
	}
	redis := redistest.Start(t)
	for n, name := range []string{"a*", "ab", "[a-z]b", "a b", `a\`, "Aufträge/仕事:1"} {
		s := openWith(t, Options{URL: redis.URL(), Timeout: patient, Namespace: name})
		for range n + 1 {
			do(s, put("x"))
		}
		jobs, err := Check(ctx, Options{URL: redis.URL(), Namespace: name}, false, Report{Found: func(_ int, what string) { t.Errorf("%q: %s", name, what) }})
		if jobs != n+1 || err != nil {
			t.Errorf("%q: %d jobs, %v", name, jobs, err)
		}
	}
}
