// Package testserver starts the servers that the tests of this module run on: redstalkd on every engine,
// beanstalkd, Redis, and a proxy that breaks connections.
package testserver
