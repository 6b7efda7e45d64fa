// Package access knows who may log in and what they may do: users, their secrets, their
// rights on tubes, their limits, and the certificates of TLS.
//
// # Reading order
//
//   - access.go: Access has the users of the current file, and what stays when a new file is
//     read. readfile.go and file.go read and parse the file.
//   - rights.go: a User and its rights on tubes. batches.go: whose batches a user has.
//   - needs.go: the one table of what each operation of each listener needs.
//   - verify.go: Authenticate verifies a secret. It compares the secret with hashes (hash.go),
//     which is slow on purpose, so a verified login is cached under a keyed hash until the
//     file changes. guesslimit.go slows down guessing, semaphore.go limits concurrent
//     comparisons and makes clients that guess wait for others, and flights.go lets identical
//     attempts share one verification.
//   - account.go: what a user uses at present, and the limits of that.
//   - certificates.go: the certificates of a TLS port, read again when they change.
//   - proxy.go: Proxies, whose headers say from whom a request comes.
//   - http.go: Protect and RequestUser, for listeners that speak HTTP.
//
// # What is elsewhere
//
// The package knows no protocol, no queue and no job. What a user sees of a job is a Sight of package sight. A listener asks for a user's rights on
// a tube; which tube a command is about, and what is answered if permission is denied, is up
// to the listener.
//
// # Invariants
//
// A secret is in no error, no log, and no value that outlives its call. A name that a client
// gives is logged only if there is such a user, because it may be the secret. Neither the
// answer nor the time that it takes shows whether the name or the secret was wrong, as long
// as all hashes of the file cost the same.
//
// A User never changes: a new file makes new Users, and Renew finds the one that has replaced
// another. How much of its limits a user has used is in its account, which stays.
//
// Memory does not grow with the number of addresses: guesses are counted in a fixed number
// of slots, so addresses may share one, and each has few of them.
//
// The time of an answer does not help guessing: apart from a few per second, a right secret
// that was not verified before gets its answer no faster than a wrong one.
package access
