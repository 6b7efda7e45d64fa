// Package storetest is the suite that every engine passes.
//
// An engine's own test is a page: it says how to open a store on fresh data,
// how to open it again, and how to move its clock, and calls Run.
//
// What lives here: tests of single rules, written out from the behaviour of
// beanstalkd (rules_test names say which), and random histories that are
// carried out on the engine and on Model, which is simple enough to be
// believed. What does not: the wire, and how fast anything is.
//
// # Adding a test
//
// Write a func(*bench) and put it into cases. Use the bench's methods; they
// fail the test when a store breaks its contract, whatever the test is about.
package storetest
