package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// The headers of the checkpoint of a job, in the canonical form of net/http.
const (
	checkpointHeader      = "Redstalk-Checkpoint" // in base64; in calls and in answers
	checkpointBytesHeader = "Redstalk-Checkpoint-Bytes"
)

// maxSentCheckpoint is the largest checkpoint that a call has, in bytes: many servers refuse longer headers.
const maxSentCheckpoint = 4 << 10

// addCheckpoint adds what a call says of the checkpoint of its job, which it lacks if it is too large, or cannot be read at the moment.
func (d *Dispatcher) addCheckpoint(ctx context.Context, h http.Header, j *Job) {
	if j.checkpointBytes == 0 {
		return
	}
	h[checkpointBytesHeader] = []string{strconv.Itoa(j.checkpointBytes)}
	if j.checkpointBytes > maxSentCheckpoint {
		return
	}
	if data, err := d.queue.Checkpoint(ctx, j.ID); err == nil {
		h[checkpointHeader] = []string{base64.StdEncoding.EncodeToString(data)}
	}
}

// saveCheckpoint saves the checkpoint in an answer that does not end its job, before the outcome does anything with that. If there is one
// that cannot be saved, the outcome says so.
func (d *Dispatcher) saveCheckpoint(ctx context.Context, answer *http.Response, j *Job, outcome *Outcome) {
	values := answer.Header[checkpointHeader]
	if len(values) == 0 || outcome.Verdict == Done {
		return
	}
	data, err := checkpointIn(values[0])
	if err == nil {
		err = d.insistOnSave(ctx, j, data)
	}
	if err == nil {
		return
	}
	err = fmt.Errorf("the checkpoint of the answer is not saved: %w", err)
	outcome.Err = fmt.Errorf("%w; %w", outcome.Err, err)
	if outcome.Reason != "" {
		outcome.Reason = err.Error() + "; " + outcome.Reason
	}
}

// checkpointIn decodes a header.
func checkpointIn(value string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("%s is not base64", checkpointHeader)
	}
	if len(data) > tube.MaxCheckpoint {
		return nil, fmt.Errorf("it has more than %d bytes", tube.MaxCheckpoint)
	}
	return data, nil
}

// insistOnSave saves a checkpoint. While the store is not available it tries again, until the TTR ends.
func (d *Dispatcher) insistOnSave(ctx context.Context, j *Job, data []byte) (err error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), j.Deadline)
	defer cancel()
	for {
		err = d.queue.MoveLeased(ctx, tube.SaveCheckpoint, j.ID, j.Lease, tube.Terms{Data: data})
		if !errors.Is(err, storage.ErrUnavailable) || d.calling.Err() != nil || time.Until(j.Deadline) < retryAfter {
			return err
		}
		time.Sleep(retryAfter)
	}
}
