package storage

import (
	"context"
	"time"
)

// TopologyStore is a Store that depends on other processes, because several servers share it or
// because other processes store its data, and that can inspect them.
type TopologyStore interface {
	Store

	// Topology asks those processes for their state. It can take as long as ctx allows, and is
	// meant for people who look, not for programs that ask all the time.
	Topology(ctx context.Context) (*Topology, error)
}

// Topology is what is known of the other processes.
type Topology struct {
	Instances []Instance // servers that share the store, including this one
	Nodes     []Node     // processes that store the data
}

// Instance is a server that shares the store.
type Instance struct {
	Name         string        // as the store knows it
	Own          bool          // whether it is this server
	SinceContact time.Duration // since its last heartbeat
	Version      string        // of its program; "" if it has not reported it
}

// Node is a process that stores the data, or a part of it. If it could not be asked, only Addr,
// Partitions and Err are set.
type Node struct {
	Addr       string
	Partitions int // parts of the store on this node
	Err        error

	Role      string        // such as master
	Version   string        // of its program
	Memory    uint64        // in bytes
	Clients   uint64        // its connections
	RoundTrip time.Duration // duration of a request
	Replicas  []Replica
}

// Replica is a process that replicates a Node.
type Replica struct {
	Addr     string
	State    string        // such as online
	Lag      time.Duration // since it last reported its progress, in whole seconds
	LagBytes uint64        // bytes of changes that it has not confirmed yet
}
