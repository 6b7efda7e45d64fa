package schedule

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// reporter is a store that says that its clock was set back.
type reporter struct {
	storage.Store
	storage.Listener
}

func (r *reporter) Listen(l storage.Listener) {
	r.Listener = l
	r.Store.Listen(l)
}

// setBackTest is a schedule at the third minute of each hour that has had its times up to some time in the future.
type setBackTest struct {
	*harness
	store *reporter
	log   *bytes.Buffer
}

func withSetBack(t *testing.T, last time.Duration, paused bool, test func(*setBackTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &setBackTest{store: &reporter{Store: embedded.NewMemory()}, log: new(bytes.Buffer)}
		q := queue.New(h.store, queue.Config{Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		h.harness = &harness{T: t, Service: New(q, slog.New(slog.NewTextHandler(h.log, nil))), ctx: ctx, q: q}
		now := tube.Instant(time.Now().UnixNano()) // midnight
		had := now.Plus(last)
		record := &tube.Schedule{Name: "s", Version: 1, Tube: "t", TTR: 60, Body: []byte("body"), Timing: tube.Timing{Cron: "3 * * * *"},
			Paused: paused, Begin: now.Plus(-time.Hour), Last: had, Next: had.Plus(time.Hour), Due: had.Plus(time.Hour)}
		if paused {
			record.Due = tube.Never
		}
		if _, err := q.Do(ctx, storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Schedule: record}}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { h.Service.Run(ctx); close(ended) }()
		test(h)
		cancel()
		<-ended
		q.Close(context.Background())
		h.store.Close()
	})
}

// after checks how many jobs there were, when that time has passed.
func (h *setBackTest) after(d time.Duration, want uint64) {
	h.Helper()
	for h.wait(0); d > 0; d -= time.Minute {
		h.wait(time.Minute)
		if j := h.take(); j != nil {
			h.remove(j)
			want--
		}
	}
	if want != 0 {
		h.Errorf("%d jobs too few", int64(want))
	}
}

// logged checks how many lines about the clock are in the log, and that a word is in it.
func (h *setBackTest) logged(lines int, word string) {
	h.Helper()
	if text := h.log.String(); strings.Count(text, "clock of the store was set back") != lines || !strings.Contains(text, word) {
		h.Errorf("want %d lines and %q in the log: %s", lines, word, text)
	}
}

const threeMinutes = 3 * time.Minute

// TestSetBackBeforeStart: a schedule that has had times of the future goes on from now if they are three hours away,
// else after them.
func TestSetBackBeforeStart(t *testing.T) {
	withSetBack(t, 7*24*time.Hour+threeMinutes, false, func(h *setBackTest) {
		h.after(2*time.Hour, 2)
		h.logged(1, "go on from now")
	})
	withSetBack(t, 2*time.Hour+threeMinutes, false, func(h *setBackTest) {
		h.after(3*time.Hour, 0)
		h.after(time.Hour, 1)
		h.logged(1, "no time is put twice")
	})
}

// TestSetBackWhileRunning: the store says how large the step is, which the record cannot. Parts of a store say it all.
func TestSetBackWhileRunning(t *testing.T) {
	for by, want := range map[time.Duration]uint64{5 * time.Hour: 2, 3*time.Hour - time.Second: 2, 2 * time.Hour: 1} {
		withSetBack(t, threeMinutes, false, func(h *setBackTest) {
			h.after(0, 0)
			for range 16 {
				h.store.ClockSetBack(by)
			}
			h.after(2*time.Hour, want)
			h.logged(2, fmt.Sprint("by=", by)) // one about the record at the start
		})
	}
}

// TestSetBackSetAndResume: to set a schedule, or to end its pause, lets it go on from now. A pause stays one.
func TestSetBackSetAndResume(t *testing.T) {
	withSetBack(t, 48*time.Hour+threeMinutes, true, func(h *setBackTest) {
		h.after(2*time.Hour, 0)
		if err := h.Resume(h.ctx, "s", nil); err != nil {
			t.Fatal(err)
		}
		h.after(2*time.Hour, 2)
	})
	now := instant(t, "2026-03-01 10:00:00")
	old := begun(t, tube.Schedule{Timing: tube.Timing{Every: time.Hour}}, now.Plus(48*time.Hour))
	set := *old
	for at, want := range map[tube.Instant]time.Duration{now: time.Hour, now.Plus(46 * time.Hour): 3 * time.Hour} {
		if record, err := replace(old, &set, at); err != nil || record.Due != at.Plus(want) || record.Next != record.Due {
			t.Errorf("set at %v: %+v, %v", at, record, err)
		}
	}
	if _, err := goOnIfAhead(old, now); err != nil || old.Due != now.Plus(time.Hour) {
		t.Errorf("%+v, %v", old, err)
	}
}
