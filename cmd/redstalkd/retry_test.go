package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage/beanstalkd"
	"redstalk/storage/embedded"
	"redstalk/storage/redact"
	"redstalk/storage/redis"
)

// TestRetryWhileTaken: how long a start waits for what another process uses, in virtual time.
func TestRetryWhileTaken(t *testing.T) {
	ending := fmt.Errorf("opening: %w: %w", embedded.ErrLocked, embedded.ErrEnding)
	for _, test := range []struct {
		err   error
		for_  time.Duration // it lasts
		after time.Duration // it is over, or this is what comes of it
		fails bool
		warns int
	}{
		{ending, 12 * time.Second, 12 * time.Second, false, 1},
		{ending, time.Hour, 13 * time.Second, true, 1},
		{embedded.ErrLocked, 900 * time.Millisecond, 900 * time.Millisecond, false, 0},
		{embedded.ErrLocked, time.Hour, takenTimeout, true, 0},
		{beanstalkd.ErrLocked, time.Hour, takenTimeout, true, 0},
		{errAnswers, time.Hour, takenTimeout, true, 0},
		{failure(exitListen, "%w", redact.Error("", syscall.EADDRINUSE)), time.Hour, takenTimeout, true, 0},
		{errors.New("another"), time.Hour, 0, true, 0},
		{fmt.Errorf("opening: %w", redis.ErrUnreachable), 3 * time.Second, 3 * time.Second, false, 1},
		{fmt.Errorf("opening: %w", redis.ErrUnreachable), time.Hour, 5 * time.Second, true, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := newOutput()
			s := &settings{grace: 3 * time.Second, engine: engine{timeout: 5 * time.Second, log: slog.New(slog.NewTextHandler(log, nil))}}
			began := time.Now()
			_, err := retryWhileTaken(t.Context(), s, func() (int, error) {
				if time.Since(began) < test.for_ {
					return 0, test.err
				}
				return 0, nil
			})
			if took := time.Since(began); took != test.after || (err != nil) != test.fails {
				t.Errorf("%v for %v: %v after %v, want %v", test.err, test.for_, err, took, test.after)
			}
			if warns := strings.Count(log.String(), "level=WARN"); warns != test.warns {
				t.Errorf("%v: %d warnings, want %d", test.err, warns, test.warns)
			}
			ctx, stop := context.WithTimeout(t.Context(), 5*retryInterval)
			defer stop()
			if retryWhileTaken(ctx, s, func() (int, error) { return 0, ending }); time.Since(began) > test.after+5*retryInterval {
				t.Errorf("stopped, it continued until %v", time.Since(began))
			}
		})
	}
}

// TestRestartWithOverlap stops a process, and starts the next one at once, on the same directory and addresses.
// Slow clients keep the first one until the end of its grace period.
func TestRestartWithOverlap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir)
	at := func(name string) string { return "unix:" + filepath.Join(dir, name) }
	args := []string{
		"-z", "20000000", "-b", filepath.Join(dir, "jobs"), "--grace", (takenTimeout * 3 / 2).String(), "--http", at("http"), "--gateway", "ouqiang=" + at("gateway"),
		"--tls", at("tls"), "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"),
	}
	p, addr := serve(t, append([]string{"-p0"}, args...)...)
	_, port, _ := net.SplitHostPort(addr)
	const large = 16 << 20 // more than all buffers take
	dial(t, addr).ask(fmt.Sprintf("use large\r\nput 0 0 60 %d\r\n%s\r\n", large, strings.Repeat("x", large)), "USING large", "INSERTED 1")
	for nth := range 6 {
		c := dial(t, addr)
		c.ask("put 0 0 60 1\r\na\r\n", fmt.Sprint("INSERTED ", nth+2))
		c.ask("reserve\r\n", "RESERVED 2 1", "a")
		if nth%3 == 1 {
			c.send("peek 1\r\n") // and it does not read the reply
		}
		p.signal(t, syscall.SIGTERM)
		next, at := serve(t, append([]string{"-p", port}, args...)...)
		if code := p.code(t); code != 0 {
			t.Errorf("the first one: %d, %s", code, p.stderr)
		}
		if at != addr {
			t.Errorf("it is at %s, want %s", at, addr)
		}
		p = next
	}
	dial(t, addr).awaitFigure("stats", "current-jobs-ready", "7")
	p.end(t)
}

// TestListensWhenReleased: the program listens on an address as soon as another server releases it.
func TestListensWhenReleased(t *testing.T) {
	s := defaults()
	for _, network := range []string{"tcp", "tcp4", "unix"} {
		at := map[string]string{"tcp": ":0", "tcp4": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network]
		other, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		at = other.Addr().String()
		if network == "unix" {
			at = unixPrefix + at
		}
		time.AfterFunc(3*retryInterval, func() { other.Close() })
		l, err := s.listenAt(t.Context(), at)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		l.Close()
	}
}
