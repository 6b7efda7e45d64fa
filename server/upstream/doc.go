// Package upstream is a migration proxy. It serves in front of an old beanstalk server that
// still has jobs: clients connect to redstalk, and the jobs of the old server are migrated
// on demand and in the background, until none are left. So neither producers nor workers
// have to stop when a server is replaced.
//
// # Reading order
//
//   - proxy.go: Proxy runs the migrators (package migrate) between the old server and the
//     queue. Some of them migrate jobs of tubes that somebody waits for; the others go
//     through all tubes, at a limited rate.
//   - destination.go: the queue, in the form that package migrate needs.
//
// # What is elsewhere
//
// Package migrate moves a job so that it is neither lost nor delivered twice. Package queue
// knows who waits for what, and reports it by Config.Wanted.
//
// # Invariants
//
// Wanted neither blocks nor calls the store. A reserve that does not wait is answered at
// once: the job that it wanted is migrated for the next one.
//
// If the old server cannot be reached, the queue continues with its own jobs, and the old
// server is tried again repeatedly. Of several servers on one store only one migrates; the
// others wait for its end.
package upstream
