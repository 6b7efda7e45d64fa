package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// MaxName is the longest name of a schedule, in bytes. It is part of the key of its jobs.
const MaxName = 100

// Service has the calls about schedules; Run puts their jobs. All methods are safe for concurrent use.
//
// The calls return queue.ErrNotFound if there is no such schedule, the errors of the store, and that
// of a context that has ended: then the change may have been made.
type Service struct {
	Counts Counts

	queue      *queue.Queue
	log        *slog.Logger
	logFailed  telemetry.Throttle
	logSetBack telemetry.Throttle
}

// New returns a Service for the schedules of a queue's store. log may be nil: then nothing is logged.
func New(q *queue.Queue, log *slog.Logger) *Service {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Service{queue: q, log: log, Counts: Counts{Lag: telemetry.NewDurations()}}
}

// May reports whether a caller may do something with schedules of a tube: its error is returned by
// the call. nil: everything.
type May func(tubeName string) error

func (may May) check(tubeName string) error {
	if may == nil {
		return nil
	}
	return may(tubeName)
}

// tries is how often a change is tried if others change the same schedule meanwhile.
const tries = 20

// errContended is returned after that many tries.
var errContended = fmt.Errorf("the schedule is changed by others all the time: %w", storage.ErrUnavailable)

// Set creates a schedule, or replaces the one of that name, whose tube must be the same. What set says
// of its jobs, its Timing, Overlap and catch-up is used. If its Timing is that of the schedule before, it
// keeps its place and its pause. Errors of what set says are a FieldError.
func (s *Service) Set(ctx context.Context, set *tube.Schedule, may May) error {
	if err := check(set, s.queue.MaxJobSize()); err != nil {
		return err
	}
	if err := may.check(set.Tube); err != nil {
		return err
	}
	for range tries {
		done, err := s.trySet(ctx, set, may)
		if done || err != nil {
			return err
		}
	}
	return errContended
}

// trySet is Set; done is false if the schedule was changed meanwhile.
func (s *Service) trySet(ctx context.Context, set *tube.Schedule, may May) (done bool, err error) {
	old, now, err := s.read(ctx, set.Name)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return false, err
	}
	if err := mayReplace(old, set, may); err != nil {
		return false, err
	}
	record, err := replace(old, set, wholeMs(now))
	if err != nil || old != nil && reflect.DeepEqual(old, record) {
		return true, err
	}
	record.Version++
	if err := s.setGroup(ctx, old, record); err != nil {
		return false, err
	}
	_, written, err := s.write(ctx, step{record: record})
	if err != nil || !written || old != nil {
		return written, err
	}
	return true, s.keepOne(ctx, set, may)
}

// keepOne is called when a schedule was created. If another one of that name was created at the same time
// for another tube, in another part of the store, read has kept one of the two.
func (s *Service) keepOne(ctx context.Context, set *tube.Schedule, may May) error {
	kept, _, err := s.read(ctx, set.Name)
	if errors.Is(err, queue.ErrNotFound) { // somebody has deleted it
		return nil
	}
	if err != nil {
		return err
	}
	return mayReplace(kept, set, may)
}

// mayReplace returns why a schedule, which may be nil, cannot be replaced.
func mayReplace(old, set *tube.Schedule, may May) error {
	if old == nil {
		return nil
	}
	if err := may.check(old.Tube); err != nil {
		return err
	}
	if old.Tube != set.Tube {
		return &FieldError{"tube", fmt.Errorf("the schedule is for the tube %q: delete it before you set it for another one", old.Tube)}
	}
	return nil
}

// replace returns the record of what set says, in place of old, which may be nil. Its Version is that of
// old.
func replace(old, set *tube.Schedule, now tube.Instant) (*tube.Schedule, error) {
	record := *set
	if record.Tags != nil && reflect.DeepEqual(*record.Tags, tube.Tags{}) {
		record.Tags = nil
	}
	if old != nil {
		record.Version, record.Results = old.Version, old.Results
		if bytes.Equal(record.Body, old.Body) {
			record.Body = old.Body
		}
	}
	if old != nil && old.Timing == set.Timing {
		record.Begin, record.Last, record.Next, record.Due = old.Begin, old.Last, old.Next, old.Due
		record.Paused, record.Missed, record.Stopped = old.Paused, old.Missed, old.Stopped
		_, err := goOnIfAhead(&record, now)
		return &record, err
	}
	all, err := timesOf(&set.Timing, now)
	if err != nil {
		return nil, err
	}
	record.Begin, record.Last, record.Next = now, 0, all.next(now)
	record.Paused, record.Missed, record.Stopped = false, 0, 0
	if record.Next == 0 {
		return nil, &FieldError{"cron", errors.New("there is no such time from now on")}
	}
	record.Due = dueOf(&record, record.Next)
	return &record, nil
}

// check returns what is wrong with a schedule, as a FieldError.
func check(s *tube.Schedule, maxBody int) error {
	own := s.Tags != nil && s.Tags.Key != ""
	switch {
	case len(s.Name) > MaxName:
		return &FieldError{"name", fmt.Errorf("it has more than %d bytes", MaxName)}
	case len(s.Body) > maxBody:
		return &FieldError{"body", fmt.Errorf("it has more than %d bytes: %w", maxBody, queue.ErrTooBig)}
	case own && s.Overlap == tube.OverlapAllow:
		return &FieldError{"key", errors.New("it contradicts overlap:allow")}
	case s.Tags != nil && s.Tags.Group != "" && s.Overlap == tube.OverlapBuffer:
		return &FieldError{"group", errors.New("it contradicts overlap:buffer-one, which needs a group of its own")}
	case s.Spread > longestSpread:
		return &FieldError{"jitter", fmt.Errorf("it is longer than %v", longestSpread)}
	}
	_, err := timesOf(&s.Timing, 0)
	return err
}

// longestSpread is the largest Spread.
const longestSpread = 24 * time.Hour

// setGroup makes the jobs of a schedule with OverlapBuffer run one at a time. It removes what it has set
// for the record before, which may be nil.
func (s *Service) setGroup(ctx context.Context, old, record *tube.Schedule) error {
	now, before := record != nil && record.Overlap == tube.OverlapBuffer, old != nil && old.Overlap == tube.OverlapBuffer
	if before && (!now || old.Tube != record.Tube) {
		if err := s.queue.SetGroup(ctx, old.Tube, ownName(old.Name), nil); err != nil {
			return err
		}
	}
	if !now {
		return nil
	}
	return s.queue.SetGroup(ctx, record.Tube, ownName(record.Name), &tube.GroupConfig{Limits: tube.Limits{Concurrency: 1}, Weight: 1})
}

// Get returns a schedule, which must not be changed, and the time of the store.
func (s *Service) Get(ctx context.Context, name string, may May) (*tube.Schedule, tube.Instant, error) {
	record, now, err := s.read(ctx, name)
	if err == nil {
		err = may.check(record.Tube)
	}
	if err != nil {
		return nil, 0, err
	}
	return record, now, nil
}

// read returns a record, and the time of the store, also with queue.ErrNotFound. Of several records of that
// name, which were created at the same time in different parts of the store, it keeps one, and removes the
// others: whoever reads them keeps the same one.
func (s *Service) read(ctx context.Context, name string) (*tube.Schedule, tube.Instant, error) {
	r, err := s.queue.GetRecord(ctx, tube.Schedules, name)
	if err != nil {
		now := tube.Instant(time.Now().UnixNano())
		if r != nil && r.Now != 0 { // the clocks of servers on a store can differ
			now = r.Now
		}
		return nil, now, err
	}
	all := r.Schedules()
	slices.SortFunc(all, func(a, b *tube.Schedule) int { return strings.Compare(a.Tube, b.Tube) })
	for _, other := range all[1:] {
		s.log.Warn("a schedule was set for two tubes at the same time; the first one is kept", "schedule", name, "kept", all[0].Tube, "removed", other.Tube)
		if err := s.queue.DeleteSchedule(ctx, name, other.Tube); err != nil && !errors.Is(err, queue.ErrNotFound) {
			return nil, 0, err
		}
	}
	return all[0], r.Now, nil
}

// List returns up to count schedules that may allows, without bodies, in the order of their names, starting
// behind a cursor; "" is the beginning. next is the cursor of the following ones, "" if there are none.
func (s *Service) List(ctx context.Context, count uint32, cursor string, may May) (list []*tube.Schedule, next string, err error) {
	for {
		r, err := s.queue.ListRecords(ctx, tube.Schedules, count, cursor)
		if err != nil {
			return nil, "", err
		}
		if may == nil {
			return r.Schedules(), r.Cursor, nil
		}
		for _, one := range r.Schedules() {
			if may.check(one.Tube) != nil {
				continue
			}
			if len(list) == int(count) {
				return list, list[count-1].Name, nil
			}
			list = append(list, one)
		}
		if cursor = r.Cursor; cursor == "" {
			return list, "", nil
		}
	}
}

// Delete removes a schedule. Its jobs stay.
func (s *Service) Delete(ctx context.Context, name string, may May) error {
	old, _, err := s.Get(ctx, name, may)
	if err != nil {
		return err
	}
	if err := s.queue.DeleteSchedule(ctx, name, old.Tube); err != nil {
		return err
	}
	return s.setGroup(ctx, old, nil)
}

// Pause stops a schedule until Resume.
func (s *Service) Pause(ctx context.Context, name string, may May) error {
	_, err := s.change(ctx, name, may, func(record *tube.Schedule, _ tube.Instant) (bool, tube.Instant, error) {
		change := !record.Paused
		record.Paused, record.Due = true, tube.Never
		return change, 0, nil
	})
	return err
}

// Resume ends a pause. Occurrences that were due meanwhile are not put.
func (s *Service) Resume(ctx context.Context, name string, may May) error {
	var stopped uint64
	_, err := s.change(ctx, name, may, func(record *tube.Schedule, now tube.Instant) (bool, tube.Instant, error) {
		if !record.Paused {
			return false, 0, nil
		}
		if _, err := goOnIfAhead(record, now); err != nil {
			return false, 0, err
		}
		all, err := timesOf(&record.Timing, record.Begin)
		if err != nil {
			return false, 0, err
		}
		p := passedOf(record, all, now, 1)
		if stopped = p.count; stopped > 0 {
			record.Last = p.latest[0]
		}
		record.Paused, record.Stopped = false, record.Stopped+stopped
		record.Next, record.Due = p.next, dueOf(record, p.next)
		return true, 0, nil
	})
	if err == nil {
		s.Counts.Stopped.Add(stopped)
	}
	return err
}

// Put puts a job of a schedule now, and changes nothing else. The answer is that of a put, but
// storage.ErrQuota if the quota of the tube prevents it.
func (s *Service) Put(ctx context.Context, name string, may May) (storage.Answer, error) {
	if s.queue.Draining() {
		return storage.Answer{}, queue.ErrDraining
	}
	a, err := s.change(ctx, name, may, func(_ *tube.Schedule, now tube.Instant) (bool, tube.Instant, error) {
		return true, wholeMs(now), nil
	})
	if err == nil && a.Outcome == tube.PutRefused {
		err = storage.ErrQuota
	}
	return a, err
}

// change replaces a record. f changes a copy of it, and returns whether it is to be written, and the
// nominal time of a job that is put with it, 0 for none.
func (s *Service) change(ctx context.Context, name string, may May, f func(*tube.Schedule, tube.Instant) (write bool, nominal tube.Instant, err error)) (storage.Answer, error) {
	for range tries {
		old, now, err := s.Get(ctx, name, may)
		if err != nil {
			return storage.Answer{}, err
		}
		record := *old
		record.Version++
		write, nominal, err := f(&record, now)
		if err != nil || !write {
			return storage.Answer{}, err
		}
		if a, written, err := s.write(ctx, step{&record, nominal}); written || err != nil {
			return a, err
		}
	}
	return storage.Answer{}, errContended
}

// write carries out a step. written is false if the record was changed meanwhile.
func (s *Service) write(ctx context.Context, p step) (a storage.Answer, written bool, err error) {
	answers, err := s.queue.Do(ctx, p.op())
	if err != nil {
		return a, false, err
	}
	a = answers[0]
	return a, a.Err == nil && !a.NotFound, a.Err
}

// Preview returns the next n times of a schedule, in its time zone; fewer if there are no more.
func (s *Service) Preview(ctx context.Context, name string, n int, may May) ([]time.Time, error) {
	record, now, err := s.Get(ctx, name, may)
	if err != nil {
		return nil, err
	}
	return Preview(&record.Timing, record.Begin, now, n)
}
