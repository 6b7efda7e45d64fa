package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/inspect"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

func nothing(context.Context, *worker.Job) error { return nil }

func every(d time.Duration, job client.NewJob) worker.Periodic {
	return worker.Periodic{When: client.Schedule{Every: d}, Job: job}
}

// TestPeriodic: workers set their schedules when they start, and get the jobs. One that starts again changes nothing.
func TestPeriodic(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		got := make(chan *worker.Job, 100)
		mux := worker.NewMux()
		mux.HandleType("reports", "daily", worker.Typed(func(ctx context.Context, job *worker.Job, day int) error {
			got <- job
			return nil
		}))
		schedules := map[string]worker.Periodic{
			"often":  every(time.Second, client.TypedJob("reports", "daily", 7, client.Meta("request", "4711"))),
			"seldom": every(time.Hour, client.TypedJob("reports", "daily", 7)),
		}
		if !on.Leases() {
			if err := worker.New(c, worker.Config{Schedules: schedules}).Run(t.Context(), mux); !errors.Is(err, client.ErrUnsupported) {
				t.Error(err)
			}
			return
		}
		stop := start(t, c, worker.Config{Schedules: schedules}, mux)
		if job := receive(t, got, "a job"); job.Known().Schedule != "often" || job.Meta["request"] != "4711" || job.Meta["content-type"] != "application/json" {
			t.Errorf("%+v", job.Known())
		}
		before, err := inspect.New(c).Schedule(t.Context(), "seldom")
		if err != nil {
			t.Fatal(err)
		}
		stop()
		delete(schedules, "often")
		start(t, c, worker.Config{Schedules: schedules}, mux)
		receive(t, got, "another job of a schedule that was removed from the program")
		if after, err := inspect.New(c).Schedule(t.Context(), "seldom"); err != nil || *after != *before {
			t.Errorf("%+v, before %+v, %v", after, before, err)
		}
	})
}

// TestPeriodicRefused: a schedule that the server refuses ends the worker with an error that names it.
func TestPeriodicRefused(t *testing.T) {
	c := client.New(testserver.Memory(t).Addr())
	defer c.Close()
	job := client.TypedJob("reports", "daily", nil)
	for want, p := range map[string]worker.Periodic{
		"tube": {When: client.Schedule{Tube: "x", Every: time.Hour}, Job: job}, "invalid argument": {When: client.Schedule{Cron: "61 * * * *"}, Job: job},
		"BAD_FORMAT": {Job: job}, "unsupported type: chan int": every(time.Hour, client.TypedJob("reports", "daily", make(chan int))), `tube ""`: every(time.Hour, client.NewJob{}),
	} {
		err := worker.New(c, worker.Config{Schedules: map[string]worker.Periodic{"wrong": p}}).Run(t.Context(), handle("reports", nothing))
		if err == nil || !strings.Contains(err.Error(), "schedule wrong: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	forbidden := client.New(redstalktest.Start(t, "--access", workersOnly(t)).Addr, client.Auth("worker", "open sesame"))
	defer forbidden.Close()
	config := worker.Config{Schedules: map[string]worker.Periodic{"forbidden": every(time.Hour, job)}}
	if err := worker.New(forbidden, config).Run(t.Context(), handle("reports", nothing)); !errors.Is(err, client.ErrForbidden) {
		t.Error(err)
	}
}

// workersOnly returns the path of a file with a user that can only put and work.
func workersOnly(t *testing.T) string {
	program, err := redstalktest.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "secret", "--cost", "4")
	cmd.Stdin = strings.NewReader("open sesame\n")
	hash, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "access")
	text := fmt.Sprintf("users:\n  - name: worker\n    secrets: ['%s']\n    rights:\n      - tubes: [reports]\n        may: [put, work]\n", strings.TrimSpace(string(hash)))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPeriodicLater: a schedule is set when there is a server.
func TestPeriodicLater(t *testing.T) {
	addr := testserver.FreeAddr(t)
	c := client.New(addr, client.Wait(50*time.Millisecond))
	defer c.Close()
	got := make(chan bool, 100)
	config := worker.Config{Schedules: map[string]worker.Periodic{"often": every(time.Second, client.NewJob{Tube: "reports"})}}
	start(t, c, config, handle("reports", func(context.Context, *worker.Job) error {
		got <- true
		return nil
	}))
	time.Sleep(200 * time.Millisecond)
	_, port, _ := strings.Cut(addr, ":")
	redstalktest.Start(t, "-p", port)
	receive(t, got, "a job")
}
