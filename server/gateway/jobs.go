package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/tube"
)

// Priority returns the priority of a job that is due at that time: the second. So ready jobs
// come in the order in which they were due, as from the lists of the older systems.
func Priority(due time.Time) uint32 {
	return uint32(min(max(due.Unix(), tube.UrgentBelow), math.MaxUint32))
}

// ErrHeld refuses what is only allowed with a job that is not reserved, or with its lease.
var ErrHeld = errors.New("the job is reserved")

// ErrTooMany refuses to wait for a job because too many clients are waiting.
var ErrTooMany = errors.New("too many clients wait for jobs")

// Jobs are the jobs of a queue in the form that an older system knows. Its methods are safe
// for concurrent use.
type Jobs struct {
	queue      *queue.Queue
	maxWaiting int64        // limit of calls of Take that wait
	waiting    atomic.Int64 // calls of Take that wait or may begin to

	seed  maphash.Seed
	locks [64]sync.Mutex // by id: one put of an id at a time
}

// DefaultMaxWaiting is the default limit of clients of a gateway that wait for jobs.
const DefaultMaxWaiting = 10_000

// NewJobs returns the jobs of a queue. maxWaiting limits the clients that wait for jobs; 0
// means DefaultMaxWaiting.
func NewJobs(q *queue.Queue, maxWaiting int) *Jobs {
	return &Jobs{queue: q, maxWaiting: int64(cmp.Or(maxWaiting, DefaultMaxWaiting)), seed: maphash.MakeSeed()}
}

// New is a job to be put.
type New struct {
	Topic string // any valid UTF-8 text
	ID    string // any valid UTF-8 text that is not empty
	Delay uint32 // seconds
	TTR   uint32 // seconds
	Body  []byte // the store keeps it without a copy
}

// Put puts a job and replaces those that have its id, in all tubes and whoever holds them.
// Only jobs in tubes into which the user may not put stay.
//
// If several jobs with the same id are put at the same moment, the last one stays, by the
// store's clock and then by job number; each of the callers makes sure of that.
func (j *Jobs) Put(ctx context.Context, n New) error {
	name, key, body := Pack(n.Topic, n.ID, n.Body)
	if err := CheckPut(ctx, name, "", len(n.Body)); err != nil {
		return err
	}
	lock := &j.locks[maphash.String(j.seed, n.ID)%uint64(len(j.locks))]
	lock.Lock()
	defer lock.Unlock()
	pri := Priority(time.Now().Add(time.Duration(n.Delay) * time.Second))
	job := queue.NewJob{Tube: name, Pri: pri, Delay: n.Delay, TTR: n.TTR, Body: body, Envelope: Envelope(body, len(n.Body))}
	if _, err := j.queue.PutTagged(ctx, job, &tube.Tags{Key: key, OnDuplicate: tube.Replace}); err != nil {
		return err
	}
	have, err := j.find(ctx, key)
	if err != nil || len(have) < 2 {
		return err
	}
	for i := range have[:len(have)-1] {
		if Check(ctx, "put", have[i].Tube) != nil {
			continue
		}
		if err := j.remove(ctx, &have[i]); err != nil {
			return fmt.Errorf("removing job %d, which had the id before: %w", have[i].ID, err)
		}
	}
	return nil
}

// find returns the jobs of all tubes that have a key, the newest last. It is no error if
// there is none.
func (j *Jobs) find(ctx context.Context, key string) ([]tube.JobStats, error) {
	jobs, err := j.queue.FindKey(ctx, key)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, nil
	}
	slices.SortFunc(jobs, func(a, b tube.JobStats) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return jobs, err
}

// Job is a job with its topic and id.
type Job struct {
	Topic, ID string
	Body      []byte // must not be changed
	Lease     uint64 // of a job that was taken; else 0
	Stats     *tube.JobStats
}

// Get returns the job with an id, or queue.ErrNotFound.
func (j *Jobs) Get(ctx context.Context, id string) (*Job, error) {
	jobs, err := j.byID(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, queue.ErrNotFound
	}
	return j.read(ctx, &jobs[len(jobs)-1])
}

// Number returns the job with a number, or queue.ErrNotFound.
func (j *Jobs) Number(ctx context.Context, n uint64) (*Job, error) {
	if err := checkAny(ctx); err != nil {
		return nil, err
	}
	s, err := j.queue.JobStats(ctx, n)
	if err != nil {
		return nil, err
	}
	return j.read(ctx, s)
}

func (j *Jobs) read(ctx context.Context, s *tube.JobStats) (*Job, error) {
	if err := checkJob(ctx, "peek", s); err != nil {
		return nil, err
	}
	body, err := j.queue.Peek(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	job := newJob(queue.Job{ID: s.ID, Body: body.Body}, s)
	job.Body = access.SightIn(ctx, s.Tube).Body(job.Body)
	return job, nil
}

func newJob(taken queue.Job, s *tube.JobStats) *Job {
	job := &Job{Lease: taken.Lease, Stats: s}
	job.Topic, job.ID, job.Body = Unpack(s.Tube, keyOf(s), taken.Body)
	if job.ID == "" {
		job.ID = numberPrefix + strconv.FormatUint(s.ID, 10)
	}
	return job
}

func keyOf(s *tube.JobStats) string {
	if s.Metadata == nil {
		return ""
	}
	return s.Metadata.Key
}

// numberPrefix is the prefix of the id of a job without a key, followed by its number. Such
// jobs were put through another listener.
const numberPrefix = "job:"

// byID returns the jobs with an id that the user may know of.
func (j *Jobs) byID(ctx context.Context, id string) ([]tube.JobStats, error) {
	if err := checkAny(ctx); err != nil {
		return nil, err
	}
	jobs, err := j.find(ctx, Key(id))
	jobs = slices.DeleteFunc(jobs, func(s tube.JobStats) bool { return !mayKnowOf(ctx, &s) })
	if err != nil || len(jobs) > 0 {
		return jobs, err
	}
	number, ok := strings.CutPrefix(id, numberPrefix)
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return nil, nil
	}
	s, err := j.queue.JobStats(ctx, n)
	if errors.Is(err, queue.ErrNotFound) || err == nil && (keyOf(s) != "" || !mayKnowOf(ctx, s)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []tube.JobStats{*s}, nil
}

// Remove removes the job with an id, whatever its state and whoever holds it. It is no error
// if there is none.
func (j *Jobs) Remove(ctx context.Context, id string) error {
	jobs, err := j.byID(ctx, id)
	for i := range jobs {
		err = errors.Join(err, j.removeChecked(ctx, &jobs[i]))
	}
	return err
}

// removeChecked is remove for a user who must have the right.
func (j *Jobs) removeChecked(ctx context.Context, s *tube.JobStats) error {
	if err := checkJob(ctx, "delete", s); err != nil {
		return err
	}
	return j.remove(ctx, s)
}

// RemoveNumber is Remove for the job with a number.
func (j *Jobs) RemoveNumber(ctx context.Context, n uint64) error {
	if err := checkAny(ctx); err != nil {
		return err
	}
	s, err := j.queue.JobStats(ctx, n)
	if err == nil {
		err = j.removeChecked(ctx, s)
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// Finish is Remove, but a reserved job requires its current lease: with another one, or
// none, it returns ErrHeld.
func (j *Jobs) Finish(ctx context.Context, id string, lease uint64) error {
	jobs, err := j.byID(ctx, id)
	for i := range jobs {
		s := &jobs[i]
		if forbidden := checkJob(ctx, "delete", s); forbidden != nil {
			return forbidden
		}
		if s.State == tube.Reserved && (!s.Leased || s.Metadata.Lease != lease) {
			return ErrHeld
		}
		err = errors.Join(err, j.removeInState(ctx, s))
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// removeTries is how often remove tries to remove a job that keeps changing its state.
const removeTries = 10

// remove removes this very job, whatever its state. Another job that has got its key in the
// meantime is not touched, unless a connection holds this one.
func (j *Jobs) remove(ctx context.Context, s *tube.JobStats) error {
	for range removeTries {
		err := j.removeInState(ctx, s)
		if !errors.Is(err, queue.ErrNotFound) {
			return err
		}
		if s, err = j.queue.JobStats(ctx, s.ID); errors.Is(err, queue.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return ErrHeld
}

// removeInState removes a job whose state is that of s, or returns queue.ErrNotFound.
func (j *Jobs) removeInState(ctx context.Context, s *tube.JobStats) error {
	switch {
	case s.State != tube.Reserved:
		return j.queue.Delete(ctx, 0, s.ID)
	case s.Leased:
		return j.queue.MoveLeased(ctx, tube.Delete, s.ID, s.Metadata.Lease, tube.Terms{})
	case keyOf(s) != "":
		return j.queue.DeleteKey(ctx, s.Tube, keyOf(s))
	}
	return ErrHeld
}

// Due returns when a job is or was to be delivered for the first time.
func Due(s *tube.JobStats) time.Time {
	due := time.Unix(0, int64(s.Created.After(s.Delay)))
	if actual := time.Now().Add(s.TimeLeft); s.State == tube.Delayed && actual.Sub(due).Abs() > dueSlack {
		return actual // somebody has given it a later due time
	}
	return due
}

// dueSlack is how far apart the clocks of a store and an instance can be.
const dueSlack = 10 * time.Second
