package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
)

// A Handler does the work of a job. The context ends when the job is no longer held, or its time is over, see [ErrLeaseLost],
// [ErrTimeout] and [ErrShutdown]. Before a shutdown ends it, there is [Job.Stopping].
type Handler func(ctx context.Context, job *Job) error

// A Middleware wraps handlers, for example to log or to measure.
type Middleware func(next Handler) Handler

// A Mux has the handlers of tubes. The zero value has none.
type Mux struct {
	handlers   map[string]Handler
	types      map[string]map[string]Handler // of a tube, and a type
	middleware []Middleware
}

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return new(Mux) }

// Handle sets the handler of a tube. If it has others by [Mux.HandleType], this one gets the jobs for which there is none.
func (m *Mux) Handle(tube string, h Handler) {
	if m.handlers == nil {
		m.handlers = map[string]Handler{}
	}
	m.handlers[tube] = h
}

// HandleType sets the handler of the jobs in a tube that have this type, see [Typed]. If a job has another one, or none, and there is no [Mux.Handle],
// it is buried as by [Skip], and its reason names its type.
func (m *Mux) HandleType(tube, typ string, h Handler) {
	if m.types == nil {
		m.types = map[string]map[string]Handler{}
	}
	if m.types[tube] == nil {
		m.types[tube] = map[string]Handler{}
	}
	m.types[tube][typ] = h
}

// Use adds middleware around all handlers. The first one is the outermost.
func (m *Mux) Use(middleware ...Middleware) { m.middleware = append(m.middleware, middleware...) }

// wrapped returns the handlers of tubes with their middleware.
func (m *Mux) wrapped() (map[string]Handler, error) {
	all := maps.Clone(m.handlers)
	if all == nil {
		all = map[string]Handler{}
	}
	for tube, types := range m.types {
		for typ, h := range types {
			if typ == "" || h == nil {
				return nil, fmt.Errorf("tube %s, type %q: %w", tube, typ, errNoType)
			}
		}
		all[tube] = byType(maps.Clone(types), all[tube])
	}
	for tube, h := range all {
		if h == nil {
			delete(all, tube)
			continue
		}
		h = recovered(h)
		for _, wrap := range slices.Backward(m.middleware) {
			h = wrap(h)
		}
		all[tube] = h
	}
	return all, nil
}

var errNoType = errors.New("an empty type, or no handler")

// recovered returns a handler that returns a panic of h as a [*PanicError], so that middleware sees it.
func recovered(h Handler) Handler {
	return func(ctx context.Context, job *Job) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
		return h(ctx, job)
	}
}
