// Package migrate moves the jobs of a running beanstalk server to another one, while both serve.
//
// # Where to read
//
//   - Migrator: moves one job at a time from the source, the old server, to the target, the new
//     one. Several Migrators can work in parallel, each on its own connections (migrator.go,
//     resume.go).
//   - source: a connection to the old server (source.go).
//   - Target: the operations that the new server must have (target.go). Remote implements it for
//     a redstalk elsewhere, over the protocol (remote.go); package server/upstream has one inside
//     the server.
//   - Mover: moves all jobs, tube by tube, at a limited rate (mover.go).
//
// # How a job is moved
//
// Workers use both servers, and the process that moves jobs can be killed at any moment. At no
// moment may a job be available on both servers, and none may be lost:
//
//  1. The job is reserved on the source, if it is ready. So no worker gets it.
//  2. A note is written on the target that says what the job is, and which mark it will get.
//  3. The job is buried on the source, with the mark as its priority: a random number of 32 bits.
//     If the migrator dies from now on, the job does not become ready again.
//  4. A copy is put on the target that nobody gets: its delay is a year. Its key is made of the id
//     of the old server and that of the job, so there is only one copy, however often it is put.
//  5. The job is deleted on the source. Only if that has succeeded does it belong to the target.
//  6. The copy becomes what the job was: ready, delayed for the remaining time, or buried. The
//     note is removed.
//
// Notes that are left tell the next Migrator what to do (resume.go). If the job on the source has
// its mark, it continues with step 4; if the job is gone on the source and the copy is still hidden,
// with step 6; otherwise there is nothing to do.
//
// Why a mark: a job that is only reserved becomes ready on the source when the migrator dies, and
// a worker can get it. A job that is buried does not, but without a mark it could not be
// distinguished from one that a worker has buried. Why the copy is hidden: if somebody kicks the tube
// on the source between the steps, a worker there can get the marked job. Then the delete of step 5
// fails, and the copy is removed.
//
// One case cannot be detected: the migrator is killed between steps 4 and 5, somebody kicks the
// tube on the source before the next migrator starts, and a worker there gets the marked job and
// deletes it. Then the job is delivered twice.
//
// A checkpoint comes with a job if both servers are redstalks: between the steps 3 and 4 it becomes that of the note, so that it is not lost
// if the migrator dies after step 5, and with step 6 that of the copy.
//
// Tags come with a job if both servers are redstalks (tags.go). A job with a key of its own has its copy
// under that key, unless another job has it on the target: then the copy has no key of its own.
//
// # What is not preserved
//
// Ids, age and counters: jobs are put again. Reserved jobs stay with their workers until the
// workers have finished them. A batch that is under way stays on the source: see batches.go.
//
// # Invariants
//
// A Migrator, with its connections, belongs to one goroutine. Only Mover.Run starts goroutines, and
// it ends those that it has started.
package migrate
