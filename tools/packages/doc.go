// Package packages has no code: it contains what builds the packages of the server and of the clients, and the test of
// the latter.
package packages
