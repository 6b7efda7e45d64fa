package transcript_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/transcript"
)

const folder = "../../../testdata/transcripts"

// TestMain lets many transcripts play at the same time on few processors: they
// spend their time waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// slack is how late replies may be in these tests: generous, because
// beanstalkd itself is correct and test machines are noisy. TRANSCRIPT_SLACK
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
			err := transcript.PlayInTime(context.Background(), tr, func() (transcript.Target, func(), error) {
				srv, err := transcript.StartBeanstalkd(t.TempDir(), tr.Flags()...)
				if errors.Is(err, transcript.ErrNoBeanstalkd) {
					t.Skip("there is no beanstalkd here to judge by; install the package beanstalkd")
				}
				if err != nil {
					return transcript.Target{}, nil, err
				}
				target := srv.Target()
				target.Slack = slack(t)
				if why := notToPlay(tr, target.Kind); why != "" {
					srv.Stop()
					t.Skip(why)
				}
				return target, srv.Stop, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// notToPlay returns why a transcript is not for a server of that kind; "" if it is.
func notToPlay(tr *transcript.Transcript, kind string) string {
	if !strings.HasPrefix(kind, "beanstalkd-1.12") && !strings.HasPrefix(kind, "beanstalkd-1.13") {
		return "this is " + kind + "; the transcripts are about 1.12 and later"
	}
	if !tr.Plays(kind) {
		return "not for " + kind
	}
	return ""
}
