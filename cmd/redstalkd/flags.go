package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"redstalk/server/limits"
)

// options is the table of flags, in the order of the help. Each but the last
// few has an environment variable named after it.
func (s *settings) options() []*option {
	return slices.Concat(s.listenOptions(), s.storeOptions(), s.limitOptions(), s.httpOptions(), s.gatewayOptions(), s.pushOptions(), s.guardOptions(), s.otherOptions())
}

// listenOptions say where the beanstalk port is.
func (s *settings) listenOptions() []*option {
	return []*option{
		{short: 'l', name: "listen", value: "ADDR", set: s.setListen, initial: s.addr,
			help: "listen on this IP address or host name, or on unix:PATH?mode=0660&group=NAME"},
		{short: 'p', name: "port", value: "PORT", set: s.setPort, checkVariable: plainPort, initial: strconv.Itoa(s.port),
			help: "listen on this port, a number or the name of a service; 0 is any free one"},
	}
}

// storeOptions say where jobs are kept, and how safely.
func (s *settings) storeOptions() []*option {
	return []*option{
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
		s.noImportOption(), s.upstreamOption(), s.upstreamRateOption(),
		{short: 'f', name: "fsync-ms", value: "MS", set: s.setSync, checkVariable: wholeNumber(maxSyncMS), rivals: []string{"no-fsync"}, initial: "0",
			help: "with embedded:DIR, sync to the disk within MS milliseconds;\n0 is before every reply"},
		{short: 'F', name: "no-fsync", set: s.setNoSync, rivals: []string{"fsync-ms"},
			help: "with embedded:DIR, never sync; of -f and -F the last one counts"},
		{short: 's', name: "binlog-size", value: "BYTES", set: s.setFileSize, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultFileSize),
			help: "with embedded:DIR, about the size of each file of the log"},
		{name: "disk-reserve", value: "BYTES", set: s.setReserve, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultReserve),
			help: "with embedded:DIR, refuse puts while less than this is free on the disk; 0 for never"},
	}
}

// limitOptions bound what clients may do.
func (s *settings) limitOptions() []*option {
	return []*option{
		{short: 'z', name: "max-job-size", value: "BYTES", set: s.setMaxJobSize, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(defaultMaxJobSize),
			help: fmt.Sprintf("largest body of a job, at most %d", maxMaxJobSize)},
		{short: 'u', name: "user", value: "USER", set: setNonEmpty(&s.user),
			help: "become this user and their primary group, after listening"},
		{name: "max-connections", value: "N", set: s.setMaxConnections, initial: "auto",
			help: "close connections beyond so many, of all doors together; 0 for no limit; auto\n" +
				"leaves some of the process's file descriptors to everything else"},
		{name: "idle-timeout", value: "DURATION", set: setTimeout(&s.limits.idleTimeout), initial: "0",
			help: "close a connection that has sent nothing for so long, unless it waits in a\n" +
				"reserve or holds a job; 0 for never"},
		{name: "write-timeout", value: "DURATION", set: setTimeout(&s.limits.writeTimeout), initial: s.limits.writeTimeout.String(),
			help: "close a connection that has read none of its waiting replies for so long;\n0 for never"},
		{name: "max-unread", value: "BYTES", set: s.setMaxUnread, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(limits.DefaultUnread),
			help: "close the connections that read least when replies that were not read take\nmore than this, over all connections; 0 for no limit"},
		{name: "max-incoming", value: "BYTES", set: s.setMaxIncoming, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(limits.DefaultIncoming),
			help: "let bodies wait when those that have come in part take more than this, over all\nconnections, and close those that come slowest; 0 for no limit"},
	}
}

// httpOptions are those of the HTTP door.
func (s *settings) httpOptions() []*option {
	return []*option{
		{name: "http", value: "ADDR", set: setAddress(&s.http.addr),
			help: "serve HTTP on HOST:PORT, :PORT or unix:PATH"},
		{name: "http-host", value: "NAMES", set: s.setHosts,
			help: "names that requests over HTTP may have in the header Host beside those of this\nmachine, such as queue.example.org; *.example.org for all that end so, * for any;\nseveral times, or several with commas"},
		{name: "http-origin", value: "ORIGINS", set: s.setOrigins,
			help: "other sites, such as https://ops.example.org, whose pages may use the HTTP API\nfrom a browser; with commas"},
		{name: "http-max-waiting", value: "N", set: s.setMaxWaiting, initial: strconv.Itoa(s.http.maxWaiting),
			help: "refuse HTTP requests beyond so many that wait for jobs at once, at each door"},
		{name: "metrics-tubes", value: "N", set: s.setMetricsTubes, checkVariable: wholeNumber(maxNamedTubes), initial: strconv.Itoa(s.metrics.tubes),
			help: "show so many tubes by name in the metrics, and the rest as one"},
		{name: "ready-lag", value: "DURATION", set: s.setReadyLag, initial: s.metrics.readyLag.String(),
			help: "say on /readyz that the server is not ready while timers are later than this"},
	}
}

// guardOptions say who may come in.
func (s *settings) guardOptions() []*option {
	return []*option{
		{name: "access", value: "FILE", set: setNonEmpty(&s.guards.access),
			help: "let in only the users of this file, and only to what they may do; read again on SIGHUP"},
		{name: "auth-timeout", value: "DURATION", set: s.setAuthTimeout, initial: s.guards.authTimeout.String(),
			help: "close a connection that has not said who it is for so long, or whose handshake\nof TLS takes longer"},
		{name: "max-strangers", value: "N", set: s.setMaxUnauthenticated, initial: strconv.Itoa(s.guards.unauthenticated),
			help: "close connections at once beyond so many that have not said who they are"},
		{name: "tls", value: "ADDR", set: setAddress(&s.guards.tls.addr),
			help: "serve the protocol with TLS on HOST:PORT, :PORT or unix:PATH as well"},
		{name: "tls-cert", value: "FILE", set: setNonEmpty(&s.guards.tls.files.Cert),
			help: "certificate of --tls with its chain, in PEM; read again when it changes"},
		{name: "tls-key", value: "FILE", set: setNonEmpty(&s.guards.tls.files.Key),
			help: "key of that certificate, in PEM"},
		{name: "tls-client-ca", value: "FILE", set: setNonEmpty(&s.guards.tls.files.ClientCA),
			help: "authority of the certificates of clients; without --access each must have one"},
		{name: "http-tls", value: "ADDR", set: setAddress(&s.guards.httpTLS.addr),
			help: "serve HTTP with TLS on HOST:PORT, :PORT or unix:PATH"},
		{name: "http-tls-cert", value: "FILE", set: setNonEmpty(&s.guards.httpTLS.files.Cert), initial: "that of --tls-cert",
			help: "certificate of --http-tls"},
		{name: "http-tls-key", value: "FILE", set: setNonEmpty(&s.guards.httpTLS.files.Key), initial: "that of --tls-key",
			help: "key of that certificate"},
		{name: "http-tls-client-ca", value: "FILE", set: setNonEmpty(&s.guards.httpTLS.files.ClientCA), initial: "that of --tls-client-ca",
			help: "authority of the certificates of clients of --http-tls"},
	}
}

// otherOptions are the rest.
func (s *settings) otherOptions() []*option {
	return []*option{
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
