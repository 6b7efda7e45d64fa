package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"redstalk/clients/go/client"
)

// A Job is what a handler gets.
type Job struct {
	ID   uint64
	Tube string
	Body []byte

	// Meta are the headers of the put, and Reason is why the job failed last time; both empty with servers that do not
	// send them with the job.
	Meta   map[string]string
	Reason string

	holder holder
	result []byte // nil: none
	parsed func() content
}

// A holder keeps a job while its handler runs: a worker, by a lease, or a [TestJob].
type holder interface {
	stopping() <-chan struct{}
	stats(ctx context.Context) (*client.Stats, error)
	known() *client.Stats
	token() string
	deadline() time.Time
	saveCheckpoint(ctx context.Context, data []byte) error
	lastCheckpoint() ([]byte, error)
	showProgress(text string)
	limitTime(limit time.Duration)
}

func newJob(id uint64, tube string, body []byte, known *client.Stats, by holder) *Job {
	job := &Job{ID: id, Tube: tube, Body: body, holder: by}
	job.parsed = sync.OnceValue(func() content { return parse(job.Body) })
	if known != nil {
		job.Meta, job.Reason = known.Meta, known.Reason
	}
	return job
}

// Result sets the result of the job, up to [client.MaxResult] bytes. If its handler returns nil, the job is finished with it, for
// those who wait for its end; without [client.Keep] it is deleted, as always. A longer result is an error, and changes nothing.
func (j *Job) Result(result []byte) error {
	if len(result) > client.MaxResult {
		return fmt.Errorf("a result of %d bytes: %w", len(result), client.ErrTooBig)
	}
	j.result = append([]byte{}, result...)
	return nil
}

// Info returns more about the job: deliveries, failures, priority, TTR, key and so on. Servers that do not
// send it with the job are asked for it, the first time.
func (j *Job) Info(ctx context.Context) (*client.Stats, error) { return j.holder.stats(ctx) }

// Known returns what the server has said about the job so far, without asking; nil if nothing.
func (j *Job) Known() *client.Stats { return j.holder.known() }

// Token returns the lease of the job, which is larger with each delivery, also as text. So a service can
// refuse a worker that comes too late (fencing). It is empty with beanstalkd.
func (j *Job) Token() string { return j.holder.token() }

// Deadline returns when the lease ends unless it is extended before, which the worker does while the
// handler runs. It is zero as long as the TTR is not known.
func (j *Job) Deadline() time.Time { return j.holder.deadline() }
