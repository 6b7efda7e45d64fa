package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// A coded error panics if it is nil.
type coded struct{ code int }

func (c *coded) Error() string { return fmt.Sprint("code ", c.code) }

// An exiting error ends each goroutine that asks it something.
type exiting struct{}

func (exiting) Error() string { runtime.Goexit(); return "" }

// An unwrapping error panics when it is unwrapped.
type unwrapping struct{}

func (unwrapping) Error() string        { return "wrapped" }
func (unwrapping) Unwrap() error        { panic("nothing is wrapped") }
func (unwrapping) As(any) bool          { panic(exiting{}) }
func (unwrapping) Is(error) bool        { panic((*coded)(nil)) }
func (unwrapping) LogValue() slog.Value { panic("no value") }

// A brokenLog fails to log anything, in turns.
type brokenLog struct {
	slog.Handler
	lines *atomic.Int32
}

func (b brokenLog) Enabled(context.Context, slog.Level) bool { return true }
func (b brokenLog) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b brokenLog) Handle(context.Context, slog.Record) error {
	if b.lines.Add(1)%2 == 0 {
		runtime.Goexit()
	}
	panic("the log is broken")
}

// TestFaultsOfHandlers: whatever a handler does is a failure of its job alone, whatever becomes of the log.
func TestFaultsOfHandlers(t *testing.T) {
	t.Parallel()
	faults := map[string]func() error{
		"typed nil":    func() error { return (*coded)(nil) },
		"exits":        func() error { return exiting{} },
		"joined":       func() error { return errors.Join(exiting{}, (*coded)(nil)) },
		"unwraps":      func() error { return unwrapping{} },
		"long snooze":  func() error { return worker.Snooze(math.MaxInt64) },
		"panic nil":    func() error { panic((*coded)(nil)) },
		"panic exits":  func() error { panic(exiting{}) },
		"hostile text": func() error { return errors.New(strings.Repeat("\x00\xff\r\n\"\\\u2028", 300)) },
	}
	c := client.New(testserver.Memory(t).Addr())
	t.Cleanup(func() { c.Close() })
	for i, logger := range []*slog.Logger{nil, slog.New(brokenLog{lines: new(atomic.Int32)})} {
		tube := fmt.Sprint("faults", i)
		ids := map[string]uint64{}
		for name := range faults {
			ids[name] = put(t, c, tube, name)
		}
		skipped := put(t, c, tube, "skip")
		good := put(t, c, tube, "good")
		mux := handle(tube, func(_ context.Context, job *worker.Job) error {
			switch name := string(job.Body); name {
			case "good":
				return nil
			case "skip":
				return worker.Skip((*coded)(nil))
			default:
				return faults[name]()
			}
		})
		start(t, c, worker.Config{Concurrency: 2, Backoff: worker.Intervals(time.Hour), Logger: logger}, mux)
		awaitState(t, c, good, "")
		awaitState(t, c, skipped, "buried")
		for name, id := range ids {
			if s := awaitState(t, c, id, "delayed"); s.Failures != 1 || s.Reason == "" {
				t.Errorf("%s: %d failures because of %q", name, s.Failures, s.Reason)
			}
		}
	}
}

// TestDefaults: they are those of all clients.
func TestDefaults(t *testing.T) {
	t.Parallel()
	c := client.New(testserver.Memory(t).Addr())
	t.Cleanup(func() { c.Close() })
	member, err := c.Batch("b").Add(t.Context(), "mails", []byte("fails"))
	if err == nil {
		err = c.SetSchedule(t.Context(), "s", client.Schedule{Tube: "mails", Every: time.Hour}, []byte("fails"))
	}
	if err != nil {
		t.Fatal(err)
	}
	scheduled, err := c.RunSchedule(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	ids := []uint64{put(t, c, "mails", "fails"), member.ID, scheduled.ID}
	start(t, c, worker.Config{}, handle("mails", func(context.Context, *worker.Job) error { return errors.New("no such address") }))
	for _, id := range ids {
		s := awaitState(t, c, id, "delayed")
		if s.Priority != 1024 || s.TTR != time.Minute || s.Retry != "" || s.Left > 2*time.Second {
			t.Errorf("priority %d, TTR %v, retry %q, delay %v", s.Priority, s.TTR, s.Retry, s.Left)
		}
	}
}

// TestFaultsOfBackoff: the default applies where a Backoff is of no use.
func TestFaultsOfBackoff(t *testing.T) {
	t.Parallel()
	results := make(chan func() (time.Duration, bool), 10)
	results <- func() (time.Duration, bool) { panic("no wait") }
	results <- func() (time.Duration, bool) { runtime.Goexit(); return 0, false }
	results <- func() (time.Duration, bool) { return math.MaxInt64, true }
	results <- func() (time.Duration, bool) { return math.MinInt64, true }
	n := len(results)
	c := client.New(testserver.Memory(t).Addr())
	t.Cleanup(func() { c.Close() })
	var left atomic.Int32
	left.Store(int32(n))
	backoff := func(int) (time.Duration, bool) {
		defer left.Add(-1)
		select {
		case f := <-results:
			return f()
		default:
			return time.Hour, true
		}
	}
	var ids []uint64
	for range n {
		ids = append(ids, put(t, c, "backoff", "x"))
	}
	start(t, c, worker.Config{Concurrency: 1, Backoff: backoff}, handle("backoff", func(context.Context, *worker.Job) error { return errors.New("no") }))
	for _, id := range ids {
		if s := awaitState(t, c, id, "delayed"); s.Failures == 0 {
			t.Errorf("%+v", s)
		}
	}
	if left.Load() > 0 {
		t.Errorf("%d results of the Backoff were not asked for", left.Load())
	}
}

// refusing serves connections on which each job is leased for an hour, and what settles it is refused.
func refusing(l net.Listener) {
	const page, info = "---\n- lease\n- info\n- reason\n", `{"tube":"refused","pri":1,"ttr":3600}`
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				reply := "FORBIDDEN"
				switch word, _, _ := strings.Cut(lines.Text(), " "); word {
				case "capabilities":
					reply = fmt.Sprintf("OK %d\r\n%s", len(page), page)
				case "watch", "ignore":
					reply = "WATCHING 1"
				case "reserve-batch":
					reply = fmt.Sprintf("RESERVED_BATCH 1\r\nLEASED 7 1 0 %d\r\n\r\n%s", len(info), info)
				}
				fmt.Fprintf(c, "%s\r\n", reply)
			}
		}()
	}
}

// TestRefusedForGood: what the server refuses for good is not tried until the lease ends.
func TestRefusedForGood(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go refusing(l)
	c := client.New(l.Addr().String())
	t.Cleanup(func() { c.Close() })
	results := []error{nil, errors.New("no"), worker.Skip(errors.New("no")), worker.Snooze(1)}
	called := make(chan struct{})
	var calls int
	start(t, c, worker.Config{Concurrency: 1, ShutdownTimeout: time.Millisecond}, handle("refused", func(ctx context.Context, _ *worker.Job) error {
		select {
		case called <- struct{}{}:
		case <-ctx.Done():
		}
		calls++
		return results[calls%len(results)]
	}))
	for range 3 * len(results) {
		receive(t, called, "another delivery")
	}
}
