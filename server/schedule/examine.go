package schedule

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// countedExactly is how many missed occurrences of one downtime are counted one by one. If there are
	// more, not all of the others are counted, so that a schedule of every second does not take minutes
	// after a year.
	countedExactly = 10_000

	// longestCatchUp is how late an occurrence can be put at most if the schedule does not say it;
	// leastCatchUp is how late it can be put always: that is no downtime.
	longestCatchUp = time.Hour
	leastCatchUp   = 10 * time.Second
)

// step is a change of a record: a SetSchedule or, if nominal is not 0, a PutScheduled.
type step struct {
	record  *tube.Schedule
	nominal tube.Instant
}

// examine returns what must be done with a schedule that is due: its steps, in order, and how many
// occurrences are missed by that. The error is a FieldError; it means that another version of the
// program has written the record.
func examine(s *tube.Schedule, now tube.Instant) (steps []step, missed uint64, err error) {
	all, err := timesOf(&s.Timing, s.Begin)
	if err != nil || s.Paused || s.Due > now {
		return nil, 0, err
	}
	p := passedOf(s, all, now, max(int(s.CatchUpAll), 1))
	puts := p.latest
	for len(puts) > 0 && tooLate(s, all, puts[0], now) {
		puts = puts[1:]
	}
	missed = p.count - uint64(len(puts))
	record := *s
	record.Missed += missed
	add := func(last, next, put tube.Instant) {
		record.Version++
		record.Last, record.Next, record.Due = last, next, dueOf(s, next)
		written := record
		steps = append(steps, step{&written, put})
	}
	for i, nominal := range puts {
		next := p.next
		if i+1 < len(puts) {
			next = puts[i+1]
		}
		add(nominal, next, nominal)
	}
	if len(puts) == 0 {
		last := s.Last
		if len(p.latest) > 0 {
			last = p.latest[len(p.latest)-1]
		}
		add(last, p.next, 0)
	}
	return steps, missed, nil
}

// passed are occurrences that are due: how many, the latest ones in order, and the first one that is
// not due, 0 if there is none.
type passed struct {
	count  uint64
	latest []tube.Instant
	next   tube.Instant
}

// passedOf returns the occurrences of s from Next on that are due, the latest of them at most keep.
func passedOf(s *tube.Schedule, all *times, now tube.Instant, keep int) passed {
	p := passed{next: s.Next}
	p.collect(s, all, now, keep, countedExactly)
	if p.due(s, now) {
		p.skip(s, all, now, keep)
	}
	return p
}

// due reports whether the next occurrence is due.
func (p *passed) due(s *tube.Schedule, now tube.Instant) bool {
	return p.next != 0 && dueOf(s, p.next) <= now
}

// collect adds the next occurrences that are due, at most limit.
func (p *passed) collect(s *tube.Schedule, all *times, now tube.Instant, keep int, limit uint64) {
	for n := uint64(0); n < limit && p.due(s, now); n++ {
		if len(p.latest) == keep {
			p.latest = append(p.latest[:0], p.latest[1:]...)
		}
		p.latest = append(p.latest, p.next)
		p.count++
		p.next = all.next(p.next)
	}
}

// skip leaves out occurrences, so that only the latest ones have to be computed. It begins a short time before
// now, and earlier and earlier until there are enough.
func (p *passed) skip(s *tube.Schedule, all *times, now tube.Instant, keep int) {
	period := (p.next - s.Next) / tube.Instant(p.count)
	for back := 2 * period * tube.Instant(keep); ; back *= 4 {
		late := passed{count: p.count, next: all.next(max(p.next, now-back-tube.Instant(s.Spread)) - 1)}
		late.collect(s, all, now, keep, 1<<62)
		if len(late.latest) == keep || back > now-p.next {
			*p = late
			return
		}
	}
}

// tooLate reports whether an occurrence that is due is missed.
func tooLate(s *tube.Schedule, all *times, nominal, now tube.Instant) bool {
	limit := s.CatchUp
	if !s.HasCatchUp {
		if s.CatchUpAll > 0 {
			return false
		}
		limit = longestCatchUp
		if next := all.next(nominal); next != 0 {
			limit = min(limit, time.Duration(next-nominal))
		}
	}
	return time.Duration(now-dueOf(s, nominal)) > max(limit, leastCatchUp)
}

// op returns the operation of a step.
func (p *step) op() storage.Op {
	s := p.record
	if p.nominal == 0 {
		return storage.Op{Kind: storage.SetSchedule, Tube: s.Tube, Args: &storage.Args{Schedule: s}}
	}
	return storage.Op{
		Kind: storage.PutScheduled, Tube: s.Tube, Pri: s.Pri, TTR: s.TTR, Body: s.Body,
		Args: &storage.Args{Schedule: s, Tags: jobTags(s, p.nominal)},
	}
}

// jobTags returns the tags of the job of an occurrence.
func jobTags(s *tube.Schedule, nominal tube.Instant) *tube.Tags {
	tags := new(tube.Tags)
	if s.Tags != nil {
		*tags = *s.Tags
	}
	tags.Occurrence = &tube.Occurrence{Schedule: s.Name, Nominal: nominal}
	if s.Overlap == tube.OverlapAllow {
		return tags
	}
	if tags.Key == "" {
		tags.Key = ownName(s.Name)
	}
	tags.OnDuplicate = [...]tube.OnDuplicate{tube.OverlapSkip: tube.Keep, tube.OverlapReplace: tube.Replace, tube.OverlapBuffer: tube.Follow}[s.Overlap]
	if s.Overlap == tube.OverlapBuffer {
		tags.Group = ownName(s.Name)
	}
	return tags
}

// ownName is the key of the jobs of a schedule, and with OverlapBuffer their group.
func ownName(schedule string) string { return "schedule:" + schedule }
