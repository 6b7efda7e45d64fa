//go:build !unix

package beanstalkd

import "os"

// lock does nothing: beanstalkd does not run here.
func lock(string) (*os.File, error) { return nil, nil }
