package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	dialogue "redstalk/protocol/conformance/transcript"
	"redstalk/storage/redis/redistest"
)

// transcriptSlack is how late a timed reply may come while many transcripts
// play at once on a machine that others use too. Early is never allowed.
const transcriptSlack = 400 * time.Millisecond

// TestTranscripts plays every transcript, each recorded from or checked on the
// true beanstalkd, on the program with each engine.
func TestTranscripts(t *testing.T) { playAll(t, "../../testdata/transcripts") }

// TestExtensions does so with the transcripts of what beanstalkd does not know, and on
// Redis with tubes in several partitions as well.
func TestExtensions(t *testing.T) {
	const folder = "../../testdata/transcripts/extensions"
	playAll(t, folder)
	t.Run("partitions", func(t *testing.T) {
		store := namespaces(redistest.Start(t).URL())
		playOn(t, folder, func() []string { return append(store(), "--partitions", "16") })
	})
}

// playAll plays the transcripts of a folder on the program with each engine.
func playAll(t *testing.T, folder string) {
	onEngines(t, func(t *testing.T, store func() []string) { playOn(t, folder, store) })
}

// playOn plays the transcripts of a folder on the program, on stores.
func playOn(t *testing.T, folder string, store func() []string) {
	all, err := dialogue.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			play(t, tr, store)
		})
	}
}

// TestWaitsThatEndWhenDue plays some transcripts many times, as it was chance on
// which side of its end a wait was answered.
func TestWaitsThatEndWhenDue(t *testing.T) {
	times := 4 * *rare
	var some []*dialogue.Transcript
	for _, name := range []string{"wait-ends-when-due", "wait-ends-with-ttr"} {
		tr, err := dialogue.LoadFile("../../testdata/transcripts/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		tr.Name = name
		some = append(some, tr)
	}
	onEngines(t, func(t *testing.T, store func() []string) {
		for _, tr := range some {
			for range times {
				t.Run(tr.Name, func(t *testing.T) {
					t.Parallel()
					play(t, tr, store)
				})
			}
		}
	})
}

// play plays a transcript on the program, on a store of its own each time.
func play(t *testing.T, tr *dialogue.Transcript, store func() []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir := ""
	err := dialogue.PlayInTime(ctx, tr, func() (dialogue.Target, func(), error) {
		dir = t.TempDir()
		srv, err := dialogue.Start("redstalk", binary, dir, append(store(), tr.Flags()...)...)
		if err != nil {
			return dialogue.Target{}, nil, err
		}
		target := srv.Target()
		target.Slack = transcriptSlack
		return target, srv.Stop, nil
	})
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "stderr"))
		t.Errorf("%v\nthe server said: %s", err, said)
	}
}
