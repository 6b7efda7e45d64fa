package worker

import (
	"log/slog"
	"os"
	"syscall"
	"time"

	"redstalk/clients/go/internal/usercode"
)

// Config is the configuration of a [Worker]. The zero value is ready to use.
type Config struct {
	// Tubes are the tubes to take jobs from, with their weights: with 3 and 1, three of four jobs come from
	// the first while both have jobs. By default these are the tubes of the Mux, with equal weights.
	Tubes map[string]int

	// StrictPriority takes jobs from a tube only while those with larger weights have none.
	StrictPriority bool

	// Concurrency is the number of handlers that run at the same time; 10 by default.
	Concurrency int

	// Timeout is how long a handler can run; 30 minutes by default, and without a limit if it is negative. [WithTimeout] and
	// [Job.SetTimeout] change it. Then the context of the handler ends, and its job fails with the reason "timeout" unless it returns nil, [Skip],
	// [Snooze] or [ErrNotFinished]. It fails as well if the handler does not return within ten seconds. Such a handler is logged, and counts for Concurrency until it returns.
	Timeout time.Duration

	// ShutdownTimeout is how long handlers have to end at shutdown; 25 s by default. Then their contexts end, and a
	// second later the jobs that are left are given back.
	ShutdownTimeout time.Duration

	// Backoff decides about a failed job for which the server has no retry waits.
	// By default Exponential(time.Second, time.Hour, 0), which also applies if it panics, or returns a wait
	// that is too long for the server.
	Backoff Backoff

	// OnError is called after each failure of a job, for example to report it: with what its handler has returned, a [*PanicError] if it
	// panicked, or an [ErrTimeout] when its time was over, and with what becomes of the job. Handlers wait for it, and it is called from several
	// goroutines. If it panics, that is logged.
	OnError func(job *Job, err error, then Outcome)

	// Schedules are periodic jobs, by the names of their schedules. See [Periodic].
	Schedules map[string]Periodic

	// Logger receives failures of jobs and of the connection; slog.Default() by default.
	Logger *slog.Logger

	// Signals shut the worker down; SIGINT and SIGTERM by default. Use an empty, non-nil slice for none.
	Signals []os.Signal
}

func (c *Config) setDefaults() {
	if c.Concurrency <= 0 {
		c.Concurrency = 10
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Minute
	}
	if c.ShutdownTimeout <= 0 {
		c.ShutdownTimeout = 25 * time.Second
	}
	if c.Backoff == nil {
		c.Backoff = defaultBackoff
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = usercode.Logger(c.Logger)
	if c.Signals == nil {
		c.Signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
}
