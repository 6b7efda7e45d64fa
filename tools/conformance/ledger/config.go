package ledger

import (
	"time"
)

// Config says what the load is like.
type Config struct {
	// Addrs are the servers, all of them in front of the same jobs: host:port,
	// or the path of a unix socket.
	Addrs []string

	// How many connections of each kind; if all are 0, there are 4, 4, 1
	// and none. Bursters do what producers and consumers do, with many commands in
	// one packet.
	Producers, Consumers, Kickers, Bursters int

	// Leasers put jobs with keys and have jobs by leases, which only some servers know. They
	// have tubes of their own. LeasePace is how long one rests after each command, on average.
	Leasers   int
	LeasePace time.Duration

	// Settle is how long their jobs may be on the way from one tube to another; 20 s if 0.
	Settle time.Duration

	// MaxBurst is how many commands a packet of a burster has at most, 512 if 0,
	// and BurstPace how long one rests after each, on average.
	MaxBurst  int
	BurstPace time.Duration

	// Name begins the name of each tube and the body of each job; "ledger" if
	// empty.
	Name string

	// Tubes is how many tubes there are; 3 if 0.
	Tubes int

	// Backlog is how many jobs there are at most that were acknowledged and
	// not deleted; producers wait then. 2000 if 0.
	Backlog int

	// MinBody and MaxBody bound the bodies, in bytes, except for the few that a
	// body's first line takes; 0 and 4096 if both are 0.
	MinBody, MaxBody int

	// LargestBody, if not 0, is the size of the whole body of a few jobs: one in
	// 500. Others, in a hundred, have up to 64 KiB.
	LargestBody int

	// Pace is how long a producer rests after each put.
	Pace time.Duration

	// Hold is how long a consumer keeps a job at most before it does
	// something with it.
	Hold time.Duration

	// MinFreeze and MaxFreeze are how long consumers and bursters freeze now and
	// then, while they hold jobs: each for a tenth of its time. If both are 0 they
	// do not.
	MinFreeze, MaxFreeze time.Duration

	// Patience is how long a reply is waited for before the connection is
	// given up; 5 s if 0.
	Patience time.Duration

	// Seed makes all choices; the order of events is the machine's.
	Seed uint64

	// Refused, if not nil, is called by producers when a put is answered
	// OUT_OF_MEMORY or DRAINING.
	Refused func(error)

	// Excuse, if not nil, returns why a server may have given up what its
	// clients had reserved since that moment, and still had: it was killed,
	// or cut off. It is "" if there is no reason. Without Excuse nothing is
	// held against anyone that concerns reservations.
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
