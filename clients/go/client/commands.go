package client

import (
	"context"
	"fmt"
	"strings"
)

// A Command is any command of the protocol, for those that have no method.
type Command struct {
	Line   string // without CR LF
	Body   []byte // of a put; nil for none
	Tube   string // the tube to use before; empty if it does not matter
	Repeat bool   // it can be sent again if its reply is lost

	// Needs is the capability without which the command fails with an [UnsupportedError].
	Needs Capability
}

// Exec sends a command and returns its reply. A reply that is an error, such as NOT_FOUND, is
// returned as one. Do not use it for commands that change the state of a connection, such as watch.
func (c *Client) Exec(ctx context.Context, cmd Command) (Reply, error) {
	verb, _, _ := strings.Cut(cmd.Line, " ")
	if strings.ContainsAny(cmd.Line, "\r\n") {
		return Reply{}, fmt.Errorf("%s: %w", verb, invalid("a line break in %q", cmd.Line))
	}
	var reply Reply
	f := new(funcs)
	f.call = func(conn *conn) (*call, error) {
		if cmd.Needs != "" && !conn.caps.has(cmd.Needs) {
			return nil, &UnsupportedError{Feature: verb}
		}
		call := lineCall(cmd.Line)
		call.body, call.tube = cmd.Body, cmd.Tube
		return call, nil
	}
	f.reply = func(got *Reply) error {
		if wordErrors[got.Word] != nil && !(verb == "drain" && got.Word == "DRAINING") {
			return got.fail()
		}
		reply = *got
		return nil
	}
	err := c.do(ctx, &request{name: verb, changes: !cmd.Repeat, repeat: cmd.Repeat, command: f})
	return reply, err
}

// exec sends a command that must be answered with word.
func (c *Client) exec(ctx context.Context, cmd Command, word string) (Reply, error) {
	reply, err := c.Exec(ctx, cmd)
	if err == nil {
		err = reply.expect(word)
	}
	return reply, err
}

// JobStats returns what the server knows about a job, or [ErrNotFound].
func (c *Client) JobStats(ctx context.Context, id uint64) (*Stats, error) {
	reply, err := c.exec(ctx, Command{Line: fmt.Sprintf("stats-job %d", id), Repeat: true}, "OK")
	if err != nil {
		return nil, err
	}
	return parseStats(reply.Body), nil
}

// Delete deletes a job that is not reserved.
//
// If the reply is lost, the error is an [ErrUnknownOutcome].
func (c *Client) Delete(ctx context.Context, id uint64) error {
	_, err := c.exec(ctx, Command{Line: fmt.Sprintf("delete %d", id)}, "DELETED")
	return err
}

// DeleteKey deletes the job of a tube that has a key, even if it is reserved.
//
// If the reply is lost, the error is an [ErrUnknownOutcome].
func (c *Client) DeleteKey(ctx context.Context, tube, key string) error {
	_, err := c.exec(ctx, Command{Line: "delete-key " + tube + " " + key, Needs: PutTags}, "DELETED")
	return err
}

// Find returns the id and the body of the job of a tube that has a key.
func (c *Client) Find(ctx context.Context, tube, key string) (id uint64, body []byte, err error) {
	reply, err := c.exec(ctx, Command{Line: "find " + tube + " " + key, Repeat: true, Needs: PutTags}, "FOUND")
	return reply.id, reply.Body, err
}

// Peek returns the body of a job without reserving it.
func (c *Client) Peek(ctx context.Context, id uint64) ([]byte, error) {
	reply, err := c.exec(ctx, Command{Line: fmt.Sprintf("peek %d", id), Repeat: true}, "FOUND")
	return reply.Body, err
}
