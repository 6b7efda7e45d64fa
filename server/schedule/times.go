package schedule

import (
	"errors"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"redstalk/tube"
	"redstalk/tube/cron"
)

// times are the nominal times of a schedule: whole milliseconds.
type times struct {
	cron        cron.Schedule
	zone        *time.Location
	from, until tube.Instant
}

// FieldError says which field of a schedule is wrong, and why.
type FieldError struct {
	Field string // the name of its tag
	Err   error
}

// Error returns the field and the reason.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FieldError) Unwrap() error { return e.Err }

// timesOf returns the times of t. Those of a period are counted from From or, without it, from begin.
// The error is a FieldError.
func timesOf(t *tube.Timing, begin tube.Instant) (*times, error) {
	all := &times{zone: time.UTC, from: max(t.From, begin+1), until: t.Until}
	if all.until == 0 {
		all.until = tube.Latest
	}
	var err error
	if t.Zone != "" {
		if all.zone, err = cron.Zone(t.Zone); err != nil {
			return nil, &FieldError{"tz", err}
		}
	}
	switch {
	case t.Cron != "" && t.Every != 0:
		return nil, &FieldError{"every", errors.New("it contradicts cron")}
	case t.Cron != "":
		if all.cron, err = cron.Parse(t.Cron); err != nil {
			return nil, &FieldError{"cron", err}
		}
	default:
		anchor := begin
		if t.From != 0 {
			anchor = t.From
		}
		if all.cron, err = cron.Every(t.Every, at(anchor)); err != nil {
			return nil, &FieldError{"every", err}
		}
	}
	return all, nil
}

// next returns the first time after an instant, 0 if there is none.
func (t *times) next(after tube.Instant) tube.Instant {
	found, ok := t.cron.Next(at(max(after, t.from-1)), t.zone)
	if !ok {
		return 0
	}
	if next := tube.Instant(found.UnixNano()); next <= t.until {
		return next
	}
	return 0
}

// ZoneDatabase says which database of time zones is used, and its version, if that is known.
var ZoneDatabase = sync.OnceValue(cron.ZoneDatabase)

// at converts an instant.
func at(i tube.Instant) time.Time { return time.Unix(0, int64(i)) }

// wholeMs rounds an instant down to milliseconds.
func wholeMs(i tube.Instant) tube.Instant { return i - i%tube.Instant(time.Millisecond) }

// dueOf returns when an occurrence is put: at its nominal time, or later by a part of Spread that
// depends on nothing but the name and that time. Without an occurrence it is tube.Never.
func dueOf(s *tube.Schedule, nominal tube.Instant) tube.Instant {
	if nominal == 0 {
		return tube.Never
	}
	if s.Spread <= 0 {
		return nominal
	}
	h := fnv.New64a()
	h.Write(strconv.AppendInt([]byte(s.Name), int64(nominal), 10))
	return nominal + wholeMs(tube.Instant(h.Sum64()%uint64(s.Spread)))
}

// Preview returns the first n times of a timing after an instant, in its time zone; fewer if there are
// no more. begin is when the timing was set. The error is a FieldError.
func Preview(t *tube.Timing, begin, after tube.Instant, n int) ([]time.Time, error) {
	all, err := timesOf(t, begin)
	if err != nil {
		return nil, err
	}
	list := make([]time.Time, 0, n)
	for len(list) < n {
		if after = all.next(after); after == 0 {
			break
		}
		list = append(list, at(after).In(all.zone))
	}
	return list, nil
}
