// Redstalkd is the server: a work queue that speaks the beanstalk protocol.
//
// # Contents
//
// Everything between the operating system and package server: the command
// line and the environment, the listening sockets, the user to become, the
// choice of the engine, signals and exit codes. Commands, jobs and engines are
// elsewhere. Main is the whole program as a value, so that a test can run it
// without a process.
//
// Read in this order:
//
//   - main.go: the entry, and the subcommands; program.go: start, serve, stop.
//   - flags.go: the table of flags; options.go and getopt.go: how they are read;
//     settings.go: what they set; setters.go: how values are read; check.go: --check.
//   - listen.go, systemd.go, unixoptions.go, retry.go: sockets.
//     httplisteners.go, gateways.go (nogateways.go without them), guards.go (access and TLS), push.go,
//     metrics.go, upstream.go: what is served beside the beanstalk port.
//   - runners.go: schedules and batches, which run without a client. tracing.go: --otlp. audit.go:
//     --audit. watchedfile.go: files that are read again when they have changed.
//   - memlimit.go: how much memory Go may use. engine.go: stores. autoimport.go: the import of a
//     beanstalkd binlog at the first start.
//   - import.go, export.go, backup.go, fsck.go, healthcheck.go, secret.go: the subcommands.
//   - log.go, linesink.go, progress.go, exit.go: output.
//
// # The order of starting
//
// Listen, become the user of -u, open the store, serve. Clients that connect while
// the store is being opened wait in the backlog and are answered then. A port
// below 1024 can be used without serving as root, and the files of the store
// belong to the user that serves.
//
// # The command line
//
// beanstalkd's flags, with beanstalkd's meaning and in the forms that getopt
// takes (-p1234, -VVp 1), each with a long name, and each with an environment
// variable that the flag overrides: REDSTALK_MAX_JOB_SIZE for --max-job-size.
// An empty variable counts as unset. A password is safer in REDSTALK_STORE
// than in a flag, where every user of the machine can read it. It is never
// printed, whichever way it was given.
//
// With a subcommand as the first word nothing is served: fsck checks the jobs in
// Redis or in the directory of an embedded engine, import reads the jobs of a beanstalkd binlog, and export writes such a
// binlog; backup makes a running server write a backup, restore and verify read one; healthcheck asks a
// running server, and secret hashes a secret.
//
// # Shutdown
//
// On SIGTERM and SIGINT, connections finish what they have sent, within --grace,
// and give back the jobs that they hold; the store is closed, and the process exits
// with 0. A second such signal exits at once, with 1. SIGUSR1 starts drain mode,
// SIGUSR2 ends it. Exit codes are beanstalkd's where it has one:
//
//	0    stopped by a signal; also -h and -v
//	1    every error without a code of its own, such as a store that cannot be opened
//	4    fsck or verify has found a fault, or import a damaged file
//	5    the command line or the environment is wrong
//	10   another process uses the directory of the embedded engine, or of the binlog
//	32   the user of -u cannot be looked up
//	33   there is no such user
//	34   becoming that user was refused
//	111  cannot listen
//
// A start waits for the address or directory of a process that is shutting down,
// and for a Redis that cannot be reached yet, see retry.go. Before every exit other than 0 there is one line on standard error
// that begins with "redstalkd: ".
//
// # Where it differs from beanstalkd
//
//   - Without -l it listens on 127.0.0.1 only. The protocol has no passwords.
//   - A port above 65535, or the name of an unknown service, is an error of
//     usage (5).
//   - -f defaults to 0: a reply is sent when the change is on disk, except for the
//     count of reservations, see package embedded.
//   - -u also drops the supplementary groups.
//   - SIGHUP makes it read files again and open that of --audit again, and without such files it is ignored.
//   - The socket file of a server that still answers is not replaced, and the
//     server's own socket file is removed at shutdown.
//   - Connections are limited (--max-connections), by default so that 128
//     descriptors are left for the store and everything else. A connection is closed
//     if the client reads no replies for a minute (--write-timeout), if unread
//     replies take too much memory (--max-unread), or if a body that arrives slowly
//     takes memory that others need (--max-incoming).
//   - Logs go to standard error.
//
// # Adding a flag
//
// A field of settings (settings.go), a row in settings.options (flags.go) and,
// if no other flag has values of that kind, a function that reads its value
// (setters.go). To add an engine: a case in openStore and its scheme in setStore.
package main
