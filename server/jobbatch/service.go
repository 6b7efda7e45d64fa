package jobbatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Service has the calls about batches; Run lets their after-jobs run. All methods are safe for concurrent use.
//
// The calls return queue.ErrNotFound if there is no such batch, the errors of the store, and that of a
// context that has ended: then the change may have been made.
type Service struct {
	Counts Counts

	queue     *queue.Queue
	log       *slog.Logger
	logFailed telemetry.Throttle
	unused    *rate.Limiter // seals of batches that no job has named
}

const (
	// unusedTTL is how long the record of a batch without members is kept after its end, at most.
	unusedTTL = 10 * time.Minute
	// unusedPerSecond is how many batches that no job has named can be sealed per second, after the first unusedBurst.
	unusedPerSecond, unusedBurst = 10, 1000
)

var errUnused = fmt.Errorf("%w: too many batches that no job has named were sealed lately", storage.ErrQuota)

// New returns a Service for the batches of a queue's store. log may be nil: then nothing is logged.
func New(q *queue.Queue, log *slog.Logger) *Service {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Service{queue: q, log: log, unused: rate.NewLimiter(unusedPerSecond, unusedBurst)}
}

// Seal says that no more members come. The batch need not exist: an empty one is done at once. If that is done too often the
// error is a storage.ErrQuota. After an error the batch can be sealed again.
func (s *Service) Seal(ctx context.Context, name string) error {
	switch _, err := s.queue.GetRecord(ctx, tube.JobBatches, name); {
	case errors.Is(err, queue.ErrNotFound) && !s.unused.Allow():
		return errUnused
	case err != nil && !errors.Is(err, queue.ErrNotFound):
		return err
	}
	return s.queue.SealBatch(ctx, name)
}

// Cancel seals a batch and removes its members that are not reserved. It returns how many these were. A batch that has ended,
// and has no jobs any more, is forgotten instead: its name is free.
func (s *Service) Cancel(ctx context.Context, name string) (n int, err error) {
	forgotten, err := s.forgetEnded(ctx, name)
	if err == nil && !forgotten {
		n, err = s.queue.CancelBatch(ctx, name)
	}
	if err == nil {
		s.Counts.Cancelled.Add(1)
	}
	return n, err
}

// forgetEnded removes the record of a batch that has ended and has no jobs, and returns whether it has done that.
func (s *Service) forgetEnded(ctx context.Context, name string) (bool, error) {
	batches, err := s.read(ctx, []string{name})
	if err == nil {
		err = s.readAgain(ctx, batches)
	}
	if err != nil {
		return false, err
	}
	b := batches[0]
	sum := b.summary()
	v := b.verdict(&sum)
	if len(b.parts) == 0 || !ended(v) && v != tube.BatchUnsealed || sum.jobs() > 0 {
		return false, nil
	}
	ops := make([]storage.Op, len(b.parts))
	for i, p := range b.parts {
		settle := p.Settlement(v, tube.Never)
		settle.Forget = true
		ops[i] = settleOps(name, []*tube.Settlement{settle})[0]
	}
	answers, err := s.queue.Do(ctx, ops...)
	for i := range answers {
		err = errors.Join(err, answers[i].Err)
	}
	return true, err
}

// Get returns a batch, with its first after-jobs.
func (s *Service) Get(ctx context.Context, name string) (*Summary, error) {
	r, err := s.queue.GetRecord(ctx, tube.JobBatches, name)
	if err != nil {
		return nil, err
	}
	summary := batchOf(name, r).summary()
	return &summary, nil
}

// ListOf is List of the batches whose names begin with one of these prefixes, which end with ~ and are in their order. What
// follows the prefix has no other ~.
func (s *Service) ListOf(ctx context.Context, prefixes []string, count uint32, cursor string) (list []Summary, next string, err error) {
	for _, prefix := range prefixes {
		for from := max(prefix, cursor); strings.HasPrefix(from, prefix); {
			if len(list) == int(count) {
				return list, list[len(list)-1].Name, nil
			}
			page, more, err := s.List(ctx, count-uint32(len(list)), from)
			if err != nil {
				return nil, "", err
			}
			for i := range page {
				if rest, is := strings.CutPrefix(page[i].Name, prefix); is && !strings.Contains(rest, "~") {
					list = append(list, page[i])
				}
			}
			from = more
		}
	}
	return list, "", nil
}

// List returns up to count batches in the order of their names, starting behind a cursor; "" is the beginning. next
// is "" if there are no more.
func (s *Service) List(ctx context.Context, count uint32, cursor string) (list []Summary, next string, err error) {
	r, err := s.queue.ListRecords(ctx, tube.JobBatches, count, cursor)
	if err != nil || r == nil {
		return nil, "", err
	}
	for rest := r.Batches(); len(rest) > 0; {
		b := batch{name: rest[0].Name, of: r.Parts, now: r.Now}
		for len(rest) > 0 && rest[0].Name == b.name {
			b.parts, rest = append(b.parts, rest[0]), rest[1:]
		}
		list = append(list, b.summary())
	}
	return list, r.Cursor, nil
}

// mostPages is how many pages of the store Members makes one of.
const mostPages = 64

// Members returns up to count members that exist; cursor and next are as in List. A page can be shorter though there
// are more.
func (s *Service) Members(ctx context.Context, name string, count uint32, cursor string) (jobs []tube.JobStats, next string, err error) {
	next = cursor
	for range mostPages {
		var more []tube.JobStats
		more, next, err = s.queue.ListMembers(ctx, name, count-uint32(len(jobs)), next)
		if err != nil {
			return nil, "", err
		}
		if jobs = append(jobs, more...); next == "" || len(jobs) >= int(count) {
			break
		}
	}
	return jobs, next, nil
}
