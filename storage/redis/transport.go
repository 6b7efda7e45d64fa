package redis

import (
	"context"
	"net"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// transport sends the calls of a partition. One call is under way at a time. It belongs to the
// caller of the partition.
type transport interface {
	// connect ensures that there is a connection to a server, if connections are not pooled.
	// After it, servers.seen takes the process at the other end into account.
	connect(node *goredis.Client) error

	// send sends commands to the server of the last connect. Each of them needs one receive,
	// unless an error is returned.
	send(node *goredis.Client, commands ...[]any) error

	// receive waits for the reply to the next command: nil, a string, an int64, or an []any of
	// these. An error with a code (codeOf) is that reply as well; after any other error nothing
	// more can be received.
	receive() (any, error)
}

// newTransport returns the transport of one of so many partitions. A single one has its own
// connection, on which sending and receiving are separate, with other work in between. The
// calls of several partitions overlap anyway. They share a pool of connections, because opening
// a new one takes as long as several calls.
func newTransport(l *link, of int) transport {
	if of > 1 {
		return &pooled{}
	}
	return &connection{link: l}
}

// connection is the transport of a single partition: a socket to its server.
type connection struct {
	link    *link
	addr    string        // of the server
	dialer  *socketDialer // to that server; nil if nothing was sent yet
	socket  *socket       // nil if there is none
	closing bool          // an error demands it (meaning.closeConnection), so the socket is closed before its next use
}

// send implements transport. It opens no new connection, because that might lead to another
// process than the one that was checked.
func (n *connection) send(_ *goredis.Client, commands ...[]any) error {
	if n.socket == nil {
		return net.ErrClosed
	}
	err := n.socket.send(commands)
	if err != nil {
		err = n.socket.refusal(err, len(commands))
		n.drop()
	}
	return err
}

// connect implements transport.
func (n *connection) connect(node *goredis.Client) error {
	addr := node.Options().Addr
	if n.socket != nil && (n.closing || addr != n.addr || !n.socket.isGood()) {
		n.drop()
	}
	if n.socket != nil {
		return nil
	}
	if n.dialer != nil && addr != n.addr {
		n.link.closeSocketDialer(n.dialer)
		n.dialer = nil
	}
	if n.dialer == nil {
		n.dialer, n.addr = n.link.newSocketDialer(node), addr
	}
	var err error
	n.socket, err = n.dialer.open(context.Background())
	return err
}

// receive implements transport. A connection that is retired is closed when all replies are
// received.
func (n *connection) receive() (any, error) {
	if n.socket == nil {
		return nil, net.ErrClosed
	}
	answer, err := n.socket.receive()
	if err != nil && codeOf(err) == "" {
		n.drop()
	}
	n.closing = n.closing || closesConnection(err)
	return answer, err
}

func (n *connection) drop() {
	n.socket.close()
	n.socket, n.closing = nil, false
}

// pooled is a transport by the connections of go-redis's pool. Its send also waits for the
// replies.
type pooled struct{ answers []*goredis.Cmd }

// connect implements transport.
func (p *pooled) connect(*goredis.Client) error { return nil }

// send implements transport.
func (p *pooled) send(node *goredis.Client, commands ...[]any) error {
	ctx := context.Background()
	p.answers = p.answers[:0]
	for _, words := range commands {
		joinRecords(words)
	}
	if len(commands) == 1 {
		p.answers = append(p.answers, goredis.NewCmd(ctx, commands[0]...))
		node.Process(ctx, p.answers[0]) // it has the error
		return nil
	}
	pipe := node.Pipeline()
	for _, words := range commands {
		p.answers = append(p.answers, pipe.Do(ctx, words...))
	}
	pipe.Exec(ctx) // its error is that of one of them
	return nil
}

// joinRecords joins the pieces of each record, as go-redis needs them.
func joinRecords(words []any) {
	for i, word := range words {
		if staged, ok := word.(stagedRecord); ok {
			words[i] = slices.Concat(staged.head, staged.body, staged.metadata)
		}
	}
}

// receive implements transport.
func (p *pooled) receive() (any, error) {
	cmd := p.answers[0]
	p.answers = p.answers[1:]
	return cmd.Result()
}
