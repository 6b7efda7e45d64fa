package ruffianjiang

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/tube"
)

// DefaultZone is the time zone of dates in the old program.
const DefaultZone = "+08:00"

// ParseZone parses a time zone: +08:00, GMT+8, UTC, or a name such as Asia/Shanghai.
func ParseZone(s string) (*time.Location, error) {
	offset := s
	for _, prefix := range []string{"GMT", "UTC"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok && rest != "" {
			offset = rest
		}
	}
	if offset != "" && (offset[0] == '+' || offset[0] == '-') {
		return parseOffset(s, offset)
	}
	if s == "" || s == "Local" {
		return nil, errors.New("a zone has a name, such as +08:00, GMT+8 or Asia/Shanghai")
	}
	zone, err := time.LoadLocation(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no zone such as +08:00, GMT+8 or Asia/Shanghai", s)
	}
	return zone, nil
}

func parseOffset(name, offset string) (*time.Location, error) {
	hours, minutes, _ := strings.Cut(offset[1:], ":")
	h, err := strconv.ParseUint(hours, 10, 8)
	var m uint64
	if minutes != "" {
		var err2 error
		m, err2 = strconv.ParseUint(minutes, 10, 8)
		err = errors.Join(err, err2)
	}
	if err != nil || h > 18 || m > 59 {
		return nil, fmt.Errorf("%q is no zone such as +08:00, GMT+8 or Asia/Shanghai", name)
	}
	seconds := int(h*60+m) * 60
	if offset[0] == '-' {
		seconds = -seconds
	}
	return time.FixedZone(name, seconds), nil
}

// dateLayouts are the accepted dates: that of the old program, which has no zone, and those
// with one.
var dateLayouts = []string{time.DateTime, "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano}

// maxDue is the latest point in time, in milliseconds since the Unix epoch.
const maxDue = int64(tube.Latest) / int64(time.Millisecond)

// readDue parses a point in time: milliseconds since the Unix epoch, or a date, in zone
// unless it names one. It returns milliseconds.
func readDue(s string, zone *time.Location) (ms int64, err error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms < -maxDue || ms > maxDue {
			return 0, fmt.Errorf("delayTime %d is out of range", ms)
		}
		return ms, nil
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			if ms = t.UnixMilli(); ms < -maxDue || ms > maxDue {
				return 0, fmt.Errorf("delayTime %q is out of range", s)
			}
			return ms, nil
		}
	}
	return 0, fmt.Errorf("delayTime %q is neither milliseconds since 1970 nor a date such as 2006-01-02 15:04:05", s)
}
