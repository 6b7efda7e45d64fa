// Package goclient is the root of the Go client of redstalk. README.md describes it; there is nothing to import
// here. The packages are client, worker, inspect and redstalktest.
package goclient
