package access

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
