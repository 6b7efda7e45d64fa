// Package beanstalkd reads and writes the binlog of beanstalkd, the directory in which it keeps
// its jobs with -b, and copies jobs between such a binlog and a store.
//
// # Where to read
//
//   - Open reads a directory into a Binlog: what is known of each live job, and where its body
//     is. Binlog.Each then reads the jobs one by one, with their bodies (binlog.go, bodies.go). The
//     lock of the directory is in lock_unix.go.
//   - The formats: version 7, which beanstalkd 1.5 to 1.13 write, version 5 of 1.4, and
//     version 8 of a fork, which is 7 with checksums (format.go, scan.go).
//   - Write creates a directory of version 7 that beanstalkd opens (write.go).
//   - Import copies all jobs of a Binlog into a store. An interrupted import resumes where it
//     stopped when it is started again (import.go).
//   - Export writes all jobs of a store as a binlog (export.go).
//
// Engines, servers, flags and output do not belong here: cmd/redstalkd has them. Nothing here
// limits the size of a body. beanstalkd does when it reads: it counts the CR LF too, and so
// loses jobs of the largest size with all that follow in their file.
//
// # Invariants
//
// Open reads only: it changes and creates nothing in the directory. It respects the lock of a
// running beanstalkd, and holds that lock while a Binlog is open.
//
// Memory is limited by the number of live jobs, about 150 bytes each: bodies stay in their
// files until Each reads them.
//
// An invalid record ends its file, because nothing marks where the next one begins. The records
// before it count, and so do the other files. Each such place is a Damage.
package beanstalkd
