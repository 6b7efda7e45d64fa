package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/tube"
)

// This file has the checkpoints of jobs, which their workers save, and their progress.

func (svc *service) checkpointOperations() []*row {
	save := direct[checkpointInput, noOutput](svc, Operation{"PUT", "/v1/jobs/{id}/checkpoint", rightOf(protocol.CheckpointLease), OfJob}, doc("saveCheckpoint", "Save a checkpoint of a leased job", 204,
		"The body of the request is the checkpoint, whatever its content type; an empty one removes it. It is kept for the next delivery, and restarts the TTR."), svc.saveCheckpoint)
	save.anyBody, save.extraStatuses = true, []int{413, 507}
	return []*row{
		save,
		direct[JobPath, checkpointOutput](svc, Operation{"GET", "/v1/jobs/{id}/checkpoint", rightOf(protocol.GetCheckpoint), OfJob}, doc("checkpoint", "Get the checkpoint of a job", 200, ""), svc.checkpoint),
	}
}

// checkpointInput documents a request that saves a checkpoint.
type checkpointInput struct {
	JobPath
	Lease   string `query:"lease" required:"true" maxLength:"32"`
	RawBody []byte
}

// checkpointOutput documents an answer with a checkpoint.
type checkpointOutput struct{ Body rawAnswer }

// rawAnswer documents an answer of any bytes.
type rawAnswer []byte

// ContentType implements huma.ContentTypeFilter.
func (rawAnswer) ContentType(string) string { return octetType }

// Schema implements huma.SchemaProvider.
func (rawAnswer) Schema(huma.Registry) *huma.Schema { return rawBody()[octetType] }

func (svc *service) saveCheckpoint(w http.ResponseWriter, r *http.Request) {
	op, err := readMove(r, tube.SaveCheckpoint)
	if err == nil {
		op.Args.Data, err = readBody(w, r, tube.MaxCheckpoint, nil)
	}
	if err == nil {
		err = svc.doMove(r.Context(), op)
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (svc *service) checkpoint(w http.ResponseWriter, r *http.Request) {
	id, err := readID(r)
	var data []byte
	if err == nil {
		data, err = svc.shownCheckpoint(r.Context(), id)
	}
	if err != nil {
		svc.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", octetType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.Write(data)
}

// shownCheckpoint returns what the user of a request sees of a checkpoint.
func (svc *service) shownCheckpoint(ctx context.Context, id uint64) ([]byte, error) {
	data, err := svc.queue.Checkpoint(ctx, id)
	if u := access.UserIn(ctx); err == nil && u != nil && !u.SeesAllValues() {
		var s *tube.JobStats
		if s, err = svc.queue.JobStats(ctx, id); err == nil {
			data = u.Sight(s.Tube).Checkpoint(data)
		}
	}
	return data, err
}

// readProgress returns the progress in a query.
func readProgress(text string) (*string, error) {
	if !protocol.ValidProgress(text) {
		return nil, invalid("progress: it must have at most %d bytes of text without control characters", protocol.MaxProgress)
	}
	return &text, nil
}

// KeepOption says whether a job that is started anew by a human keeps its checkpoint.
type KeepOption struct {
	KeepCheckpoint bool `query:"keep_checkpoint" json:"keep_checkpoint,omitempty" doc:"for a kick or replay: the jobs keep their checkpoints"`
}
