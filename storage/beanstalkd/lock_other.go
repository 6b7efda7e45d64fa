//go:build !unix

package beanstalkd

import "os"

// Lock does nothing: beanstalkd does not run here.
func Lock(string) (*os.File, error) { return nil, nil }

// lock does nothing: beanstalkd does not run here.
func lock(string) (*os.File, error) { return nil, nil }
