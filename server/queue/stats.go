package queue

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// MaxCommands is the size of arrays indexed by the number of a command. The listeners agree
// on what the numbers mean.
const MaxCommands = 96

// Counters are the counters of the listeners. They only ever change by Add.
type Counters struct {
	Commands         [MaxCommands]atomic.Uint64
	TotalConnections atomic.Uint64 // so far
	Connections      atomic.Int64  // current, as are the two below
	Producers        atomic.Int64  // connections that have put
	Workers          atomic.Int64  // connections that have reserved

	// Results of answered commands, and bytes received from and sent to clients.
	Results        [MaxCommands][NumResults]atomic.Uint64
	Received, Sent atomic.Uint64
}

// Result classifies the outcome of a command for the counters.
type Result uint8

// The results.
const (
	Done       Result = iota // success
	NotFound                 // no such job or tube, or it is not in a suitable state
	TimedOut                 // a reserve got no job within its time limit
	Soon                     // a reserve was refused because a TTR is about to end
	Duplicate                // a put was refused because of its key
	Full                     // there is no room
	Refused                  // a put during draining, or into a batch that is sealed
	BadRequest               // the client violated the protocol or a limit
	Forbidden                // permission denied, or not authenticated
	Failed                   // the store failed
	NumResults
)

// String returns the name of a result in metrics.
func (r Result) String() string {
	return [NumResults]string{"ok", "not_found", "timed_out", "deadline_soon", "duplicate", "no_room", "draining",
		"bad_request", "forbidden", "failed"}[r]
}

// Stats is the stats page of the server as a value.
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

// Process is what the kernel says about this process.
type Process struct {
	PID                  int
	Uptime               time.Duration // since New
	UserTime, SystemTime time.Duration // CPU time
}

// Machine is what the kernel says about the machine, as uname does.
type Machine struct{ Hostname, OS, Platform string }

// StatsWith returns the stats of the server, given the store's answer to a storage.Stats.
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

// TubeStatsWith returns the stats of a tube, given the store's answer to a
// storage.TubeStats. The store has counted the waiters of other servers; TubeStatsWith adds
// those of this one.
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
