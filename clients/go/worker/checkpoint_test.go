package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// onCheckpoints runs a test with a client on each kind of server that saves checkpoints.
func onCheckpoints(t *testing.T, test func(t *testing.T, c *client.Client, on *testserver.Cluster)) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		if !on.Leases() {
			t.Skip("beanstalkd has no checkpoints")
		}
		test(t, c, on)
	})
}

// A place is a checkpoint of the handlers here.
type place struct{ Row int }

// TestCheckpoint: the next delivery goes on from the last checkpoint, also after a failure, and the one that was saved is seen at once.
func TestCheckpoint(t *testing.T) {
	onCheckpoints(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		seen := make(chan string, 10)
		h := func(ctx context.Context, job *worker.Job) error {
			var at place
			found, err := job.LastCheckpoint(&at)
			seen <- fmt.Sprint(found, at.Row, err)
			if at.Row == 2 {
				return job.Checkpoint(ctx, nil)
			}
			if err := job.Checkpoint(ctx, place{at.Row + 1}); err != nil {
				return err
			}
			if found, err := job.LastCheckpoint(&at); !found || err != nil {
				t.Errorf("the checkpoint that was saved: %v, %v", found, err)
			}
			return fmt.Errorf("at row %d", at.Row)
		}
		id := put(t, c, "rows", "x", client.Retry(0, 0, 0))
		start(t, c, worker.Config{}, handle("rows", h))
		for _, want := range []string{"false 0 <nil>", "true 1 <nil>", "true 2 <nil>"} {
			if got := receive(t, seen, "the job"); got != want {
				t.Errorf("the checkpoint is %s, want %s", got, want)
			}
		}
		awaitState(t, c, id, "")
	})
}

// TestCheckpointOfLostJob: a holder whose job is no longer its own saves nothing, and its context ends at once.
func TestCheckpointOfLostJob(t *testing.T) {
	onCheckpoints(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		consumer := c.Consume("lost")
		defer consumer.Close()
		started, deleted, ended := make(chan *worker.Job, 1), make(chan struct{}), make(chan error, 2)
		stop := start(t, c, worker.Config{}, handle("lost", func(ctx context.Context, job *worker.Job) error {
			started <- job
			<-deleted
			ended <- job.Checkpoint(ctx, place{1})
			ended <- context.Cause(ctx)
			return nil
		}))
		put(t, c, "lost", "x", client.Key("k")) // its TTR is a minute, so no heartbeat notices
		receive(t, started, "the job")
		if err := c.DeleteKey(t.Context(), "lost", "k"); err != nil {
			t.Fatal(err)
		}
		close(deleted)
		for range 2 {
			if err := receive(t, ended, "the checkpoint"); !errors.Is(err, worker.ErrDeleted) {
				t.Errorf("%v, want ErrDeleted", err)
			}
		}
		stop()

		id := put(t, c, "lost", "x", client.TTR(time.Second))
		first := reserve(t, consumer)
		if err := first.Checkpoint(t.Context(), []byte("1")); err != nil {
			t.Fatal(err)
		}
		second := reserve(t, consumer) // after the TTR of the first
		err := first.Checkpoint(t.Context(), []byte("2"))
		if data, found := second.LastCheckpoint(t.Context()); !errors.Is(err, client.ErrNotFound) || string(data) != "1" || second.ID != id {
			t.Errorf("the late checkpoint: %v; the second holder sees %q, %v", err, data, found)
		}
	})
}

func reserve(t *testing.T, from *client.Consumer) *client.Job {
	t.Helper()
	job, err := from.Reserve(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// TestSoftStop: SIGTERM tells a handler to stop. It saves, and another worker goes on from there within a second. That is no failure.
func TestSoftStop(t *testing.T) {
	for name, engine := range map[string]func(testing.TB) *testserver.Cluster{"memory": testserver.Memory, "embedded": testserver.Embedded} {
		t.Run(name, func(t *testing.T) { softStop(t, engine(t)) })
	}
}

func softStop(t *testing.T, on *testserver.Cluster) {
	c := client.New(on.Addr())
	t.Cleanup(func() { c.Close() })
	begun, result := make(chan struct{}), make(chan error, 1)
	id := put(t, c, "deploy", "x", client.Retry(time.Hour))
	go func() {
		result <- worker.New(c, worker.Config{}).Run(context.Background(), handle("deploy", func(ctx context.Context, job *worker.Job) error {
			close(begun)
			<-job.Stopping()
			if err := job.Checkpoint(ctx, place{4711}); err != nil {
				return err
			}
			return fmt.Errorf("deployed: %w", worker.ErrNotFinished)
		}))
	}()
	receive(t, begun, "the handler")
	next := make(chan string, 1)
	start(t, c, worker.Config{}, handle("deploy", func(ctx context.Context, job *worker.Job) error {
		var at place
		found, err := job.LastCheckpoint(&at)
		s, _ := job.Info(ctx)
		next <- fmt.Sprint(found, at.Row, err, s.Failures, s.Reason)
		return nil
	}))
	stopped := time.Now()
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	if got := receive(t, next, "the job again"); got != "true 4711 <nil> 0" {
		t.Errorf("the next worker sees %s", got)
	}
	if took := time.Since(stopped); took > 3*time.Second { // on a busy machine
		t.Errorf("that took %v", took)
	}
	if err := receive(t, result, "the end of the worker"); err != nil {
		t.Error(err)
	}
	awaitState(t, c, id, "")
}

// TestCheckpointOfDeadServer: a checkpoint that was saved is there when the server was killed and started again, for whoever has the job then.
func TestCheckpointOfDeadServer(t *testing.T) {
	t.Parallel()
	on := testserver.Embedded(t)
	c := client.New(on.Addr())
	t.Cleanup(func() { c.Close() })
	consumer := c.Consume("dead")
	defer consumer.Close()
	big := strings.Repeat("x", client.MaxCheckpoint)
	small, long := put(t, c, "dead", "small", client.TTR(2*time.Second)), put(t, c, "dead", "long", client.TTR(2*time.Second))
	for data := range strings.SplitSeq("1,"+big, ",") {
		if err := reserve(t, consumer).Checkpoint(t.Context(), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	on.Servers[0].Kill()
	on.Restart(t, 0)
	for range 2 {
		job := reserve(t, consumer)
		want := map[uint64]string{small: "1", long: big}[job.ID]
		if data, err := job.LastCheckpoint(t.Context()); string(data) != want || err != nil {
			t.Errorf("job %d has %d bytes, %v", job.ID, len(data), err)
		}
	}
}

// TestKilledWorker: another worker goes on from the last checkpoint of a process that was killed.
func TestKilledWorker(t *testing.T) {
	if addr := os.Getenv("REDSTALK_KILLED_WORKER"); addr != "" {
		countForever(t, addr)
	}
	on := testserver.Embedded(t)
	c := client.New(on.Addr())
	t.Cleanup(func() { c.Close() })
	id := put(t, c, "killed", "x", client.TTR(time.Second))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	process := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledWorker$")
	process.Env = append(os.Environ(), "REDSTALK_KILLED_WORKER="+on.Addr())
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	saved := place{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Sscanf(lines.Text(), "saved %d", &saved.Row)
		if saved.Row == 100 {
			process.Process.Kill()
		}
	}
	process.Wait()
	next := make(chan place, 1)
	start(t, c, worker.Config{}, handle("killed", func(ctx context.Context, job *worker.Job) (err error) {
		var at place
		_, err = job.LastCheckpoint(&at)
		next <- at
		return err
	}))
	if at := receive(t, next, "the job again"); saved.Row < 100 || at.Row != saved.Row && at.Row != saved.Row+1 {
		t.Errorf("from row %d, after %d was saved", at.Row, saved.Row)
	}
	awaitState(t, c, id, "")
}

// countForever is the worker that is killed.
func countForever(t *testing.T, addr string) {
	err := worker.New(client.New(addr), worker.Config{}).Run(context.Background(), handle("killed", func(ctx context.Context, job *worker.Job) error {
		for n := 1; ; n++ {
			if err := job.Checkpoint(ctx, place{n}); err != nil {
				return err
			}
			fmt.Println("saved", n)
		}
	}))
	t.Fatal(err)
}

// TestProgress: the last text is shown a second after the one before, however many there are in between.
func TestProgress(t *testing.T) {
	onCheckpoints(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		finish := make(chan struct{})
		begin := time.Now()
		id := put(t, c, "progress", "x")
		start(t, c, worker.Config{}, handle("progress", func(ctx context.Context, job *worker.Job) error {
			job.Progress("begun")
			awaitProgress(t, c, job.ID, "begun")
			for n := range 10_000 {
				job.Progress(fmt.Sprintf("%d/10000 %s", n, strings.Repeat("ä", 200)))
			}
			job.Progress("10000/10000 \"rows\"")
			<-finish
			job.Progress("failed at the end")
			return errors.New("failed")
		}))
		awaitProgress(t, c, id, "10000/10000 \"rows\"")
		if took := time.Since(begin); took < time.Second {
			t.Errorf("two texts were sent within %v", took)
		}
		close(finish)
		if s := awaitState(t, c, id, "delayed"); s.Progress != "failed at the end" {
			t.Errorf("a job that has failed shows %q", s.Progress)
		}
	})
}

func awaitProgress(t *testing.T, c *client.Client, id uint64, want string) {
	t.Helper()
	var s *client.Stats
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if s, _ = c.JobStats(t.Context(), id); s != nil && s.Progress == want {
			return
		}
	}
	t.Errorf("the progress is %+v, want %q", s, want)
}

// TestCheckpointRefused: what cannot be saved is an error that says why, and the job goes on.
func TestCheckpointRefused(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		want := client.ErrTooBig
		checkpoint := strings.Repeat("x", client.MaxCheckpoint)
		if !on.Leases() {
			want, checkpoint = client.ErrUnsupported, "x"
		}
		id := put(t, c, "refused", "x")
		start(t, c, worker.Config{Logger: slog.New(slog.DiscardHandler)}, handle("refused", func(ctx context.Context, job *worker.Job) error {
			job.Progress("1%")
			if found, err := job.LastCheckpoint(new(string)); found || err != nil {
				t.Errorf("a checkpoint before the first: %v, %v", found, err)
			}
			if err := job.Checkpoint(ctx, checkpoint); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "checkpoint: ") {
				t.Errorf("%v, want %v", err, want)
			}
			if err := job.Checkpoint(ctx, func() {}); err == nil {
				t.Error("a checkpoint that is no JSON")
			}
			return ctx.Err()
		}))
		awaitState(t, c, id, "")
	})
}
