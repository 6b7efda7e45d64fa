package queue

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// MaxCommands is the size of an array indexed by the number of a command. What the
// numbers mean is the doors' to agree on.
const MaxCommands = 64

// Counters are what the doors count. They only ever change by Add.
type Counters struct {
	Commands         [MaxCommands]atomic.Uint64
	TotalConnections atomic.Uint64 // so far
	Connections      atomic.Int64  // at present, as are:
	Producers        atomic.Int64  // connections that have put
	Workers          atomic.Int64  // connections that have reserved

	// What came of commands that were answered, and the bytes that clients have sent and
	// were sent.
	Results        [MaxCommands][NumResults]atomic.Uint64
	Received, Sent atomic.Uint64
}

// Result is what came of a command, as far as it is worth counting by itself.
type Result uint8

// The results.
const (
	Done       Result = iota // as asked for
	NotFound                 // there is no such job or tube, or it is not in a state for that
	TimedOut                 // a reserve got no job in its time
	Soon                     // a reserve was refused because a TTR is about to end
	Duplicate                // a put was refused because of its key
	Full                     // there is no room
	Refused                  // a put while draining
	BadRequest               // the client did not keep to the protocol, or to a limit
	Forbidden                // the client may not do that, or has not said who it is
	Failed                   // the store could not do it
	NumResults
)

// String returns the word for a result in metrics.
func (r Result) String() string {
	return [NumResults]string{"ok", "not_found", "timed_out", "deadline_soon", "duplicate", "no_room", "draining",
		"bad_request", "forbidden", "failed"}[r]
}

// Stats is the page about a whole server as a value.
type Stats struct {
	storage.Figures // the store's

	Commands         [MaxCommands]uint64
	TotalConnections uint64
	Connections      int64
	Producers        int64
	Workers          int64
	Waiting          int64 // reserves that wait for a job
	Draining         bool
	MaxJobSize       int    // bytes
	ID               string // of this run of the server: 16 hexadecimal digits
	Version          string // of the program
	Process          Process
	Machine          Machine
}

// Process is what the kernel says of this process.
type Process struct {
	PID                  int
	Uptime               time.Duration // since the queue was made
	UserTime, SystemTime time.Duration // of the processor
}

// Machine is what the kernel says of the machine, as uname does.
type Machine struct{ Hostname, OS, Platform string }

// StatsWith is the page about the server, with what the store has answered to a
// storage.Stats.
func (q *Queue) StatsWith(store *storage.Figures) *Stats {
	c := &q.Counters
	s := &Stats{
		Figures:          *store,
		TotalConnections: c.TotalConnections.Load(),
		Connections:      c.Connections.Load(),
		Producers:        c.Producers.Load(),
		Workers:          c.Workers.Load(),
		Waiting:          q.Waiters(),
		Draining:         q.Draining(),
		MaxJobSize:       q.config.MaxJobSize,
		ID:               q.id,
		Version:          q.config.Version,
		Process:          q.process(),
		Machine:          uname(),
	}
	for i := range c.Commands {
		s.Commands[i] = c.Commands[i].Load()
	}
	return s
}

// TubeStatsWith is the page about a tube, with what the store has answered to a
// storage.TubeStats. The store has counted the waits of other servers; TubeStatsWith
// adds those of this one.
func (q *Queue) TubeStatsWith(store *tube.TubeStats) *tube.TubeStats {
	s := *store
	s.Waiting += uint64(q.lists.waiting(s.Name))
	return &s
}

func (q *Queue) process() Process {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use) // cannot fail with these arguments
	return Process{
		PID: os.Getpid(), Uptime: time.Since(q.began),
		UserTime: time.Duration(use.Utime.Nano()), SystemTime: time.Duration(use.Stime.Nano()),
	}
}
