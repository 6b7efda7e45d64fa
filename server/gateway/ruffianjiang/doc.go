// Package ruffianjiang is a listener for clients of Ruffianjiang/delay-queue and of its parent,
// yangwenjie88/delay-queue: their paths, with form or query parameters, and status 200
// whatever happens.
//
//   - New: the handler, and what each path does (handler.go).
//   - readPush and its like: parameters, in the order in which the old program has
//     checked them (params.go).
//   - readDue: points in time, as milliseconds or as dates (due.go).
//   - result: answers, with the members in the old order (result.go).
//
// # Jobs
//
// A job of a topic is a job of its tube, see package gateway. Its id is the number of the
// job, which is unique and fits in 64 bits. Its message is the body.
//
// The key of a job says when it was to be delivered, to the millisecond, and ends in
// something random: the store forgets that time when the job is ready, and pop answers it.
// A job that was put with a key of the client's choice has that one; of such a job the time
// is known to the second only, once it is ready.
//
// # What the old program had on its list
//
// Each of the seven things is there: consumers on several machines; no doubles (key);
// several consumers of one topic; jobs of the same moment together (n); waiting instead of
// polling (wait); pushing (a policy of the tube); figures (those of all tubes). And the
// number of deliveries: retry, max and dead.
package ruffianjiang
