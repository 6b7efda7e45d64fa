//go:build !linux

package main

import "os/exec"

// reaper is only needed where redstalk can be process 1 of a container.
type reaper struct{}

func newReaper() (r *reaper, stop func()) { return nil, func() {} }

func (r *reaper) start(cmd *exec.Cmd) error { return cmd.Start() }
func (r *reaper) wait(cmd *exec.Cmd) error  { return cmd.Wait() }
