// Redstalkd is the server: a work queue that speaks the beanstalk protocol.
//
// # What lives here
//
// Everything between the operating system and package server: the command
// line and the environment, the listening socket, the user to become, the
// choice of the engine, signals and exit codes. Main is the whole program as a
// value, so that a test can run it without a process.
//
// # What does not
//
// Commands, jobs and engines. Nothing here knows what a tube is.
//
// # The order of starting
//
// Listen, become the user of -u, open the store, serve. Whoever connects while
// the store is being opened waits in the backlog and is answered then; a port
// below 1024 can be had without serving as root; and files of the store
// belong to the user who serves.
//
// # The command line
//
// beanstalkd's flags, with beanstalkd's meaning and in the forms that getopt
// takes (-p1234, -VVp 1), each with a long name, and each with an environment
// variable that the flag overrides: REDSTALK_MAX_JOB_SIZE for --max-job-size.
// An empty variable is as good as none. A password is better in REDSTALK_STORE
// than in a flag, where every user of the machine can read it; it is never
// printed, wherever it was given.
//
// The first word may be fsck: then jobs in Redis are checked; import: then those of a
// binlog of beanstalkd are taken over; or export: then such a binlog is written. Nothing
// is served then.
//
// # The end
//
// SIGTERM and SIGINT let connections finish what they have sent, for --grace
// at most, give back what they hold, close the store and exit with 0; the
// second such signal exits at once, with 1. SIGUSR1 begins draining, SIGUSR2
// ends it. Exit codes are beanstalkd's where it has one:
//
//	0    asked to end, and ended; also -h and -v
//	1    everything that has no code of its own: the store cannot be opened or closed
//	4    fsck has found something wrong, or import a damaged file
//	5    the command line or the environment is wrong
//	10   another process has the directory of the embedded engine, or of the binlog
//	32   the user of -u cannot be looked up
//	33   there is no such user
//	34   becoming that user was refused
//	111  cannot listen
//
// A start waits for what a process still has that is ending, see overlap.go.
// Before every exit other than 0 there is one line on standard error that
// begins with "redstalkd: ".
//
// # Where it differs from beanstalkd
//
//   - Without -l it listens on 127.0.0.1 only. The protocol has no passwords.
//   - A port above 65535, or the name of an unknown service, is an error of
//     usage (5).
//   - -f defaults to 0: a reply is sent when the change is on disk, but for the
//     count of reservations, see package embedded.
//   - -u also drops the supplementary groups.
//   - The socket of another server that still answers is not taken away from
//     it, and the own socket's file is removed at the end.
//   - Connections are limited (--max-connections), by default so that 128
//     descriptors are left to the store and all else, and clients that do not
//     read their replies are cut off after a minute (--write-timeout), or when
//     these take too much memory (--max-unread), or a body that comes slowly
//     takes memory that others need (--max-incoming).
//   - Logs go to standard error.
//
// # Adding a flag
//
// A field of settings (settings.go), a row in settings.options (flags.go) and,
// if no other flag has values of that kind, a function that reads its value
// (setters.go). Adding an engine: a case in openStore and its scheme in setStore.
package main
