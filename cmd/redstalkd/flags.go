package main

import (
	"fmt"
	"math"
	"redstalk/server"
	"strconv"
)

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
		s.noImportOption(), s.behindOption(), s.behindRateOption(),
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
		{name: "max-unread", value: "BYTES", set: s.setMaxUnread, checkVariable: wholeNumber(math.MaxInt64), initial: strconv.Itoa(server.DefaultMaxUnread),
			help: "close the connections that read least when replies that were not read take\nmore than this, over all connections; 0 for no limit"},
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
