// Package upstream serves in front of an old beanstalk server that still has jobs: clients connect
// here, and the jobs of the old server come over as they are wanted, and gradually, until it has
// none left. So neither producers nor workers are stopped when a server is replaced.
//
// # What lives here
//
//   - Front: the carriers (package carry) between the old server and the queue. Some of them bring
//     jobs of tubes that somebody waits for; the others go through all tubes, at a bounded rate.
//   - here: the queue, as carry wants it.
//
// # What does not
//
// How a job is carried without being lost or had twice: package carry. Who waits for what: package
// queue, which says so by Config.Wanted.
//
// # Invariants
//
// Wanted neither blocks nor calls the store. A reserve that does not wait is answered at once: what it
// has wanted comes for the next one.
//
// If the old server cannot be reached the queue goes on with its own jobs, and the old one is tried
// again and again. Of several servers on one store one is the front; the others wait for its end.
package upstream
