package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"redstalk/clients/go/client"
)

// Stopping is closed when the worker is told to stop. A handler that takes long then saves a [Job.Checkpoint], for which its context still
// serves, and returns [ErrNotFinished]: another worker goes on from there at once. The others are waited for, see [Worker.Run].
func (j *Job) Stopping() <-chan struct{} { return j.holder.stopping() }

// Checkpoint saves v as JSON, up to [client.MaxCheckpoint] bytes, for the next delivery of the job, if this one does not end it, whatever
// happens to the worker or the server: see [Job.LastCheckpoint]. It replaces the one before; nil removes that.
//
// If the job is no longer held, the error is an [ErrLeaseLost], nothing is saved, and the context of the handler ends. With a server that cannot save
// checkpoints it is a [client.ErrUnsupported].
func (j *Job) Checkpoint(ctx context.Context, v any) error {
	var data []byte
	if v != nil {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	if err := j.holder.saveCheckpoint(ctx, data); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (l *lease) saveCheckpoint(ctx context.Context, data []byte) error {
	if cause := context.Cause(l.ctx); errors.Is(cause, ErrLeaseLost) {
		return cause
	}
	err := l.renew(func() error { return l.job.Checkpoint(ctx, data) })
	if errors.Is(err, client.ErrNotFound) {
		err = l.whyLost(ctx)
		l.cancel(err)
	}
	return err
}

// LastCheckpoint reads the checkpoint of the job into *v: the last that was saved, by this delivery or one before. It reports whether there is one.
func (j *Job) LastCheckpoint(v any) (found bool, err error) {
	data, err := j.holder.lastCheckpoint()
	if err != nil || len(data) == 0 {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("the checkpoint: %w", err)
	}
	return true, nil
}

func (l *lease) lastCheckpoint() ([]byte, error) { return l.job.LastCheckpoint(l.ctx) }

// betweenProgress is the least time between two touches that send a progress.
const betweenProgress = time.Second

// Progress says how far the job is, for whoever watches it: "4711/10000", "47%", or any text of up to 256 bytes. Call it as often as you like: it never
// waits, and the last text is sent about once a second, and when the handler fails. It is shown until the next delivery.
func (j *Job) Progress(text string) { j.holder.showProgress(text) }

func (l *lease) showProgress(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress = &text
	if !l.settled && !l.beating && l.ttr != 0 && !errors.Is(context.Cause(l.ctx), ErrLeaseLost) {
		l.timer.Reset(max(l.rest(nil), 1))
	}
}

// sendProgress sends the progress that is left of a job that is not done.
func (l *lease) sendProgress() {
	if l.unsent() != nil {
		ctx, stop := context.WithTimeout(l.run.ended, time.Second)
		defer stop()
		_ = l.touch(ctx) // settling the job shows what is wrong
	}
}

// unsent returns the progress that is to be sent now; nil if there is none.
func (l *lease) unsent() *string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progress != nil {
		l.shown = time.Now()
	}
	return l.progress
}
