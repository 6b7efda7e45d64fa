package main

import (
	"fmt"
	"math"
	"time"

	"redstalk/server"
	"redstalk/server/access"
	"redstalk/server/httpapi"
	"redstalk/server/limits"
	"redstalk/tube"
)

// settings are the values of all flags and variables.
type settings struct {
	addr         string // to listen on: IP address, host name, or unix:PATH
	port         int    // 0: any that is free
	user         string // to become; "": do not change
	maxJobSize   int    // bytes, as in queue.Config; negative: empty bodies only
	quoteStats   bool
	verbosity    int
	quiet        bool // no line when it serves
	logJSON      bool
	grace        time.Duration
	limits       limitSettings
	engine       engine
	http         httpSettings
	gateways     gatewaySettings
	metrics      metricsSettings
	pushes       pushSettings
	noImport     bool   // of a binlog in the directory of the store
	upstream     string // address of the old server whose jobs are migrated; "": none
	upstreamRate float64
	guards       guardSettings
	otlp         string // base URL of the collector of spans; "": none
	auditPath    string // of the file to which administrative acts are logged; "": none

	check    bool              // print the configuration instead of serving
	origins  map[string]origin // of the values that are no defaults, by the name of the option
	given    map[string]bool   // listen, port, store, binlog: given by flag or variable
	warnings []string
}

// limitSettings are the limits of connections.
type limitSettings struct {
	connections  int           // 0: no limit; autoConnections: from the limit of descriptors
	idleTimeout  time.Duration // 0: never
	writeTimeout time.Duration // 0: never
	unread       int64         // bytes over all connections; 0: no limit
	incoming     int64         // likewise
}

// httpSettings are the settings of the HTTP API.
type httpSettings struct {
	addr       string   // HOST:PORT, :PORT or unix:PATH; "": not served
	origins    []string // other sites whose pages may use it
	hosts      []string // for httpserve.Config.Hosts
	proxies    access.Proxies
	maxWaiting int // requests that may wait for jobs at the same time
}

// autoConnections limits connections to the number of descriptors, less those
// that the store may need: a store that cannot open its next file ends the
// program.
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
		addr: "127.0.0.1", port: 11300, upstreamRate: defaultUpstreamRate, maxJobSize: defaultMaxJobSize, grace: 5 * time.Second,
		limits:  limitSettings{connections: autoConnections, writeTimeout: server.DefaultWriteTimeout, unread: limits.DefaultUnread, incoming: limits.DefaultIncoming},
		engine:  engine{url: defaultStore, namespace: "redstalk", fileSize: defaultFileSize, reserve: defaultReserve, history: tube.DefaultHistoryBytes, timeout: defaultStoreTimeout},
		http:    httpSettings{maxWaiting: httpapi.DefaultMaxWaiting},
		metrics: defaultMetrics(),
		guards:  guardSettings{authTimeout: server.DefaultAuthTimeout, unauthenticated: server.DefaultMaxUnauthenticated},
		given:   make(map[string]bool),
		origins: make(map[string]origin),
	}
}

// finish checks the settings against each other, after all have been read.
func (s *settings) finish(line *commandLine) error {
	switch both := s.given["binlog"] && s.given["store"]; {
	case both && line.given["binlog"]:
		return usageError("-b and --store both name a store: give one of them")
	case both:
		return failure(exitUsage, "REDSTALK_BINLOG and REDSTALK_STORE both name a store: set one of them")
	}
	if push := s.pushes; push.allow == nil && (push.secrets != "" || push.ca != "" || push.proxy) {
		s.warn("--push-secrets, --push-ca and --push-proxy mean nothing without --push-allow")
	}
	return s.guards.check()
}

func (s *settings) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}
