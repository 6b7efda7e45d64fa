package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Receipt says which job a put has made, or found.
type Receipt struct {
	ID uint64

	// State is empty if the job is new. If its key was taken, it is the state of the job that
	// has it, with ID: READY, DELAYED, RESERVED or BURIED; or GONE if that job is gone and only
	// its key stays taken.
	State string
}

// The longest line of a put with tags, in bytes: of servers without and with meta.
const (
	maxTaggedLine = 1 << 10
	maxMetaLine   = 4 << 10
)

// Put puts a job into a tube.
//
// A put is sent again by itself if it was certainly not carried out, and if it has a [Key] with
// a [KeyTTL]. Otherwise, if the reply is lost or the context ends after it was sent, the error
// is an [ErrUnknownOutcome]: the job may be there. Errors of the server are [ErrDuplicate], [ErrBatchSealed],
// [ErrTooBig], [ErrOutOfMemory], [ErrDraining] and [ErrForbidden]; of the client [ErrInvalid],
// [ErrUnsupported], [ErrUnavailable] and [ErrClosed].
func (c *Client) Put(ctx context.Context, tube string, body []byte, opts ...PutOption) (Receipt, error) {
	p := puts.Get().(*put)
	defer p.free()
	if err := p.set(tube, body, opts); err != nil {
		return Receipt{}, fmt.Errorf("put: %w", err)
	}
	err := c.do(ctx, &p.request)
	return p.receipt, err
}

// A put is a request to put a job.
type put struct {
	request
	putOptions
	tube    string
	body    []byte
	receipt Receipt
}

var puts = sync.Pool{New: func() any { return new(put) }}

// set prepares a put, which may have been used before.
func (p *put) set(tube string, body []byte, opts []PutOption) error {
	if body == nil {
		body = noBody
	}
	*p = put{tube: tube, body: body, putOptions: putOptions{pri: DefaultPriority, ttr: DefaultTTR, keep: true, tags: p.tags[:0]}}
	for _, opt := range opts {
		opt(&p.putOptions)
	}
	p.request = request{name: "put", changes: true, repeat: p.idempotent(), command: p}
	if p.err != nil {
		return p.err
	}
	return checkTube(tube)
}

// free gives back a put for the next one.
func (p *put) free() {
	p.body = nil
	puts.Put(p)
}

var noBody = []byte{}

func (p *put) build(c *conn) (*call, error) { return p.call(c.caps, p.tube, p.body) }
func (p *put) accept(r *Reply) error        { return p.receipt.read(r) }

// call returns the call of a put for a server with these capabilities.
func (o *putOptions) call(caps capabilities, tube string, body []byte) (*call, error) {
	tagged := caps.has(PutTags)
	if err := o.unsupported(caps); err != nil {
		return nil, err
	}
	delay, at := o.delay, int64(0)
	switch {
	case o.at.IsZero():
	case tagged:
		at = o.at.UnixMilli()
	default:
		delay = time.Until(o.at)
	}
	c := newCall()
	c.tube, c.body = tube, body
	c.line = append(c.line, "put "...)
	c.line = strconv.AppendUint(c.line, uint64(o.pri), 10)
	c.line = append(c.line, ' ')
	c.line = strconv.AppendInt(c.line, seconds(delay), 10)
	c.line = append(c.line, ' ')
	c.line = strconv.AppendInt(c.line, max(seconds(o.ttr), 1), 10)
	c.line = append(c.line, ' ')
	c.line = strconv.AppendInt(c.line, int64(len(body)), 10)
	if c.kind = plainPut; tagged {
		c.appendTags(o, delay, at, caps)
	}
	c.line = append(c.line, "\r\n"...)
	limit := maxTaggedLine
	if caps.has(Metas) {
		limit = maxMetaLine
	}
	if len(c.line) > limit {
		return nil, invalid("the tags of the put need %d bytes of %d", len(c.line), limit)
	}
	return c, nil
}

func (c *call) appendTags(o *putOptions, delay time.Duration, at int64, caps capabilities) {
	n := len(c.line)
	if delay%time.Second != 0 && delay > 0 {
		c.line = append(append(c.line, " delay:"...), duration(delay)...)
	}
	if at != 0 {
		c.line = strconv.AppendInt(append(c.line, " at:"...), max(at, 0), 10)
	}
	for _, t := range o.tags {
		if t.dispensable && !t.knownTo(caps) {
			continue
		}
		c.line = append(append(append(append(c.line, ' '), t.name...), ':'), t.value...)
	}
	if len(c.line) > n {
		c.kind = ordinary
	}
}

// read fills the receipt from the reply to a put.
func (r *Receipt) read(reply *Reply) error {
	switch reply.Word {
	case "INSERTED":
		r.ID, r.State = reply.id, reply.Args
		return nil
	case "BURIED": // beanstalkd has no memory to make it ready
		r.ID, _ = strconv.ParseUint(strings.TrimSpace(reply.Args), 10, 64)
		return fmt.Errorf("job %d is buried: %w", r.ID, ErrOutOfMemory)
	case "DUPLICATE":
		r.ID, _ = strconv.ParseUint(strings.TrimSpace(reply.Args), 10, 64)
		return fmt.Errorf("%w by job %d", ErrDuplicate, r.ID)
	}
	return reply.fail()
}
