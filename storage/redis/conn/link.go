package conn

import (
	"context"
	"net"
	"slices"
)

// Link sends the commands of one caller and receives the replies. It belongs to one goroutine
// at a time.
type Link interface {
	// Connect ensures that there is a connection to a server, if the link has one of its own.
	// It returns how many times the pool has met another process than before, the one at the
	// other end included.
	Connect(node Node) (changes uint64, err error)

	// Send sends commands to the server of the last Connect. Each of them needs one Receive,
	// unless an error is returned.
	Send(node Node, commands ...[]any) error

	// Receive waits for the reply to the next command: nil, a string, an int64, or an []any of
	// these. An error with a code (CodeOf) is that reply as well; after any other error nothing
	// more can be received.
	Receive() (any, error)
}

// NewLink returns a link with its own connection, on which sending and receiving are separate,
// with other work in between.
func (p *Pool) NewLink() Link { return &ownLink{pool: p} }

// NewSharedLink returns a link for one of several callers whose commands overlap. They share
// the connections of go-redis, because opening a new one takes as long as several calls. Send
// also waits for the replies.
func (p *Pool) NewSharedLink() Link { return &sharedLink{pool: p} }

// ownLink is a link with a socket.
type ownLink struct {
	pool    *Pool
	addr    string        // of the server
	dialer  *socketDialer // to that server; nil if nothing was sent yet
	socket  *socket       // nil if there is none
	closing bool          // an error demands it (closesConnection), so the socket is closed before its next use
}

// Send implements Link. It opens no new connection, because that might lead to another process
// than the one that was checked.
func (l *ownLink) Send(_ Node, commands ...[]any) error {
	if l.socket == nil {
		return net.ErrClosed
	}
	err := l.socket.send(commands)
	if err != nil {
		err = l.socket.refusal(err, len(commands))
		l.drop()
	}
	return err
}

// Connect implements Link.
func (l *ownLink) Connect(node Node) (changes uint64, err error) {
	addr := node.Addr()
	if l.socket != nil && (l.closing || addr != l.addr || !l.socket.isGood()) {
		l.drop()
	}
	if l.socket == nil {
		err = l.open(node, addr)
	}
	return l.pool.servers.seen(), err
}

// open opens a new connection.
func (l *ownLink) open(node Node, addr string) (err error) {
	if l.dialer != nil && addr != l.addr {
		l.pool.closeSocketDialer(l.dialer)
		l.dialer = nil
	}
	if l.dialer == nil {
		l.dialer, l.addr = l.pool.newSocketDialer(node), addr
	}
	l.socket, err = l.dialer.open(context.Background())
	return err
}

// Receive implements Link. A connection that is retired is closed when all replies are
// received.
func (l *ownLink) Receive() (any, error) {
	if l.socket == nil {
		return nil, net.ErrClosed
	}
	answer, err := l.socket.receive()
	if err != nil && CodeOf(err) == "" {
		l.drop()
	}
	l.closing = l.closing || closesConnection(err)
	return answer, err
}

func (l *ownLink) drop() {
	l.socket.close()
	l.socket, l.closing = nil, false
}

// sharedLink is a link by the connections of go-redis.
type sharedLink struct {
	pool    *Pool
	changes uint64  // what Connect has returned
	replies []Reply // not received yet
}

// Connect implements Link.
func (l *sharedLink) Connect(Node) (changes uint64, err error) {
	l.changes = l.pool.servers.seen()
	return l.changes, nil
}

// Send implements Link.
func (l *sharedLink) Send(node Node, commands ...[]any) error {
	for _, words := range commands {
		joinPieces(words)
	}
	l.replies = node.Pipeline(withChanges(context.Background(), l.changes), commands...)
	return nil
}

// joinPieces joins the pieces of each word, as go-redis needs them.
func joinPieces(words []any) {
	for i, word := range words {
		if p, ok := word.(Pieces); ok {
			words[i] = slices.Concat(p.Head, p.Body, p.Rest)
		}
	}
}

// Receive implements Link.
func (l *sharedLink) Receive() (any, error) {
	r := l.replies[0]
	l.replies = l.replies[1:]
	return r.Value, r.Err
}
