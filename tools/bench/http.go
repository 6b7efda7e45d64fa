package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"redstalk/protocol/client"
)

// This file loads the HTTP API: the same cycle as over the beanstalk protocol, with a request
// for each step. With a pipeline of N, a request is about N jobs and counts as N operations.

// An httpCycler repeatedly puts N jobs, reserves as many as were put and finishes them.
// A response is a Reply: its status is the ID, its first line the Line.
type httpCycler struct {
	t     *counters
	n     int
	tube  string
	host  string
	body  []byte // as a field of JSON
	put   []byte // the request that puts N jobs
	out   []byte // other requests, rebuilt for each stage
	text  []byte // of the body of out
	phase phase
	left  int    // jobs put and not reserved
	held  []held // jobs reserved and not finished
}

// held is a job that a cycler has reserved. Its lease consists of digits.
type held struct {
	id    uint64
	lease []byte
}

func newHTTPCycler(l *load, t *counters, host, tube string, body []byte) *httpCycler {
	c := &httpCycler{t: t, n: l.Pipeline, tube: tube, host: host}
	c.body = fmt.Appendf(nil, `"body":%q`, body)
	one := fmt.Appendf(nil, `{%s,"ttr":%d}`, c.body, longTTR)
	if c.n == 1 {
		c.put = c.request(nil, "POST", "/v1/tubes/"+tube+"/jobs", one)
		return c
	}
	all := bytes.TrimSuffix(bytes.Repeat(append(one, ','), c.n), []byte(","))
	c.put = c.request(nil, "POST", "/v1/tubes/"+tube+"/jobs/batch", append(append([]byte{'['}, all...), ']'))
	return c
}

// request appends a request.
func (c *httpCycler) request(out []byte, method, path string, body []byte) []byte {
	out = fmt.Appendf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, c.host)
	if method == "POST" {
		out = fmt.Appendf(out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(out, "\r\n"...), body...)
}

// next moves to the next stage. A cycle that began before the deadline is finished
// after it.
func (c *httpCycler) next(now int64) (stage, status) {
	switch {
	case len(c.held) > 0:
		c.phase = deleting
		return stage{c.finish(), 1, true}, sends
	case c.left > 0:
		c.phase = reserving
		c.out = c.request(c.out[:0], "POST", fmt.Sprintf("/v1/reserve?tube=%s&wait=10s&n=%d", c.tube, c.left), nil)
		return stage{c.out, 1, true}, sends
	case now >= c.t.r.deadline.Load():
		return stage{}, done
	}
	c.phase = putting
	return stage{c.put, 1, true}, sends
}

// finish returns the request that finishes what is held.
func (c *httpCycler) finish() []byte {
	if c.n == 1 {
		c.text = strconv.AppendUint(append(c.text[:0], "/v1/jobs/"...), c.held[0].id, 10)
		c.text = append(append(c.text, "?lease="...), c.held[0].lease...)
		c.out = c.request(c.out[:0], "DELETE", string(c.text), nil)
		return c.out
	}
	c.text = append(c.text[:0], '[')
	for i, j := range c.held {
		if i > 0 {
			c.text = append(c.text, ',')
		}
		c.text = append(c.text, `{"id":`...)
		c.text = strconv.AppendUint(c.text, j.id, 10)
		c.text = append(append(append(c.text, `,"lease":"`...), j.lease...), `"}`...)
	}
	c.out = c.request(c.out[:0], "POST", "/v1/jobs/finish", append(c.text, ']'))
	return c.out
}

func (c *httpCycler) replied(reply *client.Reply, now int64) {
	switch c.phase {
	case putting:
		c.taken(reply, now, "put", &c.left, &c.t.puts, http.StatusCreated)
	case reserving:
		c.reserved(reply, now)
	default:
		finished := 0
		c.taken(reply, now, "finish", &finished, &c.t.deletes, http.StatusNoContent)
		c.held = c.held[:0]
	}
}

// taken counts the jobs of a response with the status of success.
func (c *httpCycler) taken(reply *client.Reply, now int64, what string, to *int, sum *int64, status uint64) {
	want, n := c.n, 0
	if c.phase == deleting {
		want = len(c.held)
	}
	if c.n > 1 && reply.ID == http.StatusOK {
		n = bytes.Count(reply.Body, fmt.Appendf(nil, `{"status":%d,`, status))
	} else if c.n == 1 && reply.ID == status {
		n = 1
	}
	if n != want {
		c.t.fail(fmt.Sprintf("%s: %d of %d jobs: %.60q %.80q", what, n, want, reply.Line, reply.Body))
	}
	c.count(now, n)
	*to, *sum = *to+n, *sum+int64(n)
}

// count counts operations.
func (c *httpCycler) count(now int64, n int) {
	for range n {
		c.t.count(now)
	}
}

var (
	idField    = []byte(`{"id":`)
	leaseField = []byte(`"lease":"`)
)

// reserved records the jobs of a response, and verifies their bodies.
func (c *httpCycler) reserved(reply *client.Reply, now int64) {
	rest := reply.Body
	for reply.ID == http.StatusOK && len(c.held) < c.left {
		_, after, found := bytes.Cut(rest, idField)
		digits, after, _ := bytes.Cut(after, []byte{','})
		id, err := strconv.ParseUint(string(digits), 10, 64)
		_, after, leased := bytes.Cut(after, leaseField)
		lease, after, closed := bytes.Cut(after, []byte{'"'})
		if !found || err != nil || !leased || !closed {
			break
		}
		if at := bytes.Index(after, c.body); at < 0 || bytes.Contains(after[:at], idField) {
			c.t.fail("reserve answered with a body that was not put")
		}
		c.held, rest = append(c.held, held{id, bytes.Clone(lease)}), after
	}
	if len(c.held) == 0 {
		c.t.fail(fmt.Sprintf("reserve answered %.60q %.80q", reply.Line, reply.Body))
		c.left = 0
	}
	c.left -= len(c.held)
	c.t.reserves += int64(len(c.held))
	c.count(now, len(c.held))
}

// A decoder finds replies in the bytes of one connection. The caller reads bytes into
// Space, and then calls Filled.
type decoder interface {
	Space() []byte
	Filled(n int)
	Next(*client.Reply) (bool, error)
}

// An httpDecoder finds HTTP responses with a Content-Length.
type httpDecoder struct {
	buf        []byte
	start, end int
}

func (d *httpDecoder) Space() []byte {
	if d.start == d.end {
		d.start, d.end = 0, 0
	}
	if d.end == len(d.buf) {
		if d.start == 0 {
			d.buf = append(d.buf, make([]byte, max(len(d.buf), 16<<10))...)
		}
		d.end = copy(d.buf, d.buf[d.start:d.end])
		d.start = 0
	}
	return d.buf[d.end:]
}

func (d *httpDecoder) Filled(n int) { d.end += n }

var (
	headerEnd   = []byte("\r\n\r\n")
	lengthField = []byte("\r\nContent-Length: ")
)

func (d *httpDecoder) Next(reply *client.Reply) (bool, error) {
	header, body, all := bytes.Cut(d.buf[d.start:d.end], headerEnd)
	if !all {
		return false, nil
	}
	line, _, _ := bytes.Cut(header, []byte("\r\n"))
	_, after, _ := bytes.Cut(line, []byte{' '})
	status, err := strconv.ParseUint(string(after[:min(3, len(after))]), 10, 64)
	if err != nil {
		return false, fmt.Errorf("no answer of HTTP: %.60q", line)
	}
	length := 0
	if _, after, ok := bytes.Cut(header, lengthField); ok {
		digits, _, _ := bytes.Cut(after, []byte("\r\n"))
		if length, err = strconv.Atoi(string(digits)); err != nil {
			return false, fmt.Errorf("the length of an answer: %w", err)
		}
	} else if status != http.StatusNoContent {
		return false, errors.New("an answer does not say how long it is")
	}
	if len(body) < length {
		return false, nil
	}
	*reply = client.Reply{ID: status, Line: line, Body: body[:length]}
	d.start += len(header) + len(headerEnd) + length
	return true, nil
}

// awaitReady waits until the server no longer reports that it is not ready: a server accepts
// HTTP connections while it still loads its store.
func awaitReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return err
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			return fmt.Errorf("waiting until %s is ready: %w", addr, err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusServiceUnavailable {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// dialHTTP connects to the server.
func dialHTTP(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, dialTimeout) }

// cleanHTTP deletes all jobs in the tubes of the run, and returns how many there were.
func (r *run) cleanHTTP() (sum int64, err error) {
	for i := range min(r.load.Tubes, r.load.Conns) {
		for _, query := range []string{"", "?state=reserved"} {
			n, err := flushHTTP(fmt.Sprintf("http://%s/v1/tubes/%s/jobs%s", r.addr, r.fixture.tube(i), query))
			if sum += n; err != nil {
				return sum, fmt.Errorf("deleting jobs: %w", err)
			}
		}
	}
	return sum, nil
}

func flushHTTP(url string) (int64, error) {
	request, err := http.NewRequest("DELETE", url, nil)
	if err != nil {
		return 0, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %w", text, orEmpty(err))
	}
	var n int64
	_, err = fmt.Sscanf(string(text), `{"count":%d}`, &n)
	return n, err
}
