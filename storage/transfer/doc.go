// Package transfer carries whole stores: the jobs of a binlog of beanstalkd into a store, and those
// of a store into such a binlog.
//
// # What lives here
//
//   - Import: all jobs of a binlog.Log, by storage.Importing. An import that was interrupted goes on
//     where it was when it is begun again.
//   - Export: all jobs of a store, as binlog.Write wants them.
//
// # What does not
//
// The format of a binlog (package binlog), and what an engine does with jobs that it takes over.
// No flag, no file name and no output: cmd/redstalkd has these.
package transfer
