package access

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/bcrypt"
)

// cheapHash returns the cheapest possible hash of a secret.
func cheapHash(t *testing.T, secret string) string {
	t.Helper()
	text, err := HashBcrypt(secret, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// testAccess is an Access on a file with a given text, which write replaces.
type testAccess struct {
	*testing.T
	*Access
	path string
	log  bytes.Buffer
}

func open(t *testing.T, text string) *testAccess {
	t.Helper()
	o := &testAccess{T: t, path: filepath.Join(t.TempDir(), "users.yml")}
	o.write(text)
	var err error
	if o.Access, err = Open(o.path, nil, slog.New(slog.NewTextHandler(&o.log, nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Access.Close)
	return o
}

func (o *testAccess) write(text string) {
	o.Helper()
	if err := os.WriteFile(o.path, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
}

// twoUsers is a file with app, who has two secrets, and other.
func twoUsers(t *testing.T) string {
	return "users:\n- name: app\n  secrets: [\"" + cheapHash(t, "one") + "\", \"" + cheapHash(t, "two words") + "\"]\n" +
		"  rights: [{tubes: [a], may: [put]}]\n" +
		"- name: other\n  secrets: [\"" + argonText("three", []byte("salty salt"), 8, 1, 1) + "\"]\n" +
		"- name: cn\n"
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		for _, c := range []struct {
			name, secret string
			ok           bool
		}{
			{"app", "one", true}, {"app", "two words", true}, {"other", "three", true}, {"app", "one", true},
			{"app", "three", false}, {"app", "", false}, {"other", "one", false}, {"nobody", "one", false}, {"cn", "", false},
			{"anonymous", "", false}, {"", "", false}, {"app", "one\x00", false}, {"app", strings.Repeat("x", 500), false},
		} {
			for range 2 { // the second time from the cache
				l, err := a.Authenticate(t.Context(), "192.0.2.1", c.name, c.secret)
				if c.ok && (err != nil || l.User.Name() != c.name) || !c.ok && !errors.Is(err, ErrUnauthorized) {
					t.Errorf("%s: %v, %v; want %v", c.name, l, err, c.ok)
				}
				if known := a.Known("192.0.2.99", c.name, c.secret) != nil; known != c.ok {
					t.Errorf("%s is known: %v", c.name, known)
				}
			}
		}
		text := a.log.String()
		for _, secret := range []string{"one", "two words", "three", "nobody", "xxxx"} {
			if strings.Contains(text, secret) {
				t.Errorf("the log says %q:\n%s", secret, text)
			}
		}
		if !strings.Contains(text, "from=192.0.2.1 user=app") {
			t.Errorf("the log says nothing of the failure:\n%s", text)
		}
	})
}

// TestPrefixOfBcrypt: bcrypt uses only 72 bytes, but a longer secret is not accepted.
func TestPrefixOfBcrypt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", MaxBcrypt)
	a := open(t, "users: [{name: app, secrets: [\""+cheapHash(t, long)+"\"]}]")
	if l := a.file.Load().verify("app", long); l == nil {
		t.Error("the secret is not accepted")
	}
	if l := a.file.Load().verify("app", long+"s"); l != nil {
		t.Error("a longer secret is accepted")
	}
	for n, want := range map[int]bool{MaxSecret: true, MaxSecret + 1: false} { // whatever made the hash
		secret := strings.Repeat("s", n)
		a := open(t, "users: [{name: app, secrets: ['"+argonText(secret, []byte("salty salt"), 8, 1, 1)+"']}]")
		if l := a.file.Load().verify("app", secret); (l != nil) != want {
			t.Errorf("a secret of %d bytes is accepted: %v, want %v", n, l != nil, want)
		}
	}
	for _, secret := range []string{"", "a\nb", "a\rb", "a\x00b", strings.Repeat("s", MaxSecret+1)} {
		if CheckSecret(secret) == nil {
			t.Errorf("%q may be hashed", secret)
		}
	}
	if _, err := HashBcrypt(long+"s", bcrypt.MinCost); err == nil || strings.Contains(err.Error(), "ssss") {
		t.Errorf("hashing a longer secret: %v", err)
	}
}

// TestDecoys: the secret of a user who does not exist, or has fewer secrets, is compared
// with as many hashes, and with the most expensive ones.
func TestDecoys(t *testing.T) {
	t.Parallel()
	f := open(t, twoUsers(t)).file.Load()
	if n := len(f.decoys); n != 2 {
		t.Fatalf("%d comparisons, want 2", n)
	}
	for i, h := range f.decoys {
		if h.text != f.users["app"].secrets[i].text {
			t.Errorf("decoy %d is not the dearest hash", i)
		}
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	a := open(t, twoUsers(t))
	first := must(a.Authenticate(t.Context(), "local", "app", "one"))(t)
	second := must(a.Authenticate(t.Context(), "local", "app", "two words"))(t)
	other := must(a.Authenticate(t.Context(), "local", "other", "three"))(t)
	certified := a.Certified("cn")
	changes := 0
	a.OnChange(func() { changes++ })
	a.write("users: [{name: app, secrets: [hunter2hunter2]}]")
	if err := a.Reload(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a faulty file: %v", err)
	}
	if a.Renew(first) != first || changes != 0 {
		t.Error("a faulty file has changed something")
	}
	text := second.hash
	a.write("users:\n- name: app\n  secrets: [\"" + text + "\"]\n  rights: [{tubes: [b], may: [read]}]\n- name: cn\n")
	if err := a.Reload(); err != nil || changes != 1 {
		t.Fatalf("%v, %d changes", err, changes)
	}
	if a.Renew(first) != nil || a.Renew(other) != nil || a.Renew(certified) == nil {
		t.Error("a removed user is still there, or another one is not")
	}
	if l := a.Renew(second); l == nil || l.User.On("b") != reads || l.User.On("a") != Nothing {
		t.Errorf("the other secret: %+v", l)
	}
	if a.Known("local", "app", "two words") != nil {
		t.Error("a secret is known from the file before")
	}
	if _, err := a.Authenticate(t.Context(), "local", "app", "one"); err == nil {
		t.Error("a removed secret is accepted")
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
