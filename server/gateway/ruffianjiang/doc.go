// Package ruffianjiang is a gateway for clients of Ruffianjiang/delay-queue and of its
// parent, yangwenjie88/delay-queue: their paths, with form or query parameters, and status
// 200 whatever happens.
//
//   - handler.go: New returns the handler; what each path does.
//   - params.go: parameters, in the order in which the old program checked them.
//   - due.go: points in time, as milliseconds or as dates.
//   - result.go: answers, with the members in the old order.
//   - page.go: the page in place of the old program's Swagger page.
//
// # Jobs
//
// A job of a topic is a job of its tube, see package gateway. Its id is the number of the
// job, which is unique and fits in 64 bits. Its message is the body.
//
// The key of a job says when it was to be delivered, to the millisecond, and ends in
// something random: the store forgets that time when the job is ready, and pop answers it.
// A job that was put with a key of the client's choice keeps that key; once it is ready, its
// time is only known to the second.
//
// # The old program's list of plans
//
// Each of its seven items is there: consumers on several machines; no duplicates (key);
// several consumers of one topic; jobs of the same moment together (n); waiting instead of
// polling (wait); pushing (a policy of the tube); figures (those of all tubes). And the
// number of deliveries: retry, max and dead.
package ruffianjiang
