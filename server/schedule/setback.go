package schedule

import (
	"context"
	"errors"
	"time"

	"redstalk/server/queue"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// correction is from which step back, of three hours, the clock of the store was wrong before: schedules go on
	// from now, as with cron. After a smaller step each time is still put once: schedules wait. It is a minute less,
	// because less than the step is seen of it.
	correction = 3*time.Hour - time.Minute

	// setBackAfter is how long after a report schedules are examined: parts of a store report the same step
	// within that time.
	setBackAfter = time.Second

	// worthLogging is from which step back, as found in records, there is a line in the log.
	worthLogging = time.Second
)

// clockSetBack is called when the clock of the store was set back by that much. If that is 0, the records tell whether
// it was while nobody looked.
func (s *Service) clockSetBack(ctx context.Context, by time.Duration) error {
	seen := by > 0
	if !seen {
		err := s.each(ctx, func(record *tube.Schedule, now tube.Instant) error {
			by = max(by, aheadOf(record, now))
			return nil
		})
		if err != nil || by < worthLogging {
			return err
		}
	}
	all, changed, err := s.goOnAll(ctx, by)
	if all == 0 || err != nil || !seen && by >= correction && changed == 0 {
		return err
	}
	effect := "no time is put twice: until the clock is where it was, no schedule puts a job"
	if by >= correction {
		effect = "schedules go on from now, also with times that they have had"
	}
	throttle := &s.logSetBack // parts of a store can report the same step again
	if !seen {
		throttle = new(telemetry.Throttle)
	}
	throttle.Warn(s.log, "the clock of the store was set back", "by", by.Round(time.Second), "schedules", all, "changed", changed, "effect", effect)
	return nil
}

// goOnAll lets all schedules go on after a step back by that much. It returns how many there are, and
// how many of them have changed.
func (s *Service) goOnAll(ctx context.Context, by time.Duration) (all, changed int, err error) {
	err = s.each(ctx, func(record *tube.Schedule, now tube.Instant) error {
		all++
		listed := *record
		if goes, err := goOn(&listed, now); by < correction || err != nil || !goes {
			return nil // a record of another version is reported when it is due
		}
		_, err := s.change(ctx, record.Name, nil, func(record *tube.Schedule, now tube.Instant) (bool, tube.Instant, error) {
			goes, err := goOn(record, now)
			return goes, 0, err
		})
		if errors.Is(err, queue.ErrNotFound) {
			return nil
		}
		changed++
		return err
	})
	return all, changed, err
}

// each calls do with all records, without bodies, and the time of the store.
func (s *Service) each(ctx context.Context, do func(*tube.Schedule, tube.Instant) error) error {
	for cursor := ""; ; {
		r, err := s.queue.ListRecords(ctx, tube.Schedules, tube.MaxListed, cursor)
		if err != nil {
			return err
		}
		for _, one := range r.Schedules() {
			if err := do(one, r.Now); err != nil {
				return err
			}
		}
		if cursor = r.Cursor; cursor == "" {
			return nil
		}
	}
}

// aheadOf returns how far now is before the last time at which the store has done something with s: by so much
// its clock was set back, or by more.
func aheadOf(s *tube.Schedule, now tube.Instant) time.Duration {
	return max(s.Begin, s.Last, s.Results.At).Until(now)
}

// goOnIfAhead is goOn for a record that shows by itself that the clock was corrected.
func goOnIfAhead(s *tube.Schedule, now tube.Instant) (changed bool, err error) {
	if aheadOf(s, now) < correction {
		return false, nil
	}
	return goOn(s, now)
}

// goOn makes the next occurrence of s the first one after now, if it is later than that. It returns whether
// it was.
func goOn(s *tube.Schedule, now tube.Instant) (changed bool, err error) {
	begin := min(s.Begin, wholeMs(now))
	all, err := timesOf(&s.Timing, begin)
	if err != nil {
		return false, err
	}
	next := all.next(now)
	if next == 0 || s.Next != 0 && s.Next <= next {
		return false, nil
	}
	s.Begin, s.Next = begin, next
	if s.Last > now {
		s.Last = 0
	}
	if s.Due = tube.Never; !s.Paused {
		s.Due = dueOf(s, next)
	}
	return true, nil
}
