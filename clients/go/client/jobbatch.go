package client

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A JobBatch is a set of jobs, its members, after which other jobs run. It can have members in any tubes, put by any
// program; its name is all that they need to know.
type JobBatch struct {
	client *Client
	name   string
}

// Batch returns the batch with a name: 1 to 100 printable ASCII characters without spaces. The first put or seal
// creates it on the server; [ErrInvalid] of those calls says that the name is invalid.
func (c *Client) Batch(name string) *JobBatch { return &JobBatch{c, name} }

// Name returns the name of the batch.
func (b *JobBatch) Name() string { return b.name }

// Add puts a job that is a member: [Client.Put] with [Member]. It fails with [ErrBatchSealed] after [JobBatch.Seal].
func (b *JobBatch) Add(ctx context.Context, tube string, body []byte, opts ...PutOption) (Receipt, error) {
	return b.client.Put(ctx, tube, body, append(opts[:len(opts):len(opts)], Member(b.name))...)
}

// Then puts a job that runs when the batch is sealed and all members are deleted. Once that is impossible, because members are
// buried or were removed otherwise, it is buried: batch-failed. It is [Client.Put] with [After].
func (b *JobBatch) Then(ctx context.Context, tube string, body []byte, opts ...PutOption) (Receipt, error) {
	return b.client.Put(ctx, tube, body, append(opts[:len(opts):len(opts)], After(b.name))...)
}

// ThenAll puts a job that runs when the batch is sealed and all members have ended, however they did. It is [Client.Put] with
// [AfterAll].
func (b *JobBatch) ThenAll(ctx context.Context, tube string, body []byte, opts ...PutOption) (Receipt, error) {
	return b.client.Put(ctx, tube, body, append(opts[:len(opts):len(opts)], AfterAll(b.name))...)
}

// Seal says that no more members come. The jobs after the batch do not run before.
func (b *JobBatch) Seal(ctx context.Context) error {
	line, err := b.line("seal-batch")
	if err == nil {
		_, err = b.client.exec(ctx, Command{Line: line, Repeat: true, Needs: Batches}, "SEALED")
	}
	return err
}

// Cancel seals the batch, and deletes the members that are not reserved. It returns how many; those that are reserved end as
// they end. If the reply is lost, the error is an [ErrUnknownOutcome]. A batch that has ended, and has no jobs any more, is
// forgotten instead: its name is free.
func (b *JobBatch) Cancel(ctx context.Context) (deleted int, err error) {
	line, err := b.line("cancel-batch")
	if err != nil {
		return 0, err
	}
	reply, err := b.client.exec(ctx, Command{Line: line, Needs: Batches}, "CANCELLED")
	if err == nil {
		_, err = fmt.Sscan(reply.Args, &deleted)
	}
	return deleted, err
}

// BatchStats is what the server knows of a batch.
type BatchStats struct {
	Name   string
	State  string // open, sealed, failing, unsealed, failed, done or cyclic
	Sealed bool   // no more members come

	Total   int // members so far
	Pending int // members that have not ended
	Parked  int // members that are buried, or dead letters
	Done    int // members that were deleted
	Gone    int // members that have expired, or were flushed, cancelled, replaced or deleted by their key

	AfterHeld   int        // jobs that wait for the batch
	AfterFailed int        // jobs that are buried because of it
	After       []AfterJob // the first of both

	Age time.Duration // since it was created
	TTL time.Duration // how long it can stay unsealed, and is known after its end
}

// An AfterJob is a job that waits for a batch, or is buried because of it.
type AfterJob struct {
	ID    uint64
	Tube  string
	State string // delayed or buried
	All   bool   // it was put with AfterAll
	Batch string // of which it is a member; empty: none
}

// Stats returns what the server knows of the batch, or [ErrNotFound].
func (b *JobBatch) Stats(ctx context.Context) (*BatchStats, error) {
	line, err := b.line("stats-batch")
	if err != nil {
		return nil, err
	}
	reply, err := b.client.exec(ctx, Command{Line: line, Repeat: true, Needs: Batches}, "OK")
	if err != nil {
		return nil, err
	}
	return parseBatch(reply.Body), nil
}

// parseBatch reads a page of stats-batch.
func parseBatch(page []byte) *BatchStats {
	v := parseMap(page)
	n := func(key string) int { return int(v.uint(key)) }
	s := &BatchStats{
		Name: v["name"], State: v["state"], Sealed: v["sealed"] == "true",
		Total: n("total"), Pending: n("pending"), Parked: n("parked"), Done: n("done"), Gone: n("gone"),
		AfterHeld: n("after-held"), AfterFailed: n("after-failed"),
		Age: v.seconds("age"), TTL: time.Duration(v.uint("ttl-ms")) * time.Millisecond,
	}
	for line := range strings.Lines(string(page)) {
		if entry, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "- "); ok {
			f := values(parseFlow(entry))
			s.After = append(s.After, AfterJob{ID: f.uint("id"), Tube: f["tube"], State: f["state"], All: f["all"] == "true", Batch: f["batch"]})
		}
	}
	return s
}

// line returns a command about the batch.
func (b *JobBatch) line(verb string) (string, error) {
	if !validBatch(b.name) {
		return "", fmt.Errorf("%s: %w", verb, invalid("batch %q", b.name))
	}
	return verb + " " + b.name, nil
}

func validBatch(name string) bool { return name != "" && len(name) <= 100 && printable(name) }

// Member makes the job a member of a batch.
func Member(batch string) PutOption { return batchTag("batch", batch) }

// After holds the job until a batch is done: see [JobBatch.Then]. With [Member] it can be a member of another batch, so batches
// make chains and graphs.
func After(batch string) PutOption { return batchTag("after", batch) }

// AfterAll holds the job until a batch has ended: see [JobBatch.ThenAll].
func AfterAll(batch string) PutOption { return batchTag("after-all", batch) }

// BatchTTL sets how long the batch of the job can stay unsealed, and is known after its end, if no put has set that before; 24
// hours by default. Jobs after a batch that is not sealed in time are buried.
func BatchTTL(d time.Duration) PutOption {
	return func(o *putOptions) {
		o.tags = append(o.tags, tag{name: "batch-ttl", value: duration(d), needs: Batches})
	}
}

func batchTag(name, batch string) PutOption {
	return func(o *putOptions) {
		if !validBatch(batch) {
			o.err = invalid("batch %q", batch)
		}
		o.tags = append(o.tags, tag{name: name, value: batch, needs: Batches})
	}
}
