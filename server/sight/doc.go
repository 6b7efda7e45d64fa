// Package sight knows what of a job somebody sees who looks at it, and does not work on it.
//
// # Reading order
//
//   - sight.go: a Sight follows from the rights on a tube. Its methods take what a store has said of a job, and return
//     what is shown of it.
//   - redaction.go: the values at some JSON pointers, which only administrators see.
//
// # Invariants
//
// Whatever leaves the server for looking goes through a Sight: TestNothingLeaks in package server/httpapi, and the test of
// the same name in package server, go over all operations and commands. What a search compares goes through it, too, so
// that a search does not tell what is hidden. Workers get what was put.
//
// Nothing is changed in place: what a store has answered can be shared.
package sight
