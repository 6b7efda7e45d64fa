package worker

import (
	"context"
	"runtime/debug"
	"slices"
)

// A Handler does the work of a job. The context ends when the job is no longer held, or its time is over, see [ErrLeaseLost],
// [ErrTimeout] and [ErrShutdown]. Before a shutdown ends it, there is [Job.Stopping].
type Handler func(ctx context.Context, job *Job) error

// A Middleware wraps handlers, for example to log or to measure.
type Middleware func(next Handler) Handler

// A Mux has a handler for each tube. The zero value has none.
type Mux struct {
	handlers   map[string]Handler
	middleware []Middleware
}

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return &Mux{handlers: map[string]Handler{}} }

// Handle sets the handler of a tube.
func (m *Mux) Handle(tube string, h Handler) {
	if m.handlers == nil {
		m.handlers = map[string]Handler{}
	}
	m.handlers[tube] = h
}

// Use adds middleware around all handlers. The first one is the outermost.
func (m *Mux) Use(middleware ...Middleware) { m.middleware = append(m.middleware, middleware...) }

// wrapped returns the handlers with their middleware.
func (m *Mux) wrapped() map[string]Handler {
	all := make(map[string]Handler, len(m.handlers))
	for tube, h := range m.handlers {
		if h == nil {
			continue
		}
		h = recovered(h)
		for _, wrap := range slices.Backward(m.middleware) {
			h = wrap(h)
		}
		all[tube] = h
	}
	return all
}

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
