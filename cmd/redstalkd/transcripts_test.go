package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	dialogue "redstalk/server/transcript"
	"redstalk/storage/redis/redistest"
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
	redis := redistest.Start(t)
	var namespaces atomic.Int64
	for engine, flags := range map[string]func() []string{
		"memory": func() []string { return []string{"--store", "memory:"} },
		"redis": func() []string {
			return []string{"--store", redis.URL(), "--namespace", fmt.Sprint("transcript", namespaces.Add(1))}
		},
	} {
		t.Run(engine, func(t *testing.T) {
			for _, tr := range all {
				t.Run(tr.Name, func(t *testing.T) {
					t.Parallel()
					play(t, tr, append(flags(), tr.Flags()...))
				})
			}
		})
	}
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
