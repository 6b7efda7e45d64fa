// Package access knows who may come in and what they may do: users, their secrets,
// their rights on tubes, their limits, and the certificates of TLS.
//
// # What lives here
//
//   - Access: the file of users as it was read last, and what outlives the reading of
//     a new one (access.go). read.go and file.go read it, rights.go has the rights of a User.
//   - Needs: the one table of what each operation of each listener needs (needs.go).
//   - Authenticate: whose secret that is (verify.go). A secret is compared with hashes
//     (hash.go), which takes long on purpose, so it is done once: who has been found is
//     remembered by a keyed hash for as long as the file stays. guesses.go makes guessing
//     slow, turns.go has guessers wait for others, and flights.go has those who ask the
//     same share an attempt.
//   - account: what a user does at present, and the limits of that (account.go).
//   - Certificates: those of a TLS port, read again when they change (certificates.go).
//   - Protect and RequestUser: the same for listeners that speak HTTP (web.go).
//
// # What does not
//
// No protocol, no queue and no job. A listener asks what a user may do with a tube; which
// tube a command is about, and what is answered to those who may not, is the listener's
// business.
//
// # Invariants
//
// A secret is in no error, no log, and no value that outlives the call it came with. The
// name that somebody gives is logged only if there is such a user, because it may be the
// secret. Whether the name or the secret was wrong shows neither in the answer nor in the
// time that it takes, as long as all hashes of the file cost the same.
//
// A User never changes: a new file makes new ones, and Renew finds the one that has taken
// the place of another. What a user has used up of its limits is in its account, which
// stays.
//
// What grows with the number of addresses is bounded: guesses are counted in a fixed
// number of places, so addresses may share one, and each has few of them.
//
// A secret that nobody has proven is never answered faster because it is right, but for a
// few each second: how soon an answer comes is no way to guess.
package access
