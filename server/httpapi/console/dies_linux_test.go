//go:build chromium

package console_test

import (
	"os/exec"
	"syscall"
)

// dieWithTest has a program die when the test dies, also when the test is killed. chromedp has
// the browser do the same.
func dieWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
