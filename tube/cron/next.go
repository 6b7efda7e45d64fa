package cron

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Schedule is a set of times. Schedules that Parse and Every made from the same terms are
// equal by ==, and so are expressions that differ only in spelling. The zero Schedule never fires.
type Schedule struct {
	// Bit sets of what a cron expression lists. Sunday is 0.
	seconds, minutes uint64
	hours, days      uint32
	months           uint16
	weekdays         uint8

	wildcard bool // see the package comment; false: a fixed-time schedule
	bothDays bool // a day must be in days and in weekdays; false: in one of them

	// Of Every, in ms; every is 0 in a cron schedule. 0 <= anchor < every.
	every, anchor int64
}

const (
	// searchYears is how far Next searches: there are eight years between 29 February
	// 2096 and the next one.
	searchYears = 8
	// largeShift, in seconds: a change of the local clock that is not daylight saving.
	largeShift = 3 * 60 * 60

	secondsPerDay = 24 * 60 * 60
)

// Every returns the schedule of the times anchor + n*period, for every integer n. The times
// are elapsed time: daylight saving does not move them. The period must be at least a
// second, and whole milliseconds; the anchor is truncated to milliseconds. The zero Time is
// an anchor like any other; use time.Unix(0, 0) if there is no better one.
func Every(period time.Duration, anchor time.Time) (Schedule, error) {
	if period < time.Second || period%time.Millisecond != 0 {
		return Schedule{}, fmt.Errorf("period %v: want at least 1s, and whole milliseconds", period)
	}
	every := period.Milliseconds()
	return Schedule{every: every, anchor: floorMod(anchor.UnixMilli(), every)}, nil
}

// Next returns the first time of the schedule after the given one, in loc. It
// returns false if there is none within eight years.
//
// Cron schedules fire at whole seconds, and at whole minutes if they have no second field
// and the offset of the zone is whole minutes.
func (s Schedule) Next(after time.Time, loc *time.Location) (t time.Time, ok bool) {
	if s.every > 0 {
		ms := after.UnixMilli()
		return time.UnixMilli(ms + s.every - floorMod(ms-s.anchor, s.every)).In(loc), true
	}
	limit := after.In(loc).AddDate(searchYears, 0, 1).Unix()
	for at := after.Unix() + 1; at < limit; {
		p := periodAt(at, loc, limit)
		if at, ok = s.nextIn(p, at); ok {
			return time.Unix(at, 0).In(loc), true
		}
		at = p.end
	}
	return time.Time{}, false
}

// nextIn returns the first time of a cron schedule from at on that belongs to p, the period
// of at. The times of a fixed-time schedule in the gap after p belong to p and fire at
// its end; its times in the repeated hours at the start of p belong to the period before.
func (s *Schedule) nextIn(p period, at int64) (int64, bool) {
	from, end := at+p.offset, p.end+p.offset
	if !s.wildcard && at < p.start+largeShift {
		if before := p.offsetAt(p.start - 1); before-p.offset < largeShift {
			from = max(from, p.start+before)
		}
	}
	if local, ok := s.match(from, end); ok {
		return local - p.offset, true
	}
	if s.wildcard {
		return 0, false
	}
	after := p.offsetAt(p.end)
	if after-p.offset >= largeShift {
		return 0, false
	}
	_, ok := s.match(max(from, end), p.end+after)
	return p.end, ok
}

// period is a time in which the offset of a zone from UTC does not change. Times are Unix
// times, in seconds.
type period struct {
	loc        *time.Location
	start, end int64 // the end is excluded
	offset     int64 // seconds east of UTC
}

// periodAt returns the period of a time, cut off at limit.
func periodAt(at int64, loc *time.Location, limit int64) period {
	t := time.Unix(at, 0).In(loc)
	start, end := t.ZoneBounds()
	p := period{loc: loc, start: math.MinInt64 / 2, end: limit}
	p.offset = p.offsetAt(at)
	if !start.IsZero() {
		p.start = start.Unix()
	}
	switch {
	case end.IsZero():
	case !end.After(t):
		// In the years that only the rule of a zone covers, time.ZoneBounds takes a year
		// for 365 days: on 31 December of a leap year the end is not after t.
		p.end = min(limit, at+secondsPerDay)
	default:
		p.end = min(limit, end.Unix())
	}
	return p
}

// offsetAt returns the offset at a time that need not be in the period.
func (p *period) offsetAt(at int64) int64 {
	_, offset := time.Unix(at, 0).In(p.loc).Zone()
	return int64(offset)
}

// match returns the first time from from on, and before until, that the fields match. Its
// times are local: they count seconds as Unix time does, from 1970-01-01 00:00 local time.
func (s *Schedule) match(from, until int64) (int64, bool) {
	clock := floorMod(from, secondsPerDay)
	day := from - clock
	if s.matchesDay(time.Unix(day, 0).UTC()) {
		if clock, ok := s.nextClock(int(clock)); ok {
			return day + int64(clock), day+int64(clock) < until
		}
	}
	first, ok := s.nextClock(0)
	if !ok {
		return 0, false
	}
	for day += secondsPerDay; day < until; {
		date := time.Unix(day, 0).UTC()
		switch {
		case s.months&(1<<date.Month()) == 0:
			day = time.Date(date.Year(), date.Month()+1, 1, 0, 0, 0, 0, time.UTC).Unix()
		case !s.matchesDay(date):
			day += secondsPerDay
		default:
			return day + int64(first), day+int64(first) < until
		}
	}
	return 0, false
}

// matchesDay reports whether the schedule fires on a date.
func (s *Schedule) matchesDay(date time.Time) bool {
	day := s.days&(1<<date.Day()) != 0
	weekday := s.weekdays&(1<<date.Weekday()) != 0
	if s.months&(1<<date.Month()) == 0 {
		return false
	}
	if s.bothDays {
		return day && weekday
	}
	return day || weekday
}

// nextClock returns the first time of day from a given one on that the fields match, both
// in seconds since midnight.
func (s *Schedule) nextClock(from int) (int, bool) {
	hour, minute, second := from/3600, from/60%60, from%60
	firstMinute, firstSecond := bits.TrailingZeros64(s.minutes), bits.TrailingZeros64(s.seconds)
	if s.hours&(1<<hour) != 0 {
		if s.minutes&(1<<minute) != 0 {
			if next, ok := nextBit(s.seconds, second); ok {
				return hour*3600 + minute*60 + next, true
			}
		}
		if next, ok := nextBit(s.minutes, minute+1); ok {
			return hour*3600 + next*60 + firstSecond, true
		}
	}
	next, ok := nextBit(uint64(s.hours), hour+1)
	return next*3600 + firstMinute*60 + firstSecond, ok
}

// nextBit returns the first element of a bit set that is at least from.
func nextBit(set uint64, from int) (int, bool) {
	set &= ^uint64(0) << from
	return bits.TrailingZeros64(set), set != 0
}

// floorMod returns n modulo m, from 0 to m-1 for negative n too.
func floorMod(n, m int64) int64 {
	return (n%m + m) % m
}
