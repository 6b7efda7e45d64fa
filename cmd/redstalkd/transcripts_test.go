package main

import (
	"context"
	"testing"
	"time"

	dialogue "redstalk/server/transcript"
)

// transcriptSlack is how late a timed reply may come while many transcripts
// play at once on a machine that others use too. Early is never allowed.
const transcriptSlack = 400 * time.Millisecond

// TestTranscripts plays every transcript, each recorded from or checked on the
// true beanstalkd, on the program with each engine.
func TestTranscripts(t *testing.T) {
	all, err := dialogue.Load("../../testdata/transcripts")
	if err != nil {
		t.Fatal(err)
	}
	onEngines(t, func(t *testing.T, store func() []string) {
		for _, tr := range all {
			t.Run(tr.Name, func(t *testing.T) {
				t.Parallel()
				play(t, tr, append(store(), tr.Flags()...))
			})
		}
	})
}

func play(t *testing.T, tr *dialogue.Transcript, flags []string) {
	srv, err := dialogue.Start("redstalk", binary, t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	target := srv.Target()
	target.Slack = transcriptSlack
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := dialogue.Play(ctx, tr, target); err != nil {
		t.Error(err)
	}
}
