package storage

import (
	"context"
	"errors"

	"redstalk/tube"
)

// HolderStore is a Store that knows which jobs the connections of this server hold.
type HolderStore interface {
	Store

	// HeldBy returns what each of the holders has reserved, with the ids of up to first of its
	// jobs; nil if that is not known soon, because operations under way wait for another process.
	HeldBy(holders []tube.Holder, first int) []Held
}

// Held is what one holder has reserved.
type Held struct {
	Count int
	First []uint64 // ids of some of these jobs, on each partition the next whose TTR ends first
}

// ErrNoPeer is the error of PeerStore if there is no server of the name, or not any more.
var ErrNoPeer = errors.New("there is no such instance")

// PeerStore is a Store that several servers share, and through which they can ask each other
// questions. A question is answered by the PeerListener of the server asked. Nothing is stored
// or sent when nobody asks.
type PeerStore interface {
	Store

	// Peer returns the name of this server among those that share the store.
	Peer() string

	// AskPeers asks the other servers whose names are not less than from. A server that does not
	// answer until ctx ends, or is known to be silent, has no answer.
	AskPeers(ctx context.Context, from, question string) ([]PeerAnswer, error)

	// AskPeer asks the server of that name. Without an answer until ctx ends it returns an error, which is
	// ErrNoPeer if there is no such server.
	AskPeer(ctx context.Context, peer, question string) (answer string, err error)

	// AskHolder is AskPeer for the server that a job's stats name in HeldAt.
	AskHolder(ctx context.Context, job *tube.JobStats, question string) (answer string, err error)
}

// PeerAnswer is what another server has answered.
type PeerAnswer struct {
	Peer     string
	Answered bool
	Text     string
}

// PeerListener is a Listener that answers questions of other servers. Answer can be called on any
// goroutine, and can take a short time.
type PeerListener interface {
	Listener
	Answer(question string) string
}
