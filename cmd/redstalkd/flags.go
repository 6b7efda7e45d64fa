package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"redstalk/server/limits"
	"redstalk/tube"
)

// options is the table of flags, in the order of the help. Except for the last few, each has an
// environment variable named after it.
func (s *settings) options() []*option {
	return slices.Concat(s.listenOptions(), s.storeOptions(), s.limitOptions(), s.httpOptions(), s.gatewayOptions(), s.pushOptions(), s.guardOptions(), s.otherOptions())
}

// listenOptions are the address of the beanstalk port.
func (s *settings) listenOptions() []*option {
	return []*option{
		{short: 'l', name: "listen", value: "ADDR", set: s.setListen, initial: s.addr,
			help: "listen on this IP address or host name, or on unix:PATH?mode=0660&group=NAME"},
		{short: 'p', name: "port", value: "PORT", set: s.setPort, checkVariable: plainPort, initial: strconv.Itoa(s.port),
			help: "listen on this port, a number or the name of a service; 0 is any free one"},
	}
}

// storeOptions choose the store and its durability.
func (s *settings) storeOptions() []*option {
	return []*option{
		{name: "store", value: "URL", set: s.setStore, initial: s.engine.url, rivals: []string{"binlog"},
			help: "where jobs are stored: embedded:DIR, memory: (they end with the process),\n" +
				"redis://USER:PASSWORD@HOST:PORT/DB, rediss://... or unix:///PATH?db=N;\n" +
				"redis+sentinel://HOST:PORT,HOST:PORT/NAME/DB, redis+cluster://HOST:PORT,HOST:PORT;\n" +
				"a password is safer in the variable, which other users cannot see"},
		{name: "namespace", value: "NAME", set: s.setNamespace, initial: s.engine.namespace,
			help: "prefix of every key in Redis"},
		{name: "partitions", value: "N", set: s.setPartitions, initial: "1, on a cluster 16",
			help: "divide the tubes into N partitions in Redis; it cannot be changed later"},
		{name: "store-timeout", value: "DURATION", set: s.setStoreTimeout, initial: s.engine.timeout.String(),
			help: "while Redis fails, let commands wait this long before INTERNAL_ERROR, and a start\nbefore it gives up"},
		{name: "wait-replicas", value: "N", set: s.setWaitReplicas, initial: "0",
			help: "with Redis, reply only when N replicas have the change"},
		{name: "allow-eviction", set: setBool(&s.engine.allowEviction),
			help: "accept a Redis that evicts keys, jobs among them, when it is full"},
		{short: 'b', name: "binlog", value: "DIR", set: s.setBinlog, rivals: []string{"store"},
			help: "store jobs in this directory: the same as --store embedded:DIR"},
		{name: "new-store", set: setBool(&s.engine.newStore),
			help: "with embedded:DIR, make a new store even if DIR has other files in it"},
		s.noImportOption(), s.upstreamOption(), s.upstreamRateOption(),
		{short: 'f', name: "fsync-ms", value: "MS", set: s.setSync, checkVariable: wholeNumber(maxSyncMS), rivals: []string{"no-fsync"}, initial: "0",
			help: "with embedded:DIR, sync to disk within MS milliseconds;\n0 is before every reply"},
		{short: 'F', name: "no-fsync", set: s.setNoSync, rivals: []string{"fsync-ms"},
			help: "with embedded:DIR, never sync; of -f and -F the last one wins"},
		{short: 's', name: "binlog-size", value: "BYTES", set: s.setFileSize, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultFileSize),
			help: "with embedded:DIR, the approximate size of each log segment"},
		{name: "disk-reserve", value: "BYTES", set: s.setReserve, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultReserve),
			help: "with embedded:DIR, refuse puts while less disk space than this is free; 0 for never"},
		{name: "history-bytes", value: "BYTES", set: s.setHistory, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(tube.DefaultHistoryBytes),
			help: "keep at most so many bytes of records of ended jobs; 0 for none"},
	}
}

// limitOptions are the limits for clients.
func (s *settings) limitOptions() []*option {
	return []*option{
		{short: 'z', name: "max-job-size", value: "BYTES", set: s.setMaxJobSize, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultMaxJobSize),
			help: fmt.Sprintf("largest body of a job, at most %d", maxMaxJobSize)},
		{short: 'u', name: "user", value: "USER", set: setNonEmpty(&s.user),
			help: "become this user and their primary group, after listening"},
		{name: "max-connections", value: "N", set: s.setMaxConnections, initial: "auto",
			help: "close connections beyond N, on all listeners together; 0 for no limit; auto\n" +
				"leaves some of the process's file descriptors for everything else"},
		{name: "idle-timeout", value: "DURATION", set: setTimeout(&s.limits.idleTimeout), initial: "0",
			help: "close a connection that has sent nothing for this long, unless it waits in a\n" +
				"reserve or holds a job; 0 for never"},
		{name: "write-timeout", value: "DURATION", set: setTimeout(&s.limits.writeTimeout), initial: s.limits.writeTimeout.String(),
			help: "close a connection that has read none of its pending replies for this long;\n0 for never"},
		{name: "max-unread", value: "BYTES", set: s.setMaxUnread, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(limits.DefaultUnread),
			help: "close the slowest readers while unread replies take more than this, over all\nconnections; 0 for no limit"},
		{name: "max-incoming", value: "BYTES", set: s.setMaxIncoming, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(limits.DefaultIncoming),
			help: "while partly received bodies take more than this, over all connections, let\nothers wait and close the slowest senders; 0 for no limit"},
	}
}

// httpOptions are the flags of the HTTP API and the metrics.
func (s *settings) httpOptions() []*option {
	return []*option{
		{name: "http", value: "ADDR", set: setAddress(&s.http.addr),
			help: "serve HTTP on HOST:PORT, :PORT or unix:PATH"},
		{name: "http-host", value: "NAMES", set: s.setHosts, repeated: true,
			help: "names to accept in the header Host of HTTP requests, beside those of this\nmachine, such as queue.example.org; *.example.org for all its subdomains, * for any;\ncan be repeated, or several with commas"},
		{name: "http-origin", value: "ORIGINS", set: s.setOrigins,
			help: "other sites, such as https://ops.example.org, whose pages may use the HTTP API\nfrom a browser; several with commas"},
		{name: "trust-proxy", value: "NETWORKS", set: s.setProxies, repeated: true,
			help: "reverse proxies in front of --http and --http-tls that say who has signed on, and\nfrom which address: addresses, networks such as 10.0.0.0/24, or unix for unix\nsockets; can be repeated, or several with commas"},
		{name: "http-max-waiting", value: "N", set: s.setMaxWaiting, initial: strconv.Itoa(s.http.maxWaiting),
			help: "refuse HTTP requests that would wait for jobs while N already wait, per listener"},
		{name: "metrics-tubes", value: "N", set: s.setMetricsTubes, checkVariable: wholeNumber(maxNamedTubes), initial: strconv.Itoa(s.metrics.tubes),
			help: "show N tubes by name in the metrics, and the rest as one"},
		{name: "ready-lag", value: "DURATION", set: s.setReadyLag, initial: s.metrics.readyLag.String(),
			help: "report on /readyz that the server is not ready while timer lag exceeds this"},
	}
}

// guardOptions are the flags of access control and TLS.
func (s *settings) guardOptions() []*option {
	return []*option{
		{name: "access", value: "FILE", set: setNonEmpty(&s.guards.access),
			help: "let in only the users of this file, with the rights it gives; reread when it changes"},
		{name: "redact", value: "POINTERS", set: s.setRedaction,
			help: "show the values at these JSON pointers, such as /card/number,/email, only to\nusers with the right admin and to workers; needs --access"},
		{name: "auth-timeout", value: "DURATION", set: s.setAuthTimeout, initial: s.guards.authTimeout.String(),
			help: "close a connection that is not authenticated after this long, or whose TLS\nhandshake takes longer"},
		{name: "max-unauthenticated", value: "N", set: s.setMaxUnauthenticated, initial: strconv.Itoa(s.guards.unauthenticated),
			help: "close new connections at once while N are not authenticated yet"},
		{name: "tls", value: "ADDR", set: setAddress(&s.guards.tls.addr),
			help: "serve the protocol with TLS on HOST:PORT, :PORT or unix:PATH as well"},
		{name: "tls-cert", value: "FILE", set: setNonEmpty(&s.guards.tls.files.Cert),
			help: "certificate of --tls with its chain, in PEM; reread when it changes"},
		{name: "tls-key", value: "FILE", set: setNonEmpty(&s.guards.tls.files.Key),
			help: "key of that certificate, in PEM"},
		{name: "tls-client-ca", value: "FILE", set: setNonEmpty(&s.guards.tls.files.ClientCA),
			help: "authority of client certificates; without --access every client needs one"},
		{name: "http-tls", value: "ADDR", set: setAddress(&s.guards.httpTLS.addr),
			help: "serve HTTP with TLS on HOST:PORT, :PORT or unix:PATH"},
		{name: "http-tls-cert", value: "FILE", set: setNonEmpty(&s.guards.httpTLS.files.Cert), initial: "that of --tls-cert",
			help: "certificate of --http-tls"},
		{name: "http-tls-key", value: "FILE", set: setNonEmpty(&s.guards.httpTLS.files.Key), initial: "that of --tls-key",
			help: "key of that certificate"},
		{name: "http-tls-client-ca", value: "FILE", set: setNonEmpty(&s.guards.httpTLS.files.ClientCA), initial: "that of --tls-client-ca",
			help: "authority of client certificates of --http-tls"},
	}
}

// otherOptions are the rest.
func (s *settings) otherOptions() []*option {
	return []*option{
		{name: "grace", value: "DURATION", set: s.setGrace, initial: s.grace.String(),
			help: "at shutdown, how long connections may take to finish what they have sent"},
		{name: "quote-stats", set: setBool(&s.quoteStats),
			help: "quote strings on stats pages, as beanstalkd 1.13 does"},
		{name: "audit", value: "FILE", set: setNonEmpty(&s.auditPath),
			help: "append a line of JSON for each administrative act to this file; opened again on\nSIGHUP"},
		{name: "otlp", value: "URL", set: s.setOTLP,
			help: "send spans of jobs with a trace to this OpenTelemetry collector, such as\nhttp://127.0.0.1:4318"},
		{name: "log-format", value: "FORMAT", set: s.setLogFormat, initial: "text",
			help: "format of the log on standard error: text or json"},
		{short: 'V', name: "verbose", set: s.setVerbose,
			help: "log more than warnings and errors: connections, and with -VV commands;\nthe variable is a number"},
		{short: 'q', name: "quiet", set: setBool(&s.quiet),
			help: "do not log the line that says when it serves, and with what"},
		{name: "check",
			help: "print the configuration and where each value comes from, read the files that it\n" +
				"names, and exit"},
		{short: 'v', name: "version", help: "print the version"},
		{name: "fields", help: "print the tags of puts, policies, groups and schedules as JSON"},
		{short: 'h', name: "help", help: "print this help"},
		{short: 'c', name: "c", hidden: true, set: s.ignore("-c")},
		{short: 'n', name: "n", hidden: true, set: s.ignore("-n")},
	}
}
