package transcript

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowed is a server on which a put with a delay of 1 s takes put, and
// which answers ready when that is over.
func slowed(put time.Duration, ready string) Target {
	var due time.Time
	answer := func(sent string, out *pipe) {
		switch {
		case sent == "put\r\n":
			time.Sleep(put)
			due = time.Now().Add(time.Second)
			out.write([]byte("INSERTED 1\r\n"))
		case time.Now().Before(due):
			out.write([]byte("NOT_FOUND\r\n"))
		default:
			out.write([]byte(ready + "\r\n"))
		}
	}
	return Target{Kind: "redstalk", Dial: func() (net.Conn, error) {
		return &conn{in: newPipe(), answer: answer}, nil
	}}
}

// TestPlayInTime: a timed transcript that fails because it was played late is played again; one that
// fails without being late, or has no times, is not.
func TestPlayInTime(t *testing.T) {
	const timed = "mark m\na> put\na< INSERTED 1\nwait 1100ms after m\na> ready\na< FOUND"
	for _, test := range []struct {
		name, script string
		slow         []time.Duration // each play's put; the last one also of further plays
		ready        string
		plays        int
		want         string // in the error; "": none
	}{
		{"in time", timed, []time.Duration{0}, "FOUND", 1, ""},
		{"late and yet right", timed, []time.Duration{80 * time.Millisecond}, "FOUND", 1, ""},
		{"late once", timed, []time.Duration{300 * time.Millisecond, 0}, "FOUND", 2, ""},
		{"late, then wrong", timed, []time.Duration{300 * time.Millisecond, 0}, "WRONG", 2, "want FOUND, got WRONG"},
		{"late every time", timed, []time.Duration{300 * time.Millisecond}, "FOUND", maxPlays, "plays, all of them late; the last: played 300ms late: x:6: want FOUND, got NOT_FOUND"},
		{"wrong in time", timed, []time.Duration{0}, "WRONG", 1, "want FOUND, got WRONG"},
		{"wrong, hardly late", timed, []time.Duration{20 * time.Millisecond}, "WRONG", 1, "want FOUND, got WRONG"},
		{"later than pages bear", "a> put\na< INSERTED 2", []time.Duration{2 * time.Second}, "", maxPlays, "want INSERTED 2, got INSERTED 1"},
		{"late, but without times", "a> put\na< INSERTED 2", []time.Duration{time.Second}, "", 1, "want INSERTED 2, got INSERTED 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, err := Parse("x", test.script)
				if err != nil {
					t.Fatal(err)
				}
				started, stopped := 0, 0
				err = PlayInTime(context.Background(), tr, func() (Target, func(), error) {
					slow := test.slow[min(started, len(test.slow)-1)]
					started++
					return slowed(slow, test.ready), func() { stopped++ }, nil
				})
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
				if started != test.plays || stopped != started {
					t.Errorf("%d plays, %d servers stopped, want %d", started, stopped, test.plays)
				}
				if _, late := errors.AsType[*LateError](err); late != (test.plays == maxPlays) {
					t.Errorf("late: %v", late)
				}
			})
		})
	}
}

// TestLateness: a reply after its due time is late, too; one at its due time
// is not, nor is one without a limit.
func TestLateness(t *testing.T) {
	for script, late := range map[string]bool{
		"a> later\na< [1s] X\na> none\na< [now] Y":                    false,
		"a> later\na< [0.8s..0.9s] X":                                 true,
		"a> later\nwait 2s\na< X\na> two\na< B":                       false,
		"open b\na> later\nrace a b as w l\nw< X\nsilent w 1ms\nw< Y": false,
		"a?> count\na< OK\nsilent a 1ms\na> two\na< B":                false,
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, err := Parse("x", script)
			if err != nil {
				t.Fatal(err)
			}
			err = Play(context.Background(), tr, scripted(answers))
			if _, ok := errors.AsType[*LateError](err); err == nil || ok != late {
				t.Errorf("%q: %v, want it late: %v", script, err, late)
			}
		})
	}
}
