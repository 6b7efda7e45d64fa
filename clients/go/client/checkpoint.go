package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// This file has what a long job leaves for whoever watches it, and for its next delivery.

// MaxCheckpoint is the longest checkpoint in bytes.
const MaxCheckpoint = 64 << 10

// TouchProgress starts the TTR of the job again, with a text that says how far it is: its first 256 bytes are shown until the next
// delivery. Servers without the capability progress get a plain touch.
func (j *Job) TouchProgress(ctx context.Context, text string) error {
	return j.settle(ctx, settling{verb: "touch", word: "TOUCHED", tags: " progress:" + quote(beginning(text, maxProgress)), tagged: Progress})
}

// Checkpoint keeps data, at most [MaxCheckpoint] bytes, for the next delivery of the job if this one does not end it. It replaces the one
// before, and starts the TTR again. Without any bytes it only removes that. When Checkpoint has returned nil, the data are as safe as a job that was put.
func (j *Job) Checkpoint(ctx context.Context, data []byte) error {
	if len(data) > MaxCheckpoint {
		return fmt.Errorf("checkpoint: %d bytes: %w", len(data), ErrTooBig)
	}
	saved := append([]byte{}, data...)
	err := j.settle(ctx, settling{verb: "checkpoint", args: fmt.Sprintf(" %d", len(data)), word: "SAVED", body: saved, needs: Checkpoints})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.saved = saved
	return nil
}

// LastCheckpoint returns what was saved last, mostly by an earlier delivery; nil if nothing was. Most often it came with the job; else
// the server is asked.
func (j *Job) LastCheckpoint(ctx context.Context) ([]byte, error) {
	j.mu.Lock()
	saved, stats := j.saved, j.stats
	j.mu.Unlock()
	switch {
	case saved != nil:
		return bytes.Clone(saved), nil
	case stats != nil && (stats.CheckpointBytes == 0 || stats.checkpoint != nil):
		return bytes.Clone(stats.checkpoint), nil
	}
	data, err := j.client.GetCheckpoint(ctx, j.ID)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	return data, err
}

// GetCheckpoint returns the checkpoint of a job, or [ErrNotFound] if there is none.
func (c *Client) GetCheckpoint(ctx context.Context, id uint64) ([]byte, error) {
	reply, err := c.exec(ctx, Command{Line: fmt.Sprintf("get-checkpoint %d", id), Repeat: true, Needs: Checkpoints}, "OK")
	return reply.Body, err
}
