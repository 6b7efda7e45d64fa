package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"redstalk/tools/conformance/answer"
)

// request is one command of a packet of many.
type request struct {
	text   string        // the line, and the body of a put, each with its CR LF
	want   string        // the first word of the reply to an executed command
	settle func(reply)   // handles the reply; called once, with an unknown outcome if there was none
	wait   time.Duration // how much later than usual the reply may come
}

// reply is the result of a request.
type reply struct {
	end   outcome
	id    uint64 // of INSERTED, RESERVED, LEASED and FOUND; of MOVED the count
	body  []byte // of RESERVED, LEASED and FOUND
	state string // of INSERTED if the key was taken, or duplicate
	token string // of LEASED
}

// Values of reply.state in addition to the states of jobs.
const (
	gone      = "GONE"      // the key is taken, but there is no job any more
	duplicate = "DUPLICATE" // that was the reply
)

// none is for requests whose reply needs no handling.
func none(reply) {}

// denials are the replies to commands that were not executed.
var denials = map[string]bool{
	"NOT_FOUND": true, "TIMED_OUT": true, "DEADLINE_SOON": true, "NOT_IGNORED": true,
	"OUT_OF_MEMORY": true, "DRAINING": true, "JOB_TOO_BIG": true,
}

var errInternal = errors.New("INTERNAL_ERROR")

// exchange sends all requests in one packet and passes each its reply. Between
// the two it calls meanwhile, if that is not nil. If the connection
// fails, it is closed, and the outcome of the rest is unknown.
func (c *client) exchange(requests []request, meanwhile func()) {
	var packet strings.Builder
	for _, r := range requests {
		packet.WriteString(r.text)
	}
	c.wire.SetDeadline(time.Time{})
	sent := make(chan struct{})
	go func(w *wire) {
		defer close(sent)
		if _, err := io.WriteString(w, packet.String()); err != nil {
			w.Conn.Close() // so that no reply is waited for
		}
	}(c.wire)
	if meanwhile != nil {
		meanwhile()
	}
	heard := c.readReplies(requests)
	if heard < len(requests) {
		c.disconnect()
	}
	for _, r := range requests[heard:] {
		r.settle(reply{end: unknown})
	}
	<-sent
}

// readReplies reads replies and passes them on, until all have arrived or the connection
// fails, and returns how many have arrived.
func (c *client) readReplies(requests []request) int {
	for i, r := range requests {
		c.asking()
		c.wire.SetDeadline(time.Now().Add(c.ledger.config.Patience + r.wait))
		answer, err := readReply(c.in, r.want)
		switch {
		case c.wire.failed:
			return i
		case errors.Is(err, errInternal):
			c.ledger.count(func(r *Report) { r.InternalErrors++ })
		case err != nil:
			c.ledger.garbled(err)
			return i
		default:
			c.replied(r.wait)
		}
		r.settle(answer)
	}
	return len(requests)
}

// readReply reads one reply to a command. want is the reply's first word if the command
// is executed.
func readReply(in *bufio.Reader, want string) (reply, error) {
	came, err := answer.Read(in)
	if err != nil {
		return reply{}, err
	}
	word, rest, _ := strings.Cut(string(came.Head), " ")
	switch {
	case word == "INTERNAL_ERROR":
		return reply{}, errInternal
	case denials[word]:
		return reply{end: refused}, nil
	case word == duplicate && want == "INSERTED":
		rest += " " + duplicate
	case word != want:
		return reply{}, fmt.Errorf("%.80q instead of %s", came.Head, want)
	}
	r := reply{end: done, body: came.Body}
	switch word {
	case "INSERTED", duplicate:
		id, state, _ := strings.Cut(rest, " ")
		r.state = state
		r.id, err = strconv.ParseUint(id, 10, 64)
	case "MOVED":
		r.id, err = strconv.ParseUint(rest, 10, 64)
	case "LEASED":
		_, err = fmt.Sscanf(rest, "%d %s", &r.id, &r.token)
	case "RESERVED", "FOUND":
		_, err = fmt.Sscanf(rest, "%d", &r.id)
	}
	if hasBody := word == "LEASED" || word == "RESERVED" || word == "FOUND"; hasBody && !came.Data {
		return r, fmt.Errorf("%.80q does not count its body", came.Head)
	}
	return r, err
}
