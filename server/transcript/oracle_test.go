package transcript_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"redstalk/server/transcript"
)

const folder = "../../testdata/transcripts"

// TestMain lets many transcripts play at the same time on few processors: they
// spend their time waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// slack is how late replies may be in these tests: generous, because the
// judge itself is never wrong and test machines are noisy. TRANSCRIPT_SLACK
// sets another.
func slack(t *testing.T) time.Duration {
	v := os.Getenv("TRANSCRIPT_SLACK")
	if v == "" {
		return 400 * time.Millisecond
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestOracle plays every transcript on the real beanstalkd, so that no
// transcript can claim what the true server does not do.
func TestOracle(t *testing.T) {
	all, err := transcript.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			srv, err := transcript.StartBeanstalkd(t.TempDir(), tr.Flags()...)
			if errors.Is(err, transcript.ErrNoBeanstalkd) {
				t.Skip("there is no beanstalkd here to judge by; install the package beanstalkd")
			}
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Stop()
			target := srv.Target()
			if !strings.HasPrefix(target.Kind, "beanstalkd-1.12") && !strings.HasPrefix(target.Kind, "beanstalkd-1.13") {
				t.Skip("this is " + target.Kind + "; the transcripts are about 1.12 and later")
			}
			if !tr.Plays(target.Kind) {
				t.Skip("not for " + target.Kind)
			}
			target.Slack = slack(t)
			if err := transcript.Play(context.Background(), tr, target); err != nil {
				t.Error(err)
			}
		})
	}
}
