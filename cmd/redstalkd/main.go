package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"redstalk/server"
	"redstalk/server/metrics"
	"redstalk/storage"
)

// Version is that of this program. The Makefile sets it, with -ldflags "-X main.Version=1.2.3".
var Version = "dev"

func main() {
	raiseMaxProcs(os.LookupEnv)
	limitMemory(os.LookupEnv, int64(len(ballast)))
	signal.Ignore(syscall.SIGPIPE)
	stdlog.SetOutput(io.Discard) // net/http logs there what clients send
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2)
	m := Main{
		LookupEnv: os.LookupEnv, Environ: os.Environ(), Signals: signals, Stdin: os.Stdin,
		Notify: func(s os.Signal) { signal.Notify(signals, s) },
	}
	code := m.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// ballast is heap that is never touched, so it takes no physical memory, but the garbage
// collector counts it: it runs only after 16 MiB more of allocations. With few jobs it would
// run every few megabytes, which costs a sixth of the memory engine's throughput;
// with many it makes no difference.
var ballast = make([]byte, 16<<20)

// raiseMaxProcs raises GOMAXPROCS by one for each loop of the server, unless the
// environment sets it. A loop blocks in the kernel for its connections, and for the disk
// or Redis. Until the runtime notices, which can take 10 ms, timers and goroutines have
// one thread fewer, and on a machine with two processors sometimes none.
func raiseMaxProcs(env func(string) (string, bool)) {
	if _, set := env("GOMAXPROCS"); !set {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + server.Loops())
	}
}

// Main is the whole program. The zero value has an empty environment and gets
// no signals.
type Main struct {
	// LookupEnv is the environment, as os.LookupEnv.
	LookupEnv func(name string) (value string, found bool)

	// Environ lists the environment, as os.Environ, for warnings of unknown variables.
	Environ []string

	// Signals delivers SIGUSR1, SIGUSR2, SIGTERM and SIGINT, and the signals that Notify
	// subscribes to.
	Signals <-chan os.Signal

	// Notify, if not nil, subscribes to another signal.
	Notify func(os.Signal)

	// Stdin is where a secret is read from; nil is empty.
	Stdin io.Reader

	// Ready, if not nil, is called once, when connections are served.
	Ready func(net.Addr)

	// For tests, instead of openStore and storeLimit.
	open       func(context.Context, engine) (storage.Store, error)
	storeLimit time.Duration
}

// Run runs the program and returns its exit code. The end of ctx works like
// SIGTERM.
func (m *Main) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	end := func(line string) { io.WriteString(stderr, line) }
	log := stderr
	if mayBlock(stderr) {
		sink := newLineSink(stderr)
		log, end = sink, sink.close
	}
	err := m.run(ctx, args, stdout, stderr, &logging{log, end})
	if err == nil {
		end("")
		return 0
	}
	end(fmt.Sprintf("redstalkd: %s\n", oneLine(err.Error())))
	return exitCode(err)
}

// subcommand is what the program does instead of serving, selected by the first word.
type subcommand func(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) error

func (m *Main) commands() map[string]subcommand {
	return map[string]subcommand{"fsck": m.fsck, "import": m.importJobs, "export": m.export, "healthcheck": m.healthcheck, "secret": m.secret,
		"backup": m.backup, "restore": m.restore, "verify": m.verify}
}

func (m *Main) run(ctx context.Context, args []string, stdout, stderr io.Writer, log *logging) error {
	env := m.LookupEnv
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	if len(args) > 0 {
		if do := m.commands()[args[0]]; do != nil {
			if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
				args = []string{"-h"}
			} else {
				return do(ctx, args[1:], env, stdout, stderr)
			}
		}
	}
	args, takeOver, err := readOldProgram(args)
	if err != nil {
		return err
	}
	s, err := readSettings(args, env, stdout)
	if err != nil || s == nil {
		return err
	}
	if err := takeOver(s); err != nil {
		return err
	}
	s.warnUnknownVariables(m.Environ)
	if m.Notify != nil {
		m.Notify(syscall.SIGHUP) // which would end a subcommand
	}
	s.engine.log, s.engine.logging = newLog(log.Writer, s), log
	s.engine.maxJobSize = s.maxJobSize
	p := &program{
		settings: s, log: s.engine.log, announce: newAnnouncer(log.Writer, s), env: env, signals: m.Signals,
		ready: m.Ready, open: m.open, drain: drainSwitch{changed: make(chan struct{}, 1)}, storeLimit: m.storeLimit,
	}
	p.observer = metrics.New(metrics.Config{
		Tubes: s.metrics.tubes, ReadyLag: s.metrics.readyLag, Commands: server.CommandNames(), Version: Version, Log: p.log,
	})
	if p.ready == nil {
		p.ready = func(net.Addr) {}
	}
	if p.open == nil {
		p.open = openStore
	}
	if p.storeLimit == 0 {
		p.storeLimit = storeLimit
	}
	for _, w := range s.warnings {
		p.log.Warn(w)
	}
	if s.check {
		return p.checkConfiguration(stdout)
	}
	return p.run(ctx)
}
