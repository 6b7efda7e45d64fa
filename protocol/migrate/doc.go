// Package migrate takes the jobs of a running beanstalk server over to another one, while both serve.
//
// # What lives here
//
//   - Carrier: carries one job at a time from there, the old server, to here. Several carriers may
//     work side by side, each on connections of its own (carrier.go, steps.go).
//   - Here: what is wanted of the server that gets the jobs. Remote is that for a redstalk elsewhere,
//     by its protocol (remote.go); package server/upstream has one inside the server.
//   - Mover: all jobs, tube by tube, at a bounded rate (mover.go).
//
// # How a job is carried
//
// Workers serve themselves from both servers, and whoever carries may be killed at any moment. At
// no moment may a job be had from both, and none may be lost:
//
//  1. It is reserved there, if it is ready. So no worker gets it.
//  2. A note is written here that says what the job is, and which mark it is about to get.
//  3. It is buried there, with the mark for its priority: a number of 32 bits by chance. If the
//     carrier dies from now on, the job is not ready again.
//  4. A copy is put here that nobody gets: its delay is a year. It has a key, made of the id of the
//     old server and that of the job, so there is one copy however often it is put.
//  5. The job is deleted there. Only if that has worked is it here.
//  6. The copy becomes what the job was: ready, delayed for what is left, or buried. The note
//     goes.
//
// Notes that are left tell the next one what to do (resume.go): if the job has its mark there, it
// goes on with step 4; if the job is gone there and the copy is still hidden, with step 6;
// otherwise there is nothing to be done.
//
// Why a mark: a job that is reserved by a carrier which dies becomes ready there, and a worker may
// have it. A job that is buried would not, but it could not be told from one that a worker has
// buried. Why is the copy hidden: if somebody kicks the tube there between the steps, a worker
// there may get the marked job. Then the delete of step 5 fails, and the copy is removed.
//
// One thing cannot be told: a carrier is killed between steps 4 and 5, before the next one comes
// somebody kicks the tube there, and a worker there gets the marked job and deletes it. Then the
// job is had twice.
//
// # What does not come along
//
// Ids, age and counters: jobs are put anew. Reserved jobs stay with their workers until these are
// done with them.
//
// # Invariants
//
// A carrier, and what it connects to, belongs to one goroutine. No goroutine is made here but by
// Mover.Run, which ends those that it has made.
package migrate
