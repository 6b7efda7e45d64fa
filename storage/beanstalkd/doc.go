// Package beanstalkd reads and writes the binlog of beanstalkd, the directory in which it keeps
// its jobs with -b, and copies jobs between such a binlog and a store.
//
// # What lives here
//
//   - Open replays a directory into a Log: what is known of each job that is alive, and where
//     its body is. Log.Each then brings the jobs one by one, with their bodies (log.go).
//   - The formats: version 7, which beanstalkd 1.5 to 1.13 write, version 5 of 1.4, and
//     version 8 of a fork, which is 7 with checksums (format.go, scan.go).
//   - Write makes a directory of version 7 that beanstalkd opens (write.go).
//   - Import copies all jobs of a Log into a store. An interrupted import resumes where it
//     stopped when it is started again (import.go).
//   - Export writes all jobs of a store as a binlog (export.go).
//
// # What does not
//
// No engine and no server, no flag and no output: cmd/redstalkd has these. Nothing here checks
// how large a body may be: beanstalkd does that when it reads, counts the CR LF as well, and
// so loses jobs of the largest size with all that follow in their file.
//
// # Invariants
//
// Files are opened for reading only, and nothing in the directory is changed or made. The
// lock of a running beanstalkd is respected, and held while a Log is open.
//
// Memory is bounded by the jobs that are alive, about 150 bytes each: bodies stay in their
// files until Each reads them.
//
// A record that cannot be true ends its file, because nothing marks where the next one
// begins. What comes before it counts, and so do the other files. Each such place is a Damage.
package beanstalkd
