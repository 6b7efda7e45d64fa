//go:build chromium

package console_test

import (
	"os/exec"
	"syscall"
)

// killWithTest makes the kernel kill a program when the test dies, even if the test is killed. chromedp does the
// same for the browser.
func killWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
