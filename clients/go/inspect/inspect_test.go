package inspect_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/inspect"
	"redstalk/clients/go/internal/testserver"
)

func TestInspect(t *testing.T) {
	for name, start := range testserver.Engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := start(t)
			c := client.New(on.Addr())
			defer c.Close()
			testTubes(t, c)
			if on.Leases() {
				testJobs(t, c)
				testPolicies(t, c)
				testGroups(t, c)
				testSchedules(t, c)
				testCheckpoints(t, c)
			} else {
				_, err := inspect.New(c).Flush(t.Context(), "a", "")
				wantUnsupported(t, err, "flush-tube")
				for _, err := range inspect.New(c).Jobs(t.Context(), "a", inspect.Ready) {
					wantUnsupported(t, err, "list-jobs")
				}
			}
		})
	}
}

func wantUnsupported(t *testing.T, err error, feature string) {
	t.Helper()
	var unsupported *client.UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.Feature != feature {
		t.Errorf("%v, want %s", err, feature)
	}
}

func put(t *testing.T, c *client.Client, tube string, opts ...client.PutOption) uint64 {
	t.Helper()
	r, err := c.Put(t.Context(), tube, []byte("body"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func testTubes(t *testing.T, c *client.Client) {
	in, ctx := inspect.New(c), t.Context()
	ready := put(t, c, "tubes")
	put(t, c, "tubes", client.Delay(time.Hour))
	if err := in.Pause(ctx, "tubes", 90*time.Second); err != nil {
		t.Error(err)
	}
	tube, err := in.Tube(ctx, "tubes")
	if err != nil || tube.Name != "tubes" || tube.Ready != 1 || tube.Delayed != 1 || tube.Total != 2 || tube.PauseLeft < 80*time.Second {
		t.Errorf("%+v, %v", tube, err)
	}
	if n, err := in.Kick(ctx, "tubes", 10); err != nil || n != 1 {
		t.Errorf("kicked %d, %v", n, err)
	}
	if err := in.Delete(ctx, ready); err != nil {
		t.Error(err)
	}
	if err := in.KickJob(ctx, ready); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
	if _, err = in.Tube(ctx, "none"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
	if s, err := in.Server(ctx); err != nil || s["current-jobs-ready"] != "1" {
		t.Errorf("%v, %v", s, err)
	}
}

func testJobs(t *testing.T, c *client.Client) {
	in, ctx := inspect.New(c), t.Context()
	for range 700 {
		put(t, c, "jobs")
	}
	last := put(t, c, "jobs", client.Key(`a",b:{}`), client.TTR(7*time.Second), client.Delay(time.Hour))
	if err := errors.Join(in.SetPriority(ctx, last, 9), in.Reschedule(ctx, last, 90*time.Minute)); err != nil {
		t.Error(err)
	}
	for job, err := range in.Jobs(ctx, "jobs", inspect.Delayed) {
		if err != nil || job.ID != last || job.Key != `a",b:{}` || job.TTR != 7*time.Second || job.Size != 4 || job.Priority != 9 || job.Due < 80*time.Minute {
			t.Errorf("%+v, %v", job, err)
		}
	}
	ids := map[uint64]bool{}
	for job, err := range in.Jobs(ctx, "jobs", inspect.Ready) {
		if ids[job.ID] = true; err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 700 {
		t.Errorf("%d jobs", len(ids))
	}
	if n, err := in.Move(ctx, "jobs", inspect.Ready, "others", 100); err != nil || n != 100 {
		t.Errorf("moved %d, %v", n, err)
	}
	if err := in.Replay(ctx, last); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("replaying a job that has not failed: %v", err)
	}
	if n, err := in.Flush(ctx, "jobs", inspect.Ready); err != nil || n != 600 {
		t.Errorf("flushed %d, %v", n, err)
	}
}

// testCheckpoints: lists show the progress and the checkpoint of a job. A kick or replay drops the checkpoint unless told otherwise.
func testCheckpoints(t *testing.T, c *client.Client) {
	in, ctx := inspect.New(c), t.Context()
	id := put(t, c, "saved")
	from := c.Consume("saved")
	defer from.Close()
	kicks := map[bool]func(...inspect.KickOption) error{
		true: func(opts ...inspect.KickOption) error { return in.KickJob(ctx, id, opts...) },
		false: func(opts ...inspect.KickOption) error {
			_, err := in.Kick(ctx, "saved", 1, opts...)
			return err
		},
	}
	for single, kick := range kicks {
		job, err := from.Reserve(ctx, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(job.Checkpoint(ctx, []byte("row 7")), job.TouchProgress(ctx, "7/\x00\"8\"")); err != nil {
			t.Fatal(err)
		}
		for listed, err := range in.Jobs(ctx, "saved", inspect.Reserved) {
			if listed.Progress != `7/"8"` || listed.Checkpoint != 5 || err != nil {
				t.Errorf("%+v, %v", listed, err)
			}
		}
		if s, err := in.Job(ctx, id); err != nil || s.Progress != `7/"8"` || s.CheckpointBytes != 5 {
			t.Errorf("%+v, %v", s, err)
		}
		if err := errors.Join(job.Bury(ctx), kick(inspect.KeepCheckpoint)); err != nil {
			t.Error(err)
		}
		if data, err := c.GetCheckpoint(ctx, id); string(data) != "row 7" || err != nil {
			t.Errorf("single %v: %q, %v", single, data, err)
		}
		if job, err = from.Reserve(ctx, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(job.Bury(ctx), kick()); err != nil {
			t.Error(err)
		}
		if _, err := c.GetCheckpoint(ctx, id); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("single %v: %v", single, err)
		}
	}
}

func testPolicies(t *testing.T, c *client.Client) {
	in, ctx := inspect.New(c), t.Context()
	want := inspect.Policy{"retry": "10s,1m", "dead": "failed"}
	if err := in.SetPolicy(ctx, "mails", want); err != nil {
		t.Fatal(err)
	}
	if got, err := in.Policy(ctx, "mails"); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if names, err := in.Policies(ctx); err != nil || len(names) != 1 || names[0] != "mails" {
		t.Errorf("%v, %v", names, err)
	}
	if err := in.SetPolicy(ctx, "mails", inspect.Policy{"no-such": "1"}); !errors.Is(err, client.ErrInvalid) {
		t.Error(err)
	}
	if err := in.SetPolicy(ctx, "mails", nil); err != nil {
		t.Error(err)
	}
	if _, err := in.Policy(ctx, "mails"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}

func testGroups(t *testing.T, c *client.Client) {
	in, ctx := inspect.New(c), t.Context()
	const name = `a "b"`
	for range 3 {
		put(t, c, "groups", client.Group(name))
	}
	if err := in.SetGroup(ctx, "groups", name, inspect.GroupLimits{Concurrency: 2, Rate: "100/m", Weight: 3, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	want := inspect.Group{Name: name, Ready: 3, Concurrency: 2, Rate: "100/m", Weight: 3}
	if g, err := in.Group(ctx, "groups", name); err != nil || *g != want {
		t.Errorf("%+v, %v", g, err)
	}
	if err := in.PauseGroup(ctx, "groups", name, time.Hour); err != nil {
		t.Error(err)
	}
	n := 0
	for g, err := range in.Groups(ctx, "groups") {
		if n++; err != nil || g.Name != name || g.Held != "paused" || g.PauseLeft < 59*time.Minute {
			t.Errorf("%+v, %v", g, err)
		}
	}
	for job, err := range in.Jobs(ctx, "groups", inspect.Ready) {
		if err != nil || job.Group != name || job.Held != "paused" {
			t.Errorf("%+v, %v", job, err)
		}
	}
	if err := in.PauseGroup(ctx, "groups", name, 0); err != nil {
		t.Error(err)
	}
	if err := in.ResetGroup(ctx, "groups", name); err != nil {
		t.Error(err)
	}
	if n, err := in.FlushGroup(ctx, "groups", name); err != nil || n != 3 {
		t.Errorf("flushed %d, %v", n, err)
	}
	if _, err := in.Group(ctx, "groups", name); n != 1 || !errors.Is(err, client.ErrNotFound) {
		t.Errorf("%d groups, and then %v", n, err)
	}
}

func testSchedules(t *testing.T, c *client.Client) {
	in, ctx := inspect.New(c), t.Context()
	set := client.Schedule{
		Tube: "reports", Cron: "30 2 * * 1-5", Zone: "Asia/Kolkata", From: time.UnixMilli(1), Until: time.Now().Add(time.Hour * 24 * 365), Spread: 1500 * time.Millisecond,
		Overlap: client.BufferOne, CatchUp: 2 * time.Hour, CatchUpAll: 3,
	}
	options := []client.PutOption{client.Priority(5), client.TTR(2 * time.Minute), client.Delay(0), client.Meta("a", "b \"c\""), client.Retry(time.Minute), client.Key("k")}
	for range 2 {
		if err := c.SetSchedule(ctx, "nightly", set, []byte("all"), options...); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetSchedule(ctx, "rare", client.Schedule{Tube: "reports", Every: 36 * time.Hour}, nil); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []client.Schedule{{Tube: "reports", Cron: "61 * * * *"}, {Tube: "reports", Cron: "@daily", Zone: "Nowhere"}, {Tube: "a b", Every: time.Hour}, {Tube: "reports"}} {
		if err := c.SetSchedule(ctx, "wrong", wrong, nil); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	times, err := in.NextTimes(ctx, "nightly", 2)
	if err != nil || len(times) != 2 || times[0].UTC().Format("15:04") != "21:00" {
		t.Errorf("%v, %v", times, err)
	}
	if times, err := in.NextTimesOf(ctx, "@daily", "", 1); err != nil || len(times) != 1 || times[0].UTC().Format("15:04") != "00:00" {
		t.Errorf("%v, %v", times, err)
	}
	put, err := c.RunSchedule(ctx, "nightly")
	if err != nil || put.State != "" {
		t.Fatalf("%+v, %v", put, err)
	}
	id := put.ID
	if again, err := c.RunSchedule(ctx, "nightly"); err != nil || again.State != "READY" || again.ID != id {
		t.Errorf("%+v, %v", again, err)
	}
	stats, err := c.JobStats(ctx, id)
	if err != nil || stats.Schedule != "nightly" || stats.Key != "k" || stats.Meta["a"] != "b \"c\"" || time.Since(stats.Nominal).Abs() > time.Minute || stats.TTR != 2*time.Minute {
		t.Errorf("%+v, %v", stats, err)
	}
	s, err := in.Schedule(ctx, "nightly")
	if err != nil || s.Zone != "Asia/Kolkata" || s.Put != 1 || s.Overlapped != 1 || s.LastResult != "overlapped" || s.LastID != id || !s.Next.Equal(times[0]) || s.Due.Sub(s.Next) > 1500*time.Millisecond {
		t.Errorf("%+v, %v", s, err)
	}
	changeSchedules(t, in)
}

// changeSchedules pauses, resumes, lists and deletes schedules.
func changeSchedules(t *testing.T, in *inspect.Inspector) {
	ctx := t.Context()
	if err := in.PauseSchedule(ctx, "rare"); err != nil {
		t.Error(err)
	}
	var names []string
	for s, err := range in.Schedules(ctx) {
		if names = append(names, s.Name); err != nil || s.Paused != (s.Name == "rare") || s.Name == "rare" && s.Every != 36*time.Hour {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if err := in.ResumeSchedule(ctx, "rare"); err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
	for _, name := range names {
		if err := in.DeleteSchedule(ctx, name); err != nil {
			t.Error(err)
		}
		if err := in.DeleteSchedule(ctx, name); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
	}
}
