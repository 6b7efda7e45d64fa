//go:build !linux

package redstalktest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }

func awaitStopped(int) error { return nil }
