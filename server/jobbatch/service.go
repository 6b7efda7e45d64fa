package jobbatch

import (
	"context"
	"log/slog"

	"redstalk/server/queue"
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
}

// New returns a Service for the batches of a queue's store. log may be nil: then nothing is logged.
func New(q *queue.Queue, log *slog.Logger) *Service {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Service{queue: q, log: log}
}

// Seal says that no more members come. The batch need not exist: an empty one is done at once. After an error it
// can be sealed again.
func (s *Service) Seal(ctx context.Context, name string) error { return s.queue.SealBatch(ctx, name) }

// Cancel seals a batch and removes its members that are not reserved. It returns how many these were.
func (s *Service) Cancel(ctx context.Context, name string) (int, error) {
	n, err := s.queue.CancelBatch(ctx, name)
	if err == nil {
		s.Counts.Cancelled.Add(1)
	}
	return n, err
}

// Get returns a batch, with its first after-jobs.
func (s *Service) Get(ctx context.Context, name string) (*Summary, error) {
	r, err := s.queue.GetBatch(ctx, name)
	if err != nil {
		return nil, err
	}
	summary := batchOf(name, r).summary()
	return &summary, nil
}

// List returns up to count batches in the order of their names, starting behind a cursor; "" is the beginning. next
// is "" if there are no more.
func (s *Service) List(ctx context.Context, count uint32, cursor string) (list []Summary, next string, err error) {
	r, err := s.queue.ListBatches(ctx, count, cursor)
	if err != nil || r == nil {
		return nil, "", err
	}
	for rest := r.Batches; len(rest) > 0; {
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
