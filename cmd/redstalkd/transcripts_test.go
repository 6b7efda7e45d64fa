package main

import (
	"context"
	"flag"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	dialogue "redstalk/tools/conformance/transcript"
	"redstalk/tools/redistest"
)

// transcriptSlack is how late a timed reply may come while many transcripts
// play at once on a machine that others use too. Early is never allowed.
const transcriptSlack = 400 * time.Millisecond

// TestTranscripts plays every transcript, each recorded from or checked on the
// real beanstalkd, on the program.
func TestTranscripts(t *testing.T) { playAll(t, "../../testdata/transcripts") }

// TestExtensions plays the transcripts of extensions, and on
// Redis with tubes in several partitions as well. With -ha-long it also plays on a cluster, with
// Sentinel, and on two instances that look like one server.
func TestExtensions(t *testing.T) {
	const folder = "../../testdata/transcripts/extensions"
	playAll(t, folder)
	t.Run("partitions", func(t *testing.T) {
		store := namespaces(redistest.Start(t).URL())
		playOn(t, folder, func() []string { return append(store(), "--partitions", "16") })
	})
	t.Run("cluster", func(t *testing.T) {
		onlyHALong(t)
		playOn(t, folder, namespaces(redistest.StartCluster(t, 3, 0).URL()))
	})
	t.Run("Sentinel", func(t *testing.T) {
		onlyHALong(t)
		playOn(t, folder, namespaces(redistest.StartSentinels(t, 1).URL()))
	})
	t.Run("two instances", func(t *testing.T) {
		onlyHALong(t)
		playOnTwo(t, folder, patiently(namespaces(redistest.Start(t).URL())))
	})
}

func onlyHALong(t *testing.T) {
	t.Helper()
	if !*haLong {
		t.Skip("-ha-long runs it")
	}
}

// playOnTwo plays the transcripts of a folder on two instances, to which connections are distributed
// in turn; except those about draining and about lists of connections, which differ for a single
// instance.
func playOnTwo(t *testing.T, folder string, store func() []string) {
	all, err := dialogue.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range all {
		if tr.Name == "drain" || tr.Name == "clients-list" {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			err := dialogue.PlayInTime(ctx, tr, func() (dialogue.Target, func(), error) {
				front, err := startFront(2, append(store(), tr.Flags()...))
				return dialogue.Target{Kind: "redstalk", Dial: front.Dial, Signal: front.Signal, Slack: transcriptSlack, Pause: 100 * time.Millisecond}, front.Stop, err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

var everyEngine = flag.Bool("every-engine", false, "play each transcript on all engines, and not on one of the three")

// playAll plays the transcripts of a folder on the program with each engine. Most of the time
// is needed to start it, so without -every-engine the transcripts are distributed to the engines
// in turn.
func playAll(t *testing.T, folder string) {
	all, err := dialogue.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	turn := 0
	onEngines(t, func(t *testing.T, store func() []string) {
		dealt := all
		if !*everyEngine {
			dealt = everyThird(all, turn)
		}
		turn++
		playThese(t, dealt, store)
	})
}

// everyThird returns every third transcript, beginning with the index first.
func everyThird(all []*dialogue.Transcript, first int) (some []*dialogue.Transcript) {
	for i := first; i < len(all); i += 3 {
		some = append(some, all[i])
	}
	return some
}

// playOn plays the transcripts of a folder on the program, on stores.
func playOn(t *testing.T, folder string, store func() []string) {
	all, err := dialogue.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	playThese(t, all, store)
}

func playThese(t *testing.T, all []*dialogue.Transcript, store func() []string) {
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			play(t, tr, store)
		})
	}
}

// TestWaitsThatEndWhenDue plays some transcripts many times, since their failure depends on
// whether a wait is answered before or after its end.
func TestWaitsThatEndWhenDue(t *testing.T) {
	atLength(t)
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
	log, plays := "", 0
	err := dialogue.PlayInTime(ctx, tr, func() (dialogue.Target, func(), error) {
		srv, err := dialogue.Start("redstalk", binary, t.TempDir(), append(store(), tr.Flags()...)...)
		if err != nil {
			return dialogue.Target{}, nil, err
		}
		target := srv.Target()
		if target.Slack = transcriptSlack; plays > 0 {
			target.Slack = busy.Times(transcriptSlack)
		}
		plays++
		return target, func() { srv.Stop(); log = srv.Log() }, nil
	})
	if err != nil {
		t.Errorf("%v\nthe server said: %s", err, log)
	}
}
