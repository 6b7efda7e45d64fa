package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"redstalk/server"
	"redstalk/storage/redis"
)

// settings is what the command line and the environment ask for.
type settings struct {
	addr       string // to listen on: IP address, host name, or unix:PATH
	port       int    // 0: any that is free
	user       string // to become; "": nobody else
	maxJobSize int    // bytes, as queue.Config has it; negative: empty bodies only
	quoteStats bool
	verbosity  int
	logJSON    bool
	grace      time.Duration
	limits     limits
	engine     engine

	said     map[string]bool // listen, port, store, binlog: given, wherever
	warnings []string
}

// limits are those of connections.
type limits struct {
	connections  int           // 0: none; autoConnections: by the limit of descriptors
	idleTimeout  time.Duration // 0: never
	writeTimeout time.Duration // 0: never
}

// autoConnections asks for as many connections as there are descriptors,
// except those that the store may need: one that cannot open its next file has
// to end the program.
const autoConnections = -1

const (
	defaultMaxJobSize = 65535
	maxMaxJobSize     = 1 << 30
	defaultFileSize   = 10 << 20
	defaultReserve    = 64 << 20
	defaultStore      = "embedded:./redstalk-data"

	defaultStoreTimeout = 5 * time.Second

	// maxSyncMS is the longest time in milliseconds that a Duration can hold.
	maxSyncMS = math.MaxInt64 / uint64(time.Millisecond)
)

func defaults() *settings {
	return &settings{
		addr: "127.0.0.1", port: 11300, maxJobSize: defaultMaxJobSize, grace: 5 * time.Second,
		limits: limits{connections: autoConnections, writeTimeout: server.DefaultWriteTimeout},
		engine: engine{url: defaultStore, namespace: "redstalk", fileSize: defaultFileSize, reserve: defaultReserve, timeout: defaultStoreTimeout},
		said:   make(map[string]bool),
	}
}

// options is the table of flags, in the order of the help. Each but the last
// few has an environment variable named after it.
func (s *settings) options() []*option {
	return []*option{
		{short: 'l', name: "listen", value: "ADDR", set: s.setListen, initial: s.addr,
			help: "listen on this IP address or host name, or on unix:PATH"},
		{short: 'p', name: "port", value: "PORT", set: s.setPort, checkVariable: plainPort, initial: strconv.Itoa(s.port),
			help: "listen on this port, a number or the name of a service; 0 is any free one"},
		{name: "store", value: "URL", set: s.setStore, initial: s.engine.url, rivals: []string{"binlog"},
			help: "where jobs are kept: embedded:DIR, memory: (they end with the process),\n" +
				"redis://USER:PASSWORD@HOST:PORT/DB, rediss://... or unix:///PATH?db=N;\n" +
				"redis+sentinel://HOST:PORT,HOST:PORT/NAME/DB, redis+cluster://HOST:PORT,HOST:PORT;\n" +
				"a password is safer in the variable, which other users cannot see"},
		{name: "namespace", value: "NAME", set: s.setNamespace, initial: s.engine.namespace,
			help: "prefix of every key in Redis"},
		{name: "partitions", value: "N", set: s.setPartitions, initial: "1, on a cluster 16",
			help: "parts that the tubes are divided into in Redis, for ever"},
		{name: "store-timeout", value: "DURATION", set: s.setStoreTimeout, initial: s.engine.timeout.String(),
			help: "hold commands up for so long while Redis fails, before INTERNAL_ERROR"},
		{name: "wait-replicas", value: "N", set: s.setWaitReplicas, initial: "0",
			help: "with Redis, reply when so many replicas have the change"},
		{name: "allow-eviction", set: setBool(&s.engine.allowEviction),
			help: "serve from a Redis that deletes keys of its choice, jobs among them, when it is full"},
		{short: 'b', name: "binlog", value: "DIR", set: s.setBinlog, rivals: []string{"store"},
			help: "keep jobs in this directory: the same as --store embedded:DIR"},
		{short: 'f', name: "fsync-ms", value: "MS", set: s.setSync, checkVariable: wholeNumber(maxSyncMS), rivals: []string{"no-fsync"}, initial: "0",
			help: "with embedded:DIR, sync to the disk within MS milliseconds;\n0 is before every reply"},
		{short: 'F', name: "no-fsync", set: s.setNoSync, rivals: []string{"fsync-ms"},
			help: "with embedded:DIR, never sync; of -f and -F the last one counts"},
		{short: 's', name: "binlog-size", value: "BYTES", set: s.setFileSize, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultFileSize),
			help: "with embedded:DIR, about the size of each file of the log"},
		{name: "disk-reserve", value: "BYTES", set: s.setReserve, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultReserve),
			help: "with embedded:DIR, refuse puts while less than this is free on the disk; 0 for never"},
		{short: 'z', name: "max-job-size", value: "BYTES", set: s.setMaxJobSize, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultMaxJobSize),
			help: fmt.Sprintf("largest body of a job, at most %d", maxMaxJobSize)},
		{short: 'u', name: "user", value: "USER", set: notEmpty(&s.user),
			help: "become this user and their primary group, after listening"},
		{name: "max-connections", value: "N", set: s.setMaxConnections, initial: "auto",
			help: "close connections beyond so many at once; 0 for no limit; auto leaves some of\n" +
				"the process's file descriptors to the store"},
		{name: "idle-timeout", value: "DURATION", set: setLimit(&s.limits.idleTimeout), initial: "0",
			help: "close a connection that has sent nothing for so long, unless it waits in a\n" +
				"reserve or holds a job; 0 for never"},
		{name: "write-timeout", value: "DURATION", set: setLimit(&s.limits.writeTimeout), initial: s.limits.writeTimeout.String(),
			help: "close a connection that has read none of its waiting replies for so long;\n0 for never"},
		{name: "grace", value: "DURATION", set: s.setGrace, initial: s.grace.String(),
			help: "how long connections may take to finish what they have sent, at the end"},
		{name: "quote-stats", set: setBool(&s.quoteStats),
			help: "put strings on stats pages in quotes, as beanstalkd 1.13 does"},
		{name: "log-format", value: "FORMAT", set: s.setLogFormat, initial: "text",
			help: "text or json, on standard error"},
		{short: 'V', name: "verbose", set: s.setVerbose,
			help: "log more than warnings and errors: connections, with -VV commands as well;\nthe variable is a number"},
		{short: 'v', name: "version", help: "print the version"},
		{short: 'h', name: "help", help: "print this help"},
		{short: 'c', name: "c", hidden: true, set: s.ignore("-c")},
		{short: 'n', name: "n", hidden: true, set: s.ignore("-n")},
	}
}

// finish checks what can only be seen when everything has been read.
func (s *settings) finish(line *commandLine) error {
	switch both := s.said["binlog"] && s.said["store"]; {
	case both && line.said["binlog"]:
		return usageError("-b and --store both say where jobs are kept: give one of them")
	case both:
		return failure(exitUsage, "REDSTALK_BINLOG and REDSTALK_STORE both say where jobs are kept: set one of them")
	}
	return nil
}

func (s *settings) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

func (s *settings) setListen(v string) error {
	switch {
	case v == "":
		return errors.New("empty address; 0.0.0.0 is every one of this machine")
	case v == unixPrefix:
		return errors.New("unix: needs a path")
	case strings.Contains(v, "://"):
		return fmt.Errorf("%q is a URL, not an address", v)
	}
	s.addr, s.said["listen"] = v, true
	return nil
}

func (s *settings) setPort(v string) error {
	port, err := net.LookupPort("tcp", v)
	if err != nil || v == "" {
		return fmt.Errorf("%q is neither a port from 0 to 65535 nor a known service", v)
	}
	s.port, s.said["port"] = port, true
	return nil
}

func (s *settings) setStore(v string) error {
	scheme, rest, found := strings.Cut(v, ":")
	authority := strings.HasPrefix(rest, "//") && len(rest) > 2
	switch {
	case !found:
	case scheme == "memory" && rest == "",
		scheme == "embedded" && rest != "",
		redisSchemes[scheme] && authority:
		s.engine.url, s.said["store"] = v, true
		return nil
	}
	return fmt.Errorf("%q is none of memory:, embedded:DIR, redis://..., rediss://..., redis+sentinel://..., redis+cluster://... and unix:///PATH", v)
}

func (s *settings) setNamespace(v string) error {
	s.engine.namespace = v
	return redis.CheckNamespace(v)
}

func (s *settings) setPartitions(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n == 0 || n > redis.MaxPartitions {
		return fmt.Errorf("%q is not a number of partitions, 1 to %d", v, redis.MaxPartitions)
	}
	s.engine.partitions = int(n)
	return nil
}

func (s *settings) setBinlog(dir string) error {
	if dir == "" {
		return errors.New("empty directory name")
	}
	s.engine.url, s.said["binlog"] = "embedded:"+dir, true
	return nil
}

func (s *settings) setSync(v string) error {
	ms, err := parseSize(v)
	s.engine.syncEvery = time.Duration(min(ms, maxSyncMS)) * time.Millisecond
	return err
}

func (s *settings) setNoSync(v string) error {
	var never bool
	err := setBool(&never)(v)
	if never {
		s.engine.syncEvery = neverSync
	}
	return err
}

func (s *settings) setFileSize(v string) error {
	n, err := parseSize(v)
	s.engine.fileSize = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setReserve(v string) error {
	n, err := parseSize(v)
	s.engine.reserve = int64(min(n, math.MaxInt64))
	return err
}

func (s *settings) setMaxJobSize(v string) error {
	n, err := parseSize(v)
	if err != nil {
		return err
	}
	if n > maxMaxJobSize {
		n = maxMaxJobSize
		s.warn("maximum job size was set to %d", n)
	}
	s.maxJobSize = int(n)
	if n == 0 {
		s.maxJobSize = -1 // 0 asks the server for its default
	}
	return nil
}

func (s *settings) setGrace(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
	}
	s.grace = d
	return nil
}

func (s *settings) setMaxConnections(v string) error {
	if v == "auto" {
		s.limits.connections = autoConnections
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is neither a number of connections nor auto", v)
	}
	s.limits.connections = int(n)
	return nil
}

// setLimit takes a duration, of which 0 means that there is no limit.
func setLimit(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
		}
		*to = d
		return nil
	}
}

func (s *settings) setStoreTimeout(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms", v)
	}
	s.engine.timeout = d
	return nil
}

func (s *settings) setWaitReplicas(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return fmt.Errorf("%q is not a number of replicas", v)
	}
	s.engine.waitReplicas = int(n)
	return nil
}

func (s *settings) setLogFormat(v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("%q is neither text nor json", v)
	}
	s.logJSON = v == "json"
	return nil
}

// setVerbose counts, or is told the number.
func (s *settings) setVerbose(v string) error {
	if v == "true" {
		s.verbosity++
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is not a number of times", v)
	}
	s.verbosity = int(n)
	return nil
}

func (s *settings) ignore(flag string) func(string) error {
	return func(string) error {
		s.warn("flag %s is out of use and ignored", flag)
		return nil
	}
}

func setBool(to *bool) func(string) error {
	return func(v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		*to = b
		return nil
	}
}

func notEmpty(to *string) func(string) error {
	return func(v string) error {
		if v == "" {
			return errors.New("empty name")
		}
		*to = v
		return nil
	}
}

// wholeNumber accepts decimal digits only, of a number up to most.
func wholeNumber(most uint64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil || n > most {
			return fmt.Errorf("%q is not a number from 0 to %d", v, most)
		}
		return nil
	}
}

// plainPort refuses what looking up a port would skip or ignore: signs and blanks.
func plainPort(v string) error {
	if v[0] == '-' || v[0] == '+' || strings.ContainsAny(v, " \t\r\n") {
		return fmt.Errorf("%q is neither a port from 0 to 65535 nor a known service", v)
	}
	return nil
}

// parseSize reads a number as beanstalkd does, with C's strtoul: too large a
// number is the largest, and a negative one counts down from there.
func parseSize(v string) (uint64, error) {
	digits := strings.TrimPrefix(v, "-")
	if digits == v {
		digits = strings.TrimPrefix(v, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return math.MaxUint64, nil
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", v)
	case digits != v && v[0] == '-':
		return -n, nil
	}
	return n, nil
}
