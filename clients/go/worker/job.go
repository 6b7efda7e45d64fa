package worker

import (
	"context"
	"encoding/json"
	"fmt"
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

	lease  *lease
	result []byte // nil: none
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

// Reply makes a handler of a function whose argument is the body of the job, and whose value becomes its result, both as JSON: the
// other end is [client.Call]. A body that it cannot read is skipped.
func Reply[In, Out any](f func(ctx context.Context, in In) (Out, error)) Handler {
	return func(ctx context.Context, job *Job) error {
		var in In
		if err := json.Unmarshal(job.Body, &in); err != nil {
			return Skip(err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return err
		}
		result, err := json.Marshal(out)
		if err != nil {
			return err
		}
		return job.Result(result)
	}
}

// Info returns more about the job: deliveries, failures, priority, TTR, key and so on. Servers that do not
// send it with the job are asked for it, the first time.
func (j *Job) Info(ctx context.Context) (*client.Stats, error) { return j.lease.job.Stats(ctx) }

// Known returns what the server has said about the job so far, without asking; nil if nothing.
func (j *Job) Known() *client.Stats { return j.lease.job.Known() }

// Token returns the lease of the job, which is larger with each delivery, also as text. So a service can
// refuse a worker that comes too late (fencing). It is empty with beanstalkd.
func (j *Job) Token() string { return j.lease.job.Lease }

// Deadline returns when the lease ends unless it is extended before, which the worker does while the
// handler runs. It is zero as long as the TTR is not known.
func (j *Job) Deadline() time.Time { return j.lease.deadline() }
