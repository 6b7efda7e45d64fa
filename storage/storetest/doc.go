// Package storetest is the test suite that every engine passes.
//
// An engine's own test is short: it says how to open a store on fresh data, how to open it
// again, and how to move its clock (Engine), and calls Run.
//
// # Where to read
//
//   - engine.go: Engine and Run.
//   - Tests of single rules (cases.go and case_*.go), written from the behaviour of
//     beanstalkd.
//   - Random histories (history.go, random.go and random_*.go), which run on the engine and on Model, a
//     second implementation of the rules that is simple enough to be trusted (model*.go).
//     compare.go compares the answers; learnids.go tells the model which ids the store has chosen.
//   - Walk (walk.go): a random history that a test runs step by step, for tests of what
//     survives a power failure.
//   - harness (harness.go): a store under test, with helpers for tests. shared.go: a store that several
//     tests use at the same time.
//   - data.go: checks data that released versions have written.
//   - buffers.go: bodies in Buffers, which are released as early as a listener of the server
//     may do it.
//
// The suite does not test the protocol, and not how fast anything is.
//
// # Adding a test
//
// Write a func(*harness) in the case_*.go file that fits, and add it to cases. Use the methods
// of harness.
package storetest
