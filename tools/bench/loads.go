package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"redstalk/protocol/client"
)

// The modes of a load.
const (
	modePut     = "put"     // only puts
	modeCycle   = "cycle"   // put, reserve, delete
	modePC      = "pc"      // producers and consumers on separate connections
	modeDelayed = "delayed" // the same, with delayed jobs at a set rate
	modeExpire  = "expire"  // the same, with jobs whose holders let the TTR end
	modeHTTP    = "http"    // put, reserve, finish over HTTP
)

// A load describes a load on a server. Sizes are in bytes.
type load struct {
	Name        string        `json:"name,omitempty"`
	Mode        string        `json:"mode"`
	Conns       int           `json:"conns"`
	Pipeline    int           `json:"pipeline"` // commands in one write
	Body        int           `json:"body"`
	Tubes       int           `json:"tubes"`      // that the connections are spread over
	IdleTubes   int           `json:"idle_tubes"` // with one ready job each
	Groups      int           `json:"groups"`     // put, cycle: of the jobs, in each tube, with a limit that does not bind; 0: none
	Days        int           `json:"days"`       // put: the jobs are due at random times in so many days
	Backlog     int           `json:"backlog"`    // jobs ready beforehand
	BacklogSame bool          `json:"backlog_same"`
	Delay       int           `json:"delay_s"` // delayed: seconds
	TTR         int           `json:"ttr_s"`   // expire: seconds
	Rate        int           `json:"rate"`    // delayed, expire: jobs a second in all
	Duration    time.Duration `json:"duration_ns"`
	Threads     int           `json:"threads"` // of the generator
	Blocking    bool          `json:"blocking"`
	Keep        bool          `json:"keep"`
}

// baseLoad is a load with the default settings.
func baseLoad() load {
	return load{
		Mode: modeCycle, Conns: 50, Pipeline: 1, Body: 128, Tubes: 1,
		Delay: 1, TTR: 1, Rate: 5000, Duration: 5 * time.Second, Threads: 1,
	}
}

// timed reports whether jobs are put at a fixed rate, and the time of their delivery is
// measured.
func (l *load) timed() bool { return l.Mode == modeDelayed || l.Mode == modeExpire }

// paired reports whether half of the connections put jobs, and the others wait for
// them.
func (l *load) paired() bool { return l.Mode == modePC || l.timed() }

// check returns an error if the load is invalid.
func (l *load) check() error {
	paired := l.paired()
	switch {
	case l.Mode != modePut && l.Mode != modeCycle && l.Mode != modeHTTP && !paired:
		return fmt.Errorf("unknown mode %q: use put, cycle, pc, delayed, expire or http", l.Mode)
	case l.Mode == modeHTTP && (l.IdleTubes > 0 || l.Backlog > 0 || l.Pipeline > maxHTTPBatch):
		return fmt.Errorf("mode http has no jobs beforehand, and at most %d jobs in a request", maxHTTPBatch)
	case l.Conns < 1 || l.Pipeline < 1 || l.Tubes < 1 || l.Threads < 1:
		return errors.New("connections, pipeline, tubes and threads must be 1 or more")
	case l.Body < 0 || l.Body > client.MaxBody || l.IdleTubes < 0 || l.Backlog < 0:
		return errors.New("body, idle tubes and backlog must not be negative, nor a body above 1 GiB")
	case paired && l.Body < stampLen:
		return fmt.Errorf("mode %s needs a body of %d bytes or more", l.Mode, stampLen)
	case paired && l.Conns < 2*l.Tubes:
		return fmt.Errorf("mode %s needs two connections or more per tube", l.Mode)
	case l.Groups < 0 || l.Groups > maxGroups || l.Groups > 0 && l.Mode != modePut && l.Mode != modeCycle:
		return fmt.Errorf("modes put and cycle can have up to %d groups, others none", maxGroups)
	case paired && l.BacklogSame:
		return fmt.Errorf("mode %s cannot have a backlog in its own tube", l.Mode)
	case l.timed() && (l.Delay < 0 || l.TTR < 1 || l.Rate < 1):
		return fmt.Errorf("mode %s needs a delay of 0 or more, and a TTR and a rate of 1 or more", l.Mode)
	case l.Duration <= 0:
		return errors.New("the duration must be above zero")
	}
	return nil
}

// String describes the load in a few words.
func (l *load) String() string {
	parts := []string{fmt.Sprintf("%s, %d connections", l.Mode, l.Conns)}
	switch {
	case l.Pipeline > 1 && l.Mode == modeHTTP:
		parts = append(parts, fmt.Sprintf("%d jobs a request", l.Pipeline))
	case l.Pipeline > 1:
		parts = append(parts, fmt.Sprintf("pipeline %d", l.Pipeline))
	}
	parts = append(parts, fmt.Sprintf("%d-byte bodies", l.Body))
	if l.Tubes > 1 {
		parts = append(parts, fmt.Sprintf("%d tubes", l.Tubes))
	}
	if l.IdleTubes > 0 {
		parts = append(parts, fmt.Sprintf("%d more tubes with a job each", l.IdleTubes))
	}
	if l.Groups > 0 {
		parts = append(parts, fmt.Sprintf("%d groups", l.Groups))
	}
	if l.Days > 0 {
		parts = append(parts, fmt.Sprintf("due within %d days", l.Days))
	}
	if l.Backlog > 0 {
		where := "another tube"
		if l.BacklogSame {
			where = "the same tube"
		}
		parts = append(parts, fmt.Sprintf("%d jobs ready in %s", l.Backlog, where))
	}
	if l.Mode == modeDelayed {
		parts = append(parts, fmt.Sprintf("%d jobs/s delayed %d s", l.Rate, l.Delay))
	}
	if l.Mode == modeExpire {
		parts = append(parts, fmt.Sprintf("%d jobs/s reserved for a TTR of %d s", l.Rate, l.TTR))
	}
	return strings.Join(parts, ", ")
}

// namedLoads are the loads that compare knows by name, in order of display. Each
// changes the base load.
var namedLoads = []struct {
	name   string
	change func(*load)
}{
	{"1c", func(l *load) { l.Conns = 1 }},
	{"50c", func(*load) {}},
	{"500c", func(l *load) { l.Conns = 500 }},
	{"50c-p16", func(l *load) { l.Pipeline = 16 }},
	{"50c-p16-groups", func(l *load) { l.Pipeline, l.Groups = 16, 10_000 }},
	{"50c-put", func(l *load) { l.Mode = modePut }},
	{"50c-p32-put", func(l *load) { l.Mode, l.Pipeline = modePut, 32 }},
	{"50c-put-later", func(l *load) { l.Mode, l.Days, l.Keep = modePut, 30, true }},
	{"50c-p32-put-later", func(l *load) { l.Mode, l.Pipeline, l.Days, l.Keep = modePut, 32, 30, true }},
	{"tubes10k", func(l *load) { l.Tubes, l.IdleTubes = 50, 10_000 }},
	{"backlog100k", func(l *load) { l.Backlog = 100_000 }},
	{"backlog100k-same", func(l *load) { l.Backlog, l.BacklogSame = 100_000, true }},
	{"50c-4k", func(l *load) { l.Body = 4 << 10 }},
	{"50c-10k", func(l *load) { l.Body = 10 << 10 }},
	{"50c-100k", func(l *load) { l.Body = 100 << 10 }}, // beanstalkd and redstalkd need -z for this one
	{"50c-1m", func(l *load) { l.Body = 1 << 20 }},     // and for this
	{"50c-pc", func(l *load) { l.Mode = modePC }},
	{"delayed", func(l *load) { l.Mode = modeDelayed }},
	{"wakeup", func(l *load) { l.Mode, l.Delay, l.Rate, l.Conns = modeDelayed, 0, 500, 2 }}, // one puts, the other waits for it
	{"expire", func(l *load) { l.Mode = modeExpire }},
	{"http", func(l *load) { l.Mode = modeHTTP }}, // the server's {port} has to be that of HTTP
	{"http-p100", func(l *load) { l.Mode, l.Pipeline = modeHTTP, 100 }},
}

// maxHTTPBatch is the largest number of jobs in a request.
const maxHTTPBatch = 1000

// defaultLoads are the loads that compare runs by default.
const defaultLoads = "50c,50c-p16,50c-p32-put,500c,1c,tubes10k"

// loadNamed finds a load by its name.
func loadNamed(name string) (load, error) {
	var known []string
	for _, n := range namedLoads {
		if n.name == name {
			l := baseLoad()
			l.Name = name
			n.change(&l)
			return l, nil
		}
		known = append(known, n.name)
	}
	return load{}, fmt.Errorf("unknown load %q: use %s", name, strings.Join(known, ", "))
}
