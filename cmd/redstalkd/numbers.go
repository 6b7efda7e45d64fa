package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// wholeNumber returns a check that accepts decimal digits only, of a number up to most.
func wholeNumber(most uint64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil || n > most {
			return fmt.Errorf("%q is not a number from 0 to %d", v, most)
		}
		return nil
	}
}

// plainPort refuses signs and blanks, which a lookup of a port would ignore.
func plainPort(v string) error {
	if v[0] == '-' || v[0] == '+' || strings.ContainsAny(v, " \t\r\n") {
		return fmt.Errorf("%q is neither a port from 0 to 65535 nor a known service", v)
	}
	return nil
}

// parseSize reads a number as beanstalkd does, with C's strtoul: a number that is too
// large becomes the largest one, and a negative one wraps around.
func parseSize(v string) (uint64, error) {
	digits := strings.TrimPrefix(v, "-")
	if digits == v {
		digits = strings.TrimPrefix(v, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return math.MaxUint64, nil
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", v)
	case digits != v && v[0] == '-':
		return -n, nil
	}
	return n, nil
}
