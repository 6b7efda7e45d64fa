// Package deploy has no code: it contains examples of deployments, and tests that check them and the files of
// ../packages with the programs that they are for, and compare their variables with the flags of redstalkd.
package deploy
