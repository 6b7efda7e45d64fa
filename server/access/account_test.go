package access

import (
	"testing"
	"testing/synctest"
	"time"
)

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
