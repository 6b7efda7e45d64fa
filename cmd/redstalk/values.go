package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// states are the states of a job, by their names on the wire.
var states = []string{"ready", "delayed", "reserved", "buried"}

// units are the units of a duration, by the letters after the number. The default is seconds.
var units = []struct {
	letters string
	unit    time.Duration
}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"", time.Second}}

// maxDuration is the longest duration that redstalk accepts.
const maxDuration = 10 * 365 * 24 * time.Hour

// parseDuration reads a whole number with a unit, 250ms 90s 10m 36h 30d, or of seconds.
func parseDuration(text string) (time.Duration, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.ParseUint(text[:digits], 10, 63)
	for _, u := range units {
		if err == nil && text[digits:] == u.letters && n <= uint64(maxDuration/u.unit) {
			return time.Duration(n) * u.unit, nil
		}
	}
	return 0, fmt.Errorf("%q is not a duration such as 250ms, 90s, 10m, 36h, 30d or a number of seconds, at most ten years", text)
}

// duration is the value of a flag.
type duration struct{ d time.Duration }

func (d *duration) Set(text string) (err error) {
	d.d, err = parseDuration(text)
	return err
}

func (d *duration) String() string { return durationText(d.d) }

// durationText formats a duration in the form of parseDuration.
func durationText(d time.Duration) string {
	for _, u := range []int{4, 3, 2, 1} {
		if unit := units[u].unit; d >= unit && d%unit == 0 {
			return fmt.Sprint(int64(d/unit), units[u].letters)
		}
	}
	return fmt.Sprint(d.Milliseconds(), "ms")
}

// durationFlag is a flag with a duration as its value.
func durationFlag(name string, initially time.Duration, help string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: &duration{initially}, Usage: help}
}

func (t *task) duration(name string) time.Duration { return t.Generic(name).(*duration).d }

// wholeSeconds returns a duration in seconds, the unit of the protocol, rounded up so that a job
// is never due too early.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// checkWord checks text that is sent as one word of a command.
func checkWord(what, text string) error {
	if text == "" {
		return usage("%s must not be empty", what)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return usage("%s must not contain %q: %q", what, text[i:i+1], text)
	}
	return nil
}

// checkState checks the name of a state.
func checkState(text string, of ...string) error {
	for _, s := range of {
		if text == s {
			return nil
		}
	}
	return usage("%q is not a valid state here; valid are %s", text, strings.Join(of, ", "))
}

// jobID reads the id of a job.
func jobID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, usage("%q is not the id of a job", text)
	}
	return id, nil
}

// jobIDs reads ids.
func jobIDs(texts []string) ([]uint64, error) {
	ids := make([]uint64, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = jobID(text); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// nounFor returns "1 job", "2 jobs".
func nounFor[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(uint64(n)) + " " + noun + "s"
}

// grouped formats a number with commas between groups of three digits.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
