package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	if o.Access, err = Open(o.path, slog.New(slog.NewTextHandler(&o.log, nil))); err != nil {
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

// TestGuessing: attempts from an address wait longer and longer, those from another one do
// not.
func TestGuessing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		guess := func(address, secret string) time.Duration {
			begun := time.Now()
			a.Authenticate(t.Context(), address, "app", secret)
			return time.Since(begun)
		}
		for i, want := range []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
			// another address of the same network
			address := "2001:db8::1"
			if i%2 == 1 {
				address = "2001:db8::2%eth0"
			}
			if took := guess(address, "wrong"); took != want*time.Millisecond {
				t.Errorf("attempt %d took %v, want %d ms", i, took, want)
			}
		}
		if took := guess("2001:db8:1::1", "one"); took > 0 {
			t.Errorf("an attempt from another network took %v", took)
		}
		if a.Known("2001:db8::3", "app", "one") != nil {
			t.Error("a known secret does not wait")
		}
		if took := guess("2001:db8::3", "one"); took != 10*time.Second {
			t.Errorf("a right secret is waited for %v", took)
		}
		time.Sleep(10 * halfLife)
		if guess("2001:db8::1", "wrong"); guess("2001:db8::1", "wrong") > firstDelay {
			t.Error("nothing is forgotten")
		}
	})
}

// TestDelays: delays grow up to the maximum, however many failures there are, and count for
// an address in whatever form it is written.
func TestDelays(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for n := 1; n < 200; n++ {
		if d := delayAfter(n); d < last || d > maxDelay {
			t.Fatalf("%v after %d failures, %v after one less", d, n, last)
		}
		last = delayAfter(n)
	}
	if last != maxDelay {
		t.Errorf("%v after many failures", last)
	}
	g := newGuessLimiter()
	for one, other := range map[string]string{"192.0.2.1": "::ffff:192.0.2.1", "2001:db8::1": "2001:db8::ffff%eth0", hostOf("192.0.2.7:1"): hostOf("192.0.2.7:2"), hostOf("[::1]:80"): "::1"} {
		if g.at(one, "app") != g.at(other, "app") {
			t.Errorf("%s and %s do not share a slot", one, other)
		}
	}
}

// TestSameAttemptElsewhere: an attempt from an address without failures does not wait for
// the same attempt from an address with failures.
func TestSameAttemptElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		for range 5 {
			a.Authenticate(t.Context(), "192.0.2.1", "app", "wrong")
		}
		var all sync.WaitGroup
		all.Go(func() { a.Authenticate(t.Context(), "192.0.2.1", "app", "one") })
		synctest.Wait()
		begun := time.Now()
		if _, err := a.Authenticate(t.Context(), "192.0.2.2", "app", "one"); err != nil || time.Since(begun) > 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		all.Wait()
	})
}

// TestGuessingInParallel: many concurrent attempts do not circumvent the delays, and
// identical attempts are made once.
func TestGuessingInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		begun := time.Now()
		var all sync.WaitGroup
		busy, failed := 0, 0
		var mu sync.Mutex
		for i := range maxWaiting + maxBusy + 10 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := a.Authenticate(ctx, "192.0.2.1", "app", strings.Repeat("x", i+1))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, ErrBusy):
					busy++
				case errors.Is(err, ErrUnauthorized):
					failed++
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took != 30*time.Second || failed > 20 || busy == 0 {
			t.Errorf("%d guesses in %v, %d were refused at once", failed, took, busy)
		}
		resume := a.blockComparisons() // nothing is compared before all have started
		for range 100 {
			all.Go(func() { a.Authenticate(t.Context(), "192.0.2.77", "app", "the same") })
		}
		synctest.Wait()
		resume()
		all.Wait()
		if p := a.guesses.at("192.0.2.77", "app"); p.failures != 1 {
			t.Errorf("the same question counts as %d failures", p.failures)
		}
		a.Close()
		synctest.Wait()
	})
}

// TestComparisonLimit: no more secrets are compared at a time than there are processors to
// spare, whoever makes the attempts, and for one address no more than maxBusy.
func TestComparisonLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		if n, want := a.comparisons.free, max(1, runtime.NumCPU()/2); n != want {
			t.Errorf("%d comparisons at a time, want %d", n, want)
		}
		resume := a.blockComparisons()
		var answered atomic.Int64
		var all sync.WaitGroup
		const askers = 4 * maxBusy
		for i := range askers {
			all.Go(func() { // each attempt is different
				a.Authenticate(t.Context(), fmt.Sprint("192.0.2.", i), "app", "wrong")
				answered.Add(1)
			})
			all.Go(func() {
				a.Authenticate(t.Context(), "192.0.2.77", "app", fmt.Sprint("wrong", i))
				answered.Add(1)
			})
		}
		synctest.Wait()
		if n := answered.Load(); n != 0 {
			t.Errorf("%d secrets were compared beyond the limit", n)
		}
		if n := a.guesses.at("192.0.2.77", "app").busy; n != maxBusy {
			t.Errorf("%d attempts of one address are being checked, want %d", n, maxBusy)
		}
		resume()
		all.Wait()
		if n := answered.Load(); n != 2*askers {
			t.Errorf("%d attempts of %d were answered", n, 2*askers)
		}
	})
}

// blockComparisons blocks all comparisons until resume is called.
func (o *testAccess) blockComparisons() (resume func()) {
	n := o.comparisons.free
	for range n {
		o.comparisons.acquire(o.Context(), 0)
	}
	return func() {
		for range n {
			o.comparisons.release()
		}
	}
}

// took returns how long an attempt takes, which must end with want.
func (o *testAccess) took(ctx context.Context, name, secret string, want error) time.Duration {
	o.Helper()
	begun := time.Now()
	if _, err := o.Authenticate(ctx, "192.0.2.1", name, secret); !errors.Is(err, want) {
		o.Errorf("%s with %q: %v, want %v", name, secret, err, want)
	}
	return time.Since(begun)
}

// TestGuessesOfOthers: a user who has logged in does not wait for guesses from the same
// address, not even after the file was read again; nor do users whose names nobody guesses.
func TestGuessesOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := twoUsers(t)
		for i := range 30 {
			text += fmt.Sprintf("- {name: user%d, secrets: [%q]}\n", i, argonText("three", []byte("salty salt"), 8, 1, 1))
		}
		a := open(t, text)
		on := WithConn(t.Context(), nil)
		for _, ctx := range []context.Context{t.Context(), on} {
			if took := a.took(ctx, "app", "one", nil); took > 0 {
				t.Errorf("the first time it takes %v", took)
			}
		}
		for i := range 9 {
			a.took(t.Context(), "app", fmt.Sprint("wrong", i), ErrUnauthorized)
		}
		for range 2 {
			for what, ctx := range map[string]context.Context{"the connection": on, "the address": t.Context()} {
				if took := a.took(ctx, "app", "one", nil); took > 0 {
					t.Errorf("what has logged in on %s waits %v", what, took)
				}
			}
			if err := a.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		waited := 0
		for i := range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
			if _, err := a.Authenticate(ctx, "192.0.2.1", fmt.Sprint("user", i), "three"); err != nil {
				waited++
			}
			cancel()
		}
		if waited == 30 {
			t.Error("all names wait for guesses at one")
		}
	})
}

// TestLookupLimit: the time of an answer does not allow guessing which secrets have logged
// in from an address. Even then a login on the same connection does not wait.
func TestLookupLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		on := WithConn(t.Context(), nil)
		a.took(on, "app", "one", nil)
		a.took(t.Context(), "app", "wrong", ErrUnauthorized)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range maxLookups {
			if a.Known("192.0.2.1", "app", "one") == nil {
				t.Fatalf("it waits after %d lookups", i)
			}
			guess := fmt.Sprint("guess", i) // as on the beanstalk port, and counts once
			a.Known("192.0.2.1", "app", guess)
			a.Authenticate(late, "192.0.2.1", "app", guess)
		}
		if a.Known("192.0.2.1", "app", "one") != nil {
			t.Errorf("%d wrong secrets a second are looked up", maxLookups)
		}
		if took := a.took(on, "app", "one", nil); took > 0 {
			t.Errorf("a login on the same connection waits %v", took)
		}
	})
}

// TestRevokedOnConnection: a revoked secret is checked at once on the connection where it
// logged in, and then counts as guessed.
func TestRevokedOnConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		on := WithConn(t.Context(), nil)
		a.took(on, "app", "one", nil)
		a.write("users: [{name: app, secrets: ['" + argonText("three", []byte("salty salt"), 8, 1, 1) + "']}]")
		if err := a.Reload(); err != nil {
			t.Fatal(err)
		}
		if took := a.took(on, "app", "one", ErrUnauthorized); took > 0 {
			t.Errorf("the first time it takes %v", took)
		}
		for _, ctx := range []context.Context{on, t.Context()} {
			if took := a.took(ctx, "app", "one", ErrUnauthorized); took < firstDelay {
				t.Errorf("then it takes %v", took)
			}
		}
	})
}

// TestSemaphore: of the waiting comparisons, those after the fewest failures come first.
func TestSemaphore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore{free: 1}
		sem.acquire(t.Context(), 9)
		gone, cancel := context.WithCancel(t.Context())
		var acquired []int
		var all sync.WaitGroup
		wait := func(ctx context.Context, failures int) {
			all.Go(func() {
				if sem.acquire(ctx, failures) == nil {
					acquired = append(acquired, failures)
					sem.release()
				}
			})
			synctest.Wait()
		}
		for _, failures := range []int{7, 3, 0, 5} {
			wait(t.Context(), failures)
			wait(gone, failures)
		}
		cancel()
		synctest.Wait()
		sem.release()
		all.Wait()
		if !slices.Equal(acquired, []int{0, 3, 5, 7}) || sem.free != 1 || len(sem.waiting) > 0 {
			t.Errorf("the order was %v, and %d are free", acquired, sem.free)
		}
	})
}

// TestCancelledAttempts: attempts for which nobody waits any more do not take up room.
func TestCancelledAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, twoUsers(t))
		a.took(t.Context(), "app", "wrong", ErrUnauthorized)
		for i := range 2 * maxWaiting {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			a.took(ctx, "app", fmt.Sprint("wrong", i), context.Canceled)
		}
		synctest.Wait()
		if took := a.took(t.Context(), "app", "one", nil); took > firstDelay+recheck {
			t.Errorf("an attempt waits %v for those who have left", took)
		}
	})
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
	if l := a.Renew(second); l == nil || l.User.On("b") != Read || l.User.On("a") != Nothing {
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

func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, "users: [{name: a, limits: {connections: 2, jobs-per-second: 10, bytes-per-second: 1000}}, {name: b}, {name: c, limits: {jobs-per-second: 5}}]")
		u, free, slow := a.Certified("a").User, a.Certified("b").User, a.Certified("c").User
		for i, want := range []bool{true, true, false} {
			if u.Join() != want {
				t.Errorf("connection %d: want %v", i+1, want)
			}
		}
		if u.Quit(); !u.Join() {
			t.Error("one that has ended still counts")
		}
		puts := func(u *User, bytes int) (n int) {
			for n < 1000 && u.MayPut(bytes) {
				n++
			}
			return n
		}
		if n := puts(u, 1); n != 10 {
			t.Errorf("%d jobs at once, want 10", n)
		}
		if time.Sleep(300 * time.Millisecond); puts(u, 1) != 3 {
			t.Error("not three more after 0.3 s")
		}
		time.Sleep(time.Minute)
		if n := puts(u, 5000); n != 1 {
			t.Errorf("%d large jobs, want 1", n)
		}
		if time.Sleep(3900 * time.Millisecond); u.MayPut(1) {
			t.Error("a large job is not made up for")
		}
		if time.Sleep(200 * time.Millisecond); !u.MayPut(1) {
			t.Error("a large job is never made up for")
		}
		n := 0
		for range 20 { // not all in the same nanosecond
			if time.Sleep(time.Microsecond); slow.MayPut(1) {
				n++
			}
		}
		if n != 5 {
			t.Errorf("%d jobs nearly at once, want 5", n)
		}
		if n := puts(free, 1<<20); n != 1000 {
			t.Errorf("without limits only %d", n)
		}
	})
}
