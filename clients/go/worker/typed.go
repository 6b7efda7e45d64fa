package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// This file has handlers of jobs with a type, which [client.Client.PutTyped] puts, and clients of other languages do.

// Typed makes a handler of a function that gets the data of a job with a type. Data that are no T are skipped: the job is buried, and its reason says
// why. Data that are null, or not there, are the zero value of T. Types are told apart by [Mux.HandleType].
func Typed[T any](f func(ctx context.Context, job *Job, data T) error) Handler {
	return func(ctx context.Context, job *Job) error {
		var data T
		if err := job.unmarshal(&data); err != nil {
			return Skip(err)
		}
		return f(ctx, job, data)
	}
}

// Reply is [Typed] for a function whose value becomes the result of the job, as JSON: the other end is [client.Call].
func Reply[In, Out any](f func(ctx context.Context, job *Job, data In) (Out, error)) Handler {
	return Typed(func(ctx context.Context, job *Job, data In) error {
		out, err := f(ctx, job, data)
		if err != nil {
			return err
		}
		result, err := json.Marshal(out)
		if err != nil {
			return fmt.Errorf("the result: %w", err)
		}
		return job.Result(result)
	})
}

// Type returns the type of the job, or nothing if it has none: its body is something else than JSON with a type.
func (j *Job) Type() string { return j.parsed().typ }

// A content is what the body of a job with a type says.
type content struct {
	typ  string          // empty: it has none
	data json.RawMessage // nil: there are none
}

// parse reads a body. Names are matched exactly, unlike by the fields of a struct.
func parse(body []byte) content {
	var fields map[string]json.RawMessage
	var c content
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["type"], &c.typ) != nil {
		return content{}
	}
	c.data = fields["data"]
	return c
}

var errUntyped = errors.New(`a job without a type: its body is not JSON as {"type":"NAME","data":ANY}`)

// unmarshal reads the data of the job into *v.
func (j *Job) unmarshal(v any) error {
	c := j.parsed()
	switch {
	case c.typ == "":
		return errUntyped
	case c.data == nil:
		return nil
	}
	if err := json.Unmarshal(c.data, v); err != nil {
		return fmt.Errorf("the data of this job of the type %q: %w", c.typ, err)
	}
	return nil
}

// byType returns a handler that calls that of the type of a job, or else rest, which can be nil.
func byType(types map[string]Handler, rest Handler) Handler {
	return func(ctx context.Context, job *Job) error {
		h := types[job.Type()]
		if h == nil {
			h = rest
		}
		switch {
		case h != nil:
			return h(ctx, job)
		case job.Type() == "":
			return Skip(errUntyped)
		}
		return Skip(fmt.Errorf("no handler for jobs of the type %q", job.Type()))
	}
}
