// Package storetest is the suite that every engine passes.
//
// An engine's own test is about a page: it says how to open a store on fresh data, how to
// open it again, and how to move its clock (Engine), and calls Run.
//
// # What lives here
//
//   - Tests of single rules (cases.go and case_*.go), written from the behaviour of
//     beanstalkd.
//   - Random histories (histories.go, random.go), which are carried out on the engine and on
//     Model, which is simple enough to be believed. compare.go compares the answers.
//   - Walk: a random history that a test takes step by step, for tests of what survives a
//     power cut.
//   - rig: a store under test, and what tests do to it.
//   - buffers.go: bodies in Buffers, which are released as early as a door may do it.
//
// What does not live here: the wire, and how fast anything is.
//
// # Adding a test
//
// Write a func(*rig), in the case_*.go that fits, and put it into cases. Use the methods of
// rig.
package storetest
