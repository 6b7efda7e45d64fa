package worker

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"redstalk/clients/go/client"
)

// A TestJob is a job without a server, for unit tests of handlers:
//
//	test := worker.NewTestJob(client.TypedJob("mails", "welcome", Welcome{"ada@example.com"}))
//	err := worker.Typed(welcome)(t.Context(), test.Job)
//
// A second call of the handler is a second delivery: it finds the checkpoint of the first. To try what a handler does without its lease, give it a context
// whose cause is [ErrLeaseLost]: its checkpoints fail then.
type TestJob struct {
	Job   *Job          // for the handler. Change its ID, Meta or Reason before
	Stats *client.Stats // what [Job.Info] and [Job.Known] return

	stop     chan struct{}
	stopOnce sync.Once

	mu         sync.Mutex
	checkpoint []byte
	progress   []string
	timeout    time.Duration
}

// NewTestJob returns the first delivery of a job. It panics if the job could not be put, as with an invalid key.
func NewTestJob(job client.NewJob) *TestJob {
	stats, err := job.Stats()
	if err != nil {
		panic(fmt.Sprintf("worker.NewTestJob: %v", err))
	}
	stats.ID = 1
	t := &TestJob{Stats: stats, stop: make(chan struct{})}
	t.Job = newJob(stats.ID, job.Tube, job.Body, stats, t)
	return t
}

// Stop closes [Job.Stopping], as a worker does when it is told to stop.
func (t *TestJob) Stop() { t.stopOnce.Do(func() { close(t.stop) }) }

// Result returns what the handler has set by [Job.Result]; nil: nothing.
func (t *TestJob) Result() []byte { return t.Job.result }

// Checkpoint returns what was saved last by [Job.Checkpoint], as JSON; nil: nothing.
func (t *TestJob) Checkpoint() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.checkpoint)
}

// Progress returns all that the handler has said by [Job.Progress].
func (t *TestJob) Progress() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.progress)
}

// Timeout returns what the handler has set by [Job.SetTimeout], which does not end its context; 0: nothing.
func (t *TestJob) Timeout() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.timeout
}

func (t *TestJob) stopping() <-chan struct{}                    { return t.stop }
func (t *TestJob) stats(context.Context) (*client.Stats, error) { return t.Stats, nil }
func (t *TestJob) known() *client.Stats                         { return t.Stats }
func (t *TestJob) token() string                                { return fmt.Sprintf("%020d", t.Stats.Deliveries) }
func (t *TestJob) deadline() time.Time                          { return time.Now().Add(t.Stats.TTR) }
func (t *TestJob) lastCheckpoint() ([]byte, error)              { return t.Checkpoint(), nil }

func (t *TestJob) saveCheckpoint(ctx context.Context, data []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(data) > client.MaxCheckpoint {
		return fmt.Errorf("%d bytes: %w", len(data), client.ErrTooBig)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkpoint = bytes.Clone(data)
	return nil
}

func (t *TestJob) showProgress(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress = append(t.progress, text)
}

func (t *TestJob) limitTime(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timeout = limit
}
