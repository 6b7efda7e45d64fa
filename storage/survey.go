package storage

import (
	"context"
	"time"
)

// Surveyor is a Store that several servers share, or that other processes keep, and that can
// look at them.
type Surveyor interface {
	Store

	// Survey asks those processes how they are. It may take as long as ctx allows, and is
	// for people who look, not for programs that ask all the time.
	Topology(ctx context.Context) (*Topology, error)
}

// Survey is what is known of the processes beside this one.
type Topology struct {
	Instances []Instance // servers that share the store, this one included
	Nodes     []Node     // processes that keep the store
}

// Instance is a server that shares the store.
type Instance struct {
	Name    string        // under which the store knows it
	Own     bool          // it is this server
	Silence time.Duration // since its last heartbeat
	Version string        // of its program; "" if it has not said
}

// Node is a process that keeps the store, or a part of it. If it could not be asked, only Addr,
// Partitions and Err are set.
type Node struct {
	Addr       string
	Partitions int // parts of the store that it keeps
	Err        error

	Role      string        // such as master
	Version   string        // of its program
	Memory    uint64        // that it uses, in bytes
	Clients   uint64        // its connections
	RoundTrip time.Duration // until it answered
	Replicas  []Replica
}

// Replica is a process that follows a Node.
type Replica struct {
	Addr   string
	State  string        // such as online
	Lag    time.Duration // since it last said how far it is, in whole seconds
	Behind uint64        // bytes of changes that it has not confirmed yet
}
