package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file has jobs with a type, whose body is the JSON {"type":"NAME","data":ANY}: clients of all languages read it. The other end is
// worker.Typed, or worker.Reply.

// PutTyped puts a job with a type, and data as JSON. It is a [Client.Put]; its meta has content-type, unless there is a [Meta] of that name, or the
// server knows no meta. A type that is empty and data that have no JSON are an [ErrInvalid].
func (c *Client) PutTyped(ctx context.Context, tube, typ string, data any, opts ...PutOption) (Receipt, error) {
	job := TypedJob(tube, typ, data, opts...)
	return c.Put(ctx, job.Tube, job.Body, job.Options...)
}

// TypedJob returns what [Client.PutTyped] puts, for PutMany, batches and schedules. What is wrong with it is an error there.
func TypedJob(tube, typ string, data any, opts ...PutOption) NewJob {
	body, err := envelope(typ, data)
	return NewJob{Tube: tube, Body: body, Options: append(slices.Clip(opts), isJSON(err))}
}

func envelope(typ string, data any) ([]byte, error) {
	if typ == "" {
		return nil, invalid("a job with an empty type")
	}
	body, err := json.Marshal(struct {
		Type string `json:"type"`
		Data any    `json:"data"`
	}{typ, data})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return body, nil
}

const contentType = "content-type"

// isJSON is the option of a typed job. If its body could not be made, the put fails.
func isJSON(err error) PutOption {
	return func(o *putOptions) {
		if err != nil {
			o.err = err
		}
		named := func(t tag) bool { return t.name == "meta" && strings.HasPrefix(t.value, contentType+"=") }
		if !slices.ContainsFunc(o.tags, named) {
			o.tags = append(o.tags, tag{name: "meta", value: contentType + `="application/json"`, needs: Metas, dispensable: true})
		}
	}
}

// Call puts a typed job, waits for its end, and returns its result, which is JSON too: the other end is worker.Reply. The record of the job is
// kept for a minute, unless [Keep] says otherwise. If the job was not done, the error is an [*EndedError].
func Call[Out any](ctx context.Context, c *Client, tube, typ string, data any, opts ...PutOption) (out Out, err error) {
	receipt, err := c.PutTyped(ctx, tube, typ, data, Keep(time.Minute), Options(opts...))
	if err != nil {
		return out, err
	}
	ended, err := c.Wait(ctx, receipt.ID)
	if err != nil {
		return out, err
	}
	err = ended.Decode(&out)
	return out, err
}
