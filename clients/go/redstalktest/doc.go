// Package redstalktest runs a redstalk server within a test, with its jobs in memory.
//
//	func TestSignUp(t *testing.T) {
//		queue := redstalktest.Run(t) // a *client.Client
//		...
//	}
//
// The server is the real one, a process that ends with the test. Its program is, in this order:
// the file that the variable REDSTALKD names; redstalkd of the source tree that the test is in,
// which is built; redstalkd in PATH.
package redstalktest
