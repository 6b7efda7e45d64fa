package differ

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// defaultMax is the longest body of a server without -z.
const defaultMax = 65535

// Config is what to play and the servers to play it on.
type Config struct {
	// Judge and Subject start a fresh and empty server with these flags. They
	// are called from several goroutines.
	Judge, Subject func(flags ...string) (Server, error)

	Seed     uint64 // scripts are made from it and their number
	Plain    int    // commands to compare in scripts without time
	Timed    int    // commands to compare in scripts with time
	Length   int    // steps of a plain script; 600 if 0
	Parallel int    // plain scripts at a time; 3 if 0
	Crowd    int    // timed scripts at a time; 24 if 0

	// Unordered: the subject lists tubes in an order of its own.
	Unordered bool

	// Lag is how long the figures in lagging can be out of date, because the subject
	// consists of several processes; 0: they never are.
	Lag time.Duration
	// Patience is the timeout of a reply of the subject; 5 s if 0.
	Patience time.Duration
	// Shrink is the longest time for reducing a failing script; a minute if 0.
	Shrink time.Duration
	// Faults is the number of different faults after which Run stops;
	// 1 if 0.
	Faults int
	// Log, if not nil, reports findings.
	Log func(format string, args ...any)
}

// Report is the result of a run.
type Report struct {
	Plain, Timed int // commands compared
	Scripts      int // of both kinds
	TimedScripts int
	Voided       int // timed scripts that a slow machine has cut short
	Doubtful     int // timed scripts that failed once and not again, as far as the machine let them
	Coverage     Coverage
	Found        []Finding
}

// Finding is a fault and the smallest script that was found to show it.
type Finding struct {
	Fault      *Fault
	Seed       uint64
	Number     int // of the script, by which it can be made again
	Transcript string
}

// String is what a failing test prints.
func (f Finding) String() string {
	return fmt.Sprintf("%v\n(seed %d, script %d)\n\n%s", f.Fault, f.Seed, f.Number, f.Transcript)
}

func (c Config) withDefaults() Config {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&c.Length, 600)
	def(&c.Parallel, 3)
	def(&c.Crowd, 24)
	def(&c.Faults, 1)
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	if c.Shrink == 0 {
		c.Shrink = time.Minute
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return c
}

// run is one call of Run.
type run struct {
	Config
	mu     sync.Mutex
	report Report
	failed []failure
	number int // scripts begun
	stop   context.CancelFunc
}

// Run plays scripts until the configured number of commands was compared or
// enough faults were found. An error is not a fault of the subject: a server
// could not be started, or the judge did not answer correctly.
func Run(ctx context.Context, config Config) (*Report, error) {
	r := &run{Config: config.withDefaults(), report: Report{Coverage: make(Coverage)}}
	err := r.phase(ctx, false, min(r.Parallel, scripts(r.Plain, r.Length)))
	if err == nil {
		err = r.phase(ctx, true, min(r.Crowd, scripts(r.Timed, r.timedLength())))
	}
	for _, f := range r.failed {
		r.report.Found = append(r.report.Found, r.reduce(f))
	}
	return &r.report, err
}

// scripts returns the number of scripts of a length that compare at least this many
// commands.
func scripts(commands, length int) int { return (commands + length - 1) / length }

// phase plays scripts of one kind, several concurrently.
func (r *run) phase(ctx context.Context, timed bool, workers int) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	begun := time.Now()
	defer func() { r.Log("timed: %v, took %v", timed, time.Since(begun).Round(time.Millisecond)) }()
	errs := make(chan error, workers)
	for range workers {
		go func() { errs <- r.work(ctx, timed) }()
	}
	var all []error
	for range workers {
		err := <-errs
		if err != nil {
			r.stop()
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (r *run) work(ctx context.Context, timed bool) error {
	for {
		number, more := r.nextNumber(ctx, timed)
		if !more {
			return nil
		}
		e, err := r.playOne(number, timed)
		if err != nil {
			return fmt.Errorf("script %d of seed %d: %w", number, r.Seed, err)
		}
		r.count(e, timed)
	}
}

// nextNumber returns the number of the next script.
func (r *run) nextNumber(ctx context.Context, timed bool) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	enough := r.report.Plain >= r.Plain
	if timed {
		enough = r.report.Timed >= r.Timed
	}
	if ctx.Err() != nil || enough || len(r.failed) >= r.Faults {
		return 0, false
	}
	r.number++
	return r.number, true
}

func (r *run) count(e *episode, timed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Scripts++
	if timed {
		r.report.Timed += e.compared
		r.report.TimedScripts++
	} else {
		r.report.Plain += e.compared
	}
	r.report.Coverage.merge(e.covered)
}

// timedMost is the largest number of steps of a timed script; six of them take about a
// second.
const timedMost = 250

// timedLength is the number of steps of a timed script, so that there are enough
// scripts for all workers.
func (r *run) timedLength() int { return min(max(r.Timed/r.Crowd, 25), timedMost) }

// playOne generates and plays one script.
func (r *run) playOne(number int, timed bool) (*episode, error) {
	random := rand.New(rand.NewPCG(r.Seed, uint64(number)))
	e, err := r.episode(number, timed)
	if err != nil {
		return nil, err
	}
	defer e.close()
	length := r.Length
	if timed {
		length = r.timedLength()
	}
	err = e.play(newGenerator(e, random, length).next)
	var fault *Fault
	switch {
	case errors.Is(err, errVoid):
		r.Log("script %d: %v", number, err)
		r.mu.Lock()
		r.report.Voided++
		r.mu.Unlock()
		return e, nil
	case errors.As(err, &fault):
		r.fail(failure{fault, number, timed, e.script, e.transcript(fault.Error()), e.slow})
		return e, nil
	case err != nil:
		return nil, fmt.Errorf("%w\n%s", err, e.transcript("what was played"))
	}
	return e, nil
}

// maxima are the limits on bodies that scripts are played with.
var maxima = []int{40, 300, defaultMax}

// episode starts a pair of servers for the script of that number.
func (r *run) episode(number int, timed bool) (*episode, error) {
	e := &episode{
		timed: timed, max: maxima[number%len(maxima)], patience: r.Patience, lag: r.Lag, unordered: r.Unordered,
		conns: make(map[int]*conn), gone: make(map[int]bool),
		jobs: make(map[int]*job), byJudge: make(map[uint64]int), bySubject: make(map[uint64]int),
		delays: make(map[uint64]bool), fresh: unnamed, covered: make(Coverage),
	}
	var flags []string
	if e.max != defaultMax {
		flags = []string{"-z", fmt.Sprint(e.max)}
	}
	judge, err := r.Judge(flags...)
	if err != nil {
		return nil, err
	}
	subject, err := r.Subject(flags...)
	if err != nil {
		judge.Stop()
		return nil, err
	}
	if e.judge, err = newSide("judge", judge); err == nil {
		if e.subject, err = newSide("subject", subject); err == nil {
			return e, nil
		}
		e.judge.control.Close()
	}
	judge.Stop()
	subject.Stop()
	return nil, err
}

// unnamed is the first label of jobs that the script does not name.
const unnamed = 100_000

func (e *episode) close() {
	e.judge.stop()
	e.subject.stop()
}
