package differ_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/differ"
	"redstalk/tools/conformance/transcript"
)

var (
	plain = flag.Int("plain", 600, "commands to compare in scripts without time")
	timed = flag.Int("timed", 50, "commands to compare in scripts with time")

	everyForgery = flag.Bool("every-forgery", false, "tests of forgeries try all, and not one of a few")
	seed         = flag.Uint64("seed", 1, "seed of the scripts")
)

// beanstalkd starts a judge.
func beanstalkd(t *testing.T) func(flags ...string) (differ.Server, error) {
	dir := t.TempDir()
	return func(flags ...string) (differ.Server, error) {
		srv, err := transcript.StartBeanstalkd(dir, flags...)
		if err != nil {
			return differ.Server{}, err
		}
		target := srv.Target()
		return differ.Server{Dial: target.Dial, Signal: target.Signal, Stop: srv.Stop}, nil
	}
}

// compare runs the scripts with beanstalkd as the judge.
func compare(t *testing.T, c differ.Config) *differ.Report {
	t.Helper()
	report, err := differ.Run(context.Background(), c)
	if errors.Is(err, transcript.ErrNoBeanstalkd) {
		t.Skip("there is no beanstalkd here to judge by; `make deps` installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestAgainstItself: beanstalkd does not differ from itself, so whatever is
// found here is a script of which the outcome is chance.
func TestAgainstItself(t *testing.T) {
	report := compare(t, differ.Config{
		Judge: beanstalkd(t), Subject: beanstalkd(t), Seed: *seed, Plain: *plain, Timed: *timed,
		Log: t.Logf, Shrink: 20 * time.Second,
	})
	for _, f := range report.Found {
		t.Error(f)
	}
	t.Logf("%d plain, %d timed, %d scripts, %d voided, %d doubtful\n%v",
		report.Plain, report.Timed, report.Scripts, report.Voided, report.Doubtful, report.Coverage)
}

// forger is a connection on which replies are changed.
type forger struct {
	net.Conn
	change *strings.Replacer
	rest   []byte // changed and not yet read
}

func (f *forger) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		chunk := make([]byte, 64<<10)
		n, err := f.Conn.Read(chunk)
		if err != nil {
			return 0, err
		}
		f.rest = []byte(f.change.Replace(string(chunk[:n])))
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *forger) CloseWrite() error { return f.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// forged is a beanstalkd some of whose replies are changed.
func forged(start func(...string) (differ.Server, error), oldnew ...string) func(...string) (differ.Server, error) {
	return func(flags ...string) (differ.Server, error) {
		server, err := start(flags...)
		dial := server.Dial
		server.Dial = func() (net.Conn, error) {
			conn, err := dial()
			return &forger{Conn: conn, change: strings.NewReplacer(oldnew...)}, err
		}
		return server, err
	}
}

// TestFindsForgeries: a server that differs in one thing is found out, and
// the transcript that is printed is short, true of beanstalkd and not of that
// server.
func TestFindsForgeries(t *testing.T) {
	start := beanstalkd(t)
	for i, c := range []struct {
		name   string
		change []string
		sends  int // packets in the smallest script
		lag    time.Duration
	}{
		{"word", []string{"NOT_IGNORED\r\n", "WATCHING 1\r\n"}, 1, 0},
		{"missing", []string{"RELEASED\r\n", ""}, 3, 0},
		{"extra", []string{"BURIED\r\n", "BURIED\r\nBURIED\r\n"}, 3, 0},
		{"page", []string{"total-jobs: 2\n", "total-jobs: 3\n"}, 3, 0},
		{"list", []string{"- u\n- v\n", "- v\n- u\n"}, 3, 0},
		{"count", []string{"KICKED 2\r\n", "KICKED 1\r\n"}, 3, 0},
		{"waiting", []string{"current-waiting: 1\n", "current-waiting: 0\n"}, 1, 0},
		// The tester's own connection uses default, so this is another tube, whose
		// figures are the same without the tester.
		{"never settled", []string{"current-using: 0\ncurrent-watching: 2\n", "current-using: 0\ncurrent-watching: 1\n"}, 6, 20 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if i%3 != 0 && !*everyForgery {
				t.Skip("-every-forgery")
			}
			t.Parallel()
			forger := forged(start, c.change...)
			report := compare(t, differ.Config{
				Judge: start, Subject: forger, Seed: *seed, Plain: 100_000, Patience: busy.Times(400 * time.Millisecond), Shrink: busy.Times(2 * time.Minute), Lag: c.lag,
			})
			if len(report.Found) == 0 {
				t.Fatal("it was not found out")
			}
			found := report.Found[0]
			if n := strings.Count(found.Transcript, "\n\n"); n > c.sends+1 {
				t.Errorf("%d packets to show it, %d are enough:\n%v", n, c.sends, found)
			}
			tr, err := transcript.Parse(c.name, found.Transcript)
			if err != nil {
				t.Fatal(err, found)
			}
			if err := perform(t, tr, start); err != nil {
				t.Errorf("it is not true of beanstalkd: %v", err)
			}
			if err := perform(t, tr, forger); err == nil && c.name != "waiting" {
				t.Errorf("it does not show it:\n%v", found)
			}
		})
	}
}

// perform plays a transcript on a fresh server.
func perform(t *testing.T, tr *transcript.Transcript, start func(...string) (differ.Server, error)) error {
	server, err := start(tr.Flags()...)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	return transcript.Play(context.Background(), tr, transcript.Target{
		Kind: "beanstalkd-1.12", Dial: server.Dial, Signal: server.Signal, Patience: time.Second,
	})
}
