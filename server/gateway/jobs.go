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

	"redstalk/server/queue"
	"redstalk/tube"
)

// Priority returns the priority of a job that is due then: the second. So jobs that are ready
// come in the order in which they were due, as from the lists of the older systems.
func Priority(due time.Time) uint32 {
	return uint32(min(max(due.Unix(), tube.UrgentBelow), math.MaxUint32))
}

// ErrHeld refuses what may be done with a job that is not reserved, or only with its lease.
var ErrHeld = errors.New("the job is reserved")

// ErrTooMany refuses to wait for a job because too many clients do.
var ErrTooMany = errors.New("too many clients wait for jobs")

// Jobs are the jobs of a queue as an older system knows them. Its methods may be called from
// any goroutine.
type Jobs struct {
	queue   *queue.Queue
	most    int64        // calls of Take that may wait at a time
	waiting atomic.Int64 // those that may

	seed  maphash.Seed
	locks [64]sync.Mutex // by id: one put of an id at a time
}

// DefaultMaxWaiting is how many clients of a gateway may wait for jobs at a time, if nothing
// else is said.
const DefaultMaxWaiting = 10_000

// NewJobs returns the jobs of a queue, for which so many clients may wait at a time; 0 means
// DefaultMaxWaiting.
func NewJobs(q *queue.Queue, maxWaiting int) *Jobs {
	return &Jobs{queue: q, most: int64(cmp.Or(maxWaiting, DefaultMaxWaiting)), seed: maphash.MakeSeed()}
}

// New is a job to be put.
type New struct {
	Topic string // any text that is valid UTF-8
	ID    string // the same, not empty
	Delay uint32 // seconds
	TTR   uint32 // seconds
	Body  []byte // kept by the store, not copied
}

// Put puts a job in the place of those that have its id, in all tubes and whoever holds
// them. Only those stay that are in tubes into which the user may not put.
//
// Of several that are put at the same moment the last one stays, by the store's clock and
// then by the number of the job; each of the callers sees to that.
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

// find returns the jobs of all tubes that have a key, the last one last. It is no error if
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

// Get returns the job with an id; ErrNotFound of package queue if there is none.
func (j *Jobs) Get(ctx context.Context, id string) (*Job, error) {
	jobs, err := j.named(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, queue.ErrNotFound
	}
	return j.read(ctx, &jobs[len(jobs)-1])
}

// Number returns the job with a number; ErrNotFound of package queue if there is none.
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
	return newJob(queue.Job{ID: s.ID, Body: body.Body}, s), nil
}

func newJob(taken queue.Job, s *tube.JobStats) *Job {
	job := &Job{Lease: taken.Lease, Stats: s}
	job.Topic, job.ID, job.Body = Unpack(s.Tube, keyOf(s), taken.Body)
	if job.ID == "" {
		job.ID = numbered + strconv.FormatUint(s.ID, 10)
	}
	return job
}

func keyOf(s *tube.JobStats) string {
	if s.Metadata == nil {
		return ""
	}
	return s.Metadata.Key
}

// numbered is what the id of a job that has no key begins with: its number follows. Such
// jobs were put by another listener.
const numbered = "job:"

// named returns the jobs with an id of which the user may know.
func (j *Jobs) named(ctx context.Context, id string) ([]tube.JobStats, error) {
	if err := checkAny(ctx); err != nil {
		return nil, err
	}
	jobs, err := j.find(ctx, Key(id))
	jobs = slices.DeleteFunc(jobs, func(s tube.JobStats) bool { return !mayKnow(ctx, &s) })
	if err != nil || len(jobs) > 0 {
		return jobs, err
	}
	number, ok := strings.CutPrefix(id, numbered)
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return nil, nil
	}
	s, err := j.queue.JobStats(ctx, n)
	if errors.Is(err, queue.ErrNotFound) || err == nil && (keyOf(s) != "" || !mayKnow(ctx, s)) {
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
	jobs, err := j.named(ctx, id)
	for i := range jobs {
		err = errors.Join(err, j.removeNamed(ctx, &jobs[i]))
	}
	return err
}

// removeNamed is remove for a user who has to have the right.
func (j *Jobs) removeNamed(ctx context.Context, s *tube.JobStats) error {
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
		err = j.removeNamed(ctx, s)
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// Finish is Remove, but if the job is reserved only its present lease will do: with another
// one, or none, it returns ErrHeld.
func (j *Jobs) Finish(ctx context.Context, id string, lease uint64) error {
	jobs, err := j.named(ctx, id)
	for i := range jobs {
		s := &jobs[i]
		if forbidden := checkJob(ctx, "delete", s); forbidden != nil {
			return forbidden
		}
		if s.State == tube.Reserved && (!s.Leased || s.Metadata.Lease != lease) {
			return ErrHeld
		}
		err = errors.Join(err, j.removeIn(ctx, s))
	}
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

// removeTries is how often a job that changes its state all the time is looked at.
const removeTries = 10

// remove removes this very job, whatever its state: another one that has got its key
// meanwhile is not touched, unless a connection holds this one.
func (j *Jobs) remove(ctx context.Context, s *tube.JobStats) error {
	for range removeTries {
		err := j.removeIn(ctx, s)
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

// removeIn removes a job that is in this state; ErrNotFound if it is not.
func (j *Jobs) removeIn(ctx context.Context, s *tube.JobStats) error {
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
		return actual // it was released with a delay, or rescheduled
	}
	return due
}

// dueSlack is how far apart the clocks of a store and an instance may be.
const dueSlack = 10 * time.Second
