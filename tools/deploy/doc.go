// Package deploy has no code: it is the examples of how redstalk is run, and the test that reads each
// of them, and those of ../packages, with what it is for, or compares them with the flags that there
// are.
package deploy
