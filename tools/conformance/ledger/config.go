package ledger

import (
	"time"
)

// Config describes the load.
type Config struct {
	// Addrs are the servers, all of them in front of the same jobs: host:port,
	// or the path of a unix socket.
	Addrs []string

	// How many connections of each kind; if all are 0, there are 4, 4, 1
	// and none. Bursters do what producers and consumers do, with many commands in
	// one packet.
	Producers, Consumers, Kickers, Bursters int

	// Leasers put jobs with keys and use leases, which only some servers have. They
	// have tubes of their own. LeasePace is the average pause of a leaser after each command.
	Leasers   int
	LeasePace time.Duration

	// GroupLimit, if not 0, is how many jobs of a group can be reserved in a tube at a time. Leasers put
	// their jobs into groups then, and pause these now and then.
	GroupLimit int

	// Settle is how long the move of their jobs from one tube to another may take; 20 s if 0.
	Settle time.Duration

	// MaxBurst is the largest number of commands in a packet of a burster, 512 if 0,
	// and BurstPace the average pause after each packet.
	MaxBurst  int
	BurstPace time.Duration

	// Name begins the name of each tube and the body of each job; "ledger" if
	// empty.
	Name string

	// Tubes is how many tubes there are; 3 if 0.
	Tubes int

	// Backlog is the largest number of jobs that were acknowledged and
	// not deleted; at that number producers wait. 2000 if 0.
	Backlog int

	// MinBody and MaxBody limit the bodies, in bytes, without the first
	// line of a body; 0 and 4096 if both are 0.
	MinBody, MaxBody int

	// LargestBody, if not 0, is the size of the whole body of a few jobs: one in
	// 500. Others, in a hundred, have up to 64 KiB.
	LargestBody int

	// Pace is the pause of a producer after each put.
	Pace time.Duration

	// Hold is the longest time that a consumer holds a job before it does
	// something with it.
	Hold time.Duration

	// MinFreeze and MaxFreeze are how long consumers and bursters freeze now and
	// then, while they hold jobs: each for a tenth of its time. If both are 0 they
	// do not.
	MinFreeze, MaxFreeze time.Duration

	// Patience is the timeout of a reply, after which the connection is
	// closed; 5 s if 0.
	Patience time.Duration

	// Seed determines all random choices, but not the order of events.
	Seed uint64

	// Refused, if not nil, is called by producers when a put is answered
	// OUT_OF_MEMORY or DRAINING.
	Refused func(error)

	// Excuse, if not nil, returns why a server may have given up reservations of its
	// clients since that moment: it was killed,
	// or cut off. It is "" if there is no reason. Without Excuse, reservations are
	// not checked.
	Excuse func(addr string, since time.Time) string
}

func (c *Config) setDefaults() {
	if c.Producers == 0 && c.Consumers == 0 && c.Bursters == 0 && c.Kickers == 0 && c.Leasers == 0 {
		c.Producers, c.Consumers, c.Kickers = 4, 4, 1
	}
	if c.MinBody == 0 && c.MaxBody == 0 {
		c.MaxBody = 4096
	}
	if c.Name == "" {
		c.Name = "ledger"
	}
	if c.Tubes == 0 {
		c.Tubes = 3
	}
	if c.Backlog == 0 {
		c.Backlog = 2000
	}
	if c.MaxBurst == 0 {
		c.MaxBurst = 512
	}
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	if c.Settle == 0 {
		c.Settle = 20 * time.Second
	}
	if c.Refused == nil {
		c.Refused = func(error) {}
	}
}
