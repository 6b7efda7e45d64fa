//go:build !linux

package main

// drive follows the sessions with what there is where there is no epoll.
func drive(r *run, wires []*wire) error { return driveBlocking(r, wires) }
