package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"redstalk/protocol/client"
)

// Migrator moves jobs, one at a time.
type Migrator struct {
	source *source
	target Target
	from   string
	prefix string        // of the keys of copies
	onStep func(at step) // for tests: called after each step; nil: not at all
	less   atomic.Uint64 // jobs moved without some of their tags
}

// step is a point between two steps of a move, for tests.
type step string

const (
	noteWritten step = "noted"
	marked      step = "marked"
	copyPlaced  step = "placed"
	deleted     step = "deleted"
	revealed    step = "revealed"
)

// New returns a Migrator on a connection to the old server, which must be new. from is the address
// of that server: it must be the same every time. The Migrator owns the connection and target.
func New(old *client.Conn, from string, target Target) (*Migrator, error) {
	if err := Validate(from); err != nil {
		return nil, err
	}
	switch has, err := capabilitiesOf(old); {
	case err != nil:
		return nil, fmt.Errorf("asking the old server for its capabilities: %w", err)
	case slices.Contains(has, "redacted"):
		return nil, errors.New("the old server hides values of bodies from this user: moving them needs the right admin there on all tubes")
	}
	page, err := old.Page("stats")
	if err != nil {
		return nil, fmt.Errorf("asking the old server for its id: %w", err)
	}
	id, ok := page.Value("id")
	if id = strings.Trim(id, `"`); !ok || id == "" || strings.ContainsAny(id, " ") {
		return nil, errors.New("the old server has not reported its id")
	}
	return &Migrator{source: &source{Conn: old}, target: target, from: from, prefix: "carried-" + id + "-"}, nil
}

// Close closes the connections. A job that is being moved stays where it is.
func (c *Migrator) Close() error { return errors.Join(c.source.Close(), c.target.Close()) }

// Less returns how many jobs it has moved without some of their tags. It can be called at any time.
func (c *Migrator) Less() uint64 { return c.less.Load() }

// Lock keeps other processes from moving jobs from the same server, until Close. It fails with
// ErrBusy if another process has the lock.
func (c *Migrator) Lock(ctx context.Context) error { return c.target.Lock(ctx, c.from) }

func (c *Migrator) reached(s step) {
	if c.onStep != nil {
		c.onStep(s)
	}
}

// Outcome is the result of an attempt to move a job.
type Outcome int

const (
	None     Outcome = iota // there is no such job
	Migrated                // the job is on the target
	Lost                    // a worker was faster: there may be more jobs
)

// Next moves the next ready job of a tube, the one that a worker would get.
func (c *Migrator) Next(ctx context.Context, tube string) (Outcome, error) {
	if err := c.source.watch(tube); err != nil {
		return None, err
	}
	id, body, err := c.source.fetch("reserve-with-timeout 0")
	if err != nil || id == 0 {
		return None, err
	}
	f, err := c.source.jobStats(id)
	if errors.Is(err, errNotFound) {
		return Lost, nil
	}
	if err == nil {
		err = c.checkJob(f.tags)
	}
	if err != nil {
		return None, err // the job is given back when the connection ends
	}
	n := c.newNote(id, &f)
	n.State, n.Body = Ready, body
	return c.migrate(ctx, n, func() error { return c.source.command(fmt.Sprintf("bury %d %d", id, n.Mark), "BURIED") })
}

// Head moves the first job of a tube in a state: the one that a peek returns.
func (c *Migrator) Head(ctx context.Context, tube string, state State) (Outcome, error) {
	if err := c.source.use(tube); err != nil {
		return None, err
	}
	id, body, err := c.source.fetch("peek-" + string(state))
	if err != nil || id == 0 {
		return None, err
	}
	f, err := c.source.jobStats(id)
	switch {
	case errors.Is(err, errNotFound), err == nil && State(f.state) != state:
		return Lost, nil
	case err != nil:
		return None, err
	}
	if err := c.checkJob(f.tags); err != nil {
		return None, err
	}
	n := c.newNote(id, &f)
	n.Body = body
	return c.migrate(ctx, n, func() error { return c.claim(n, &f) })
}

// newNote returns the note about a job.
func (c *Migrator) newNote(id uint64, f *jobStats) *Note {
	return &Note{
		From: c.from, Key: fmt.Sprint(c.prefix, id), Old: id, Mark: rand.Uint32(), Kick: f.kicks,
		Job: Job{Tube: f.tube, State: State(f.state), Pri: f.pri, TTR: f.ttr, Due: time.Now().Add(f.left), Tags: f.tags}, lessTags: f.leftTags, saved: f.saved,
	}
}

// claim reserves a job and marks it, in one request. The error is errNotFound if a worker was
// faster. before are the stats of the job from earlier: if something has happened to the job since
// then, claim corrects the note.
func (c *Migrator) claim(n *Note, before *jobStats) error {
	var f jobStats
	var words []string
	err := c.source.Ask(fmt.Appendf(nil, "reserve-job %[1]d\r\nstats-job %[1]d\r\nbury %[1]d %[2]d\r\n", n.Old, n.Mark), 3, func(r *client.Reply) (err error) {
		words = append(words, first(string(r.Line)))
		if r.Word == client.OK {
			f, err = parseJobStats(r)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case words[0] == "NOT_FOUND", words[2] == "NOT_FOUND":
		return errNotFound
	case words[0] != "RESERVED" || words[1] != "OK" || words[2] != "BURIED":
		return fmt.Errorf("reserving job %d: the old server answered %q", n.Old, words)
	}
	n.Pri, n.TTR, n.saved = f.pri, f.ttr, f.saved
	if !before.sameHistory(&f, 1) {
		n.State, n.Due = Ready, time.Now()
		if f.buries > before.buries {
			n.State = Buried
		} else if f.releases > before.releases && f.delay > 0 {
			n.State, n.Due = Delayed, time.Now().Add(time.Duration(f.delay)*time.Second)
		}
	}
	return nil
}

// migrate moves a job that no worker on the source can get, at the latest when mark has succeeded.
func (c *Migrator) migrate(ctx context.Context, n *Note, mark func() error) (Outcome, error) {
	note, err := c.target.Write(ctx, n)
	if err != nil {
		return None, fmt.Errorf("writing a note: %w", err)
	}
	c.reached(noteWritten)
	switch err := mark(); {
	case errors.Is(err, errNotFound):
		return Lost, c.target.Remove(ctx, note)
	case err != nil:
		return None, err
	}
	c.reached(marked)
	return c.finish(ctx, &StoredNote{Note: *n, ID: note})
}

// finish completes the move of a job that has its mark.
func (c *Migrator) finish(ctx context.Context, w *StoredNote) (Outcome, error) {
	copied, err := c.place(ctx, w)
	if err != nil {
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			return None, errors.Join(c.putBack(ctx, w, err), c.target.Remove(ctx, w.ID))
		}
		return None, fmt.Errorf("putting a copy of job %d: %w", w.Old, err)
	}
	c.reached(copyPlaced)
	switch err := c.source.command(fmt.Sprint("delete ", w.Old), "DELETED"); {
	case errors.Is(err, errNotFound): // somebody has kicked it, and a worker of the source has it
		return Lost, c.dropCopy(ctx, w.ID, copied)
	case err != nil:
		return None, err
	}
	c.reached(deleted)
	if copied.Less || w.lessTags {
		c.less.Add(1)
	}
	return Migrated, c.reveal(ctx, w, copied)
}

// place puts the copy of a job that has its mark, and keeps its checkpoint with the note.
func (c *Migrator) place(ctx context.Context, w *StoredNote) (_ Copy, err error) {
	if w.saved {
		if w.Checkpoint, err = c.source.checkpoint(w.Old); err != nil {
			return Copy{}, err
		}
		if err := c.target.SaveCheckpoint(ctx, w.ID, w.Checkpoint); err != nil {
			return Copy{}, err
		}
	}
	return c.target.Place(ctx, w.Key, &w.Job)
}

// reveal makes a copy available, and removes the note.
func (c *Migrator) reveal(ctx context.Context, w *StoredNote, copied Copy) error {
	if copied.Hidden {
		if err := c.target.Reveal(ctx, copied.ID, &w.Job); err != nil {
			return fmt.Errorf("revealing the copy of job %d: %w", w.Old, err)
		}
	}
	c.reached(revealed)
	return c.target.Remove(ctx, w.ID)
}

// dropCopy removes a copy that is still hidden, and the note.
func (c *Migrator) dropCopy(ctx context.Context, note uint64, copied Copy) error {
	if copied.Hidden {
		return c.target.Remove(ctx, copied.ID, note)
	}
	return c.target.Remove(ctx, note)
}

// putBack restores a job on the source, because the target refuses it.
func (c *Migrator) putBack(_ context.Context, w *StoredNote, cause error) error {
	last := fmt.Sprintf("release %d %d %d", w.Old, w.Pri, int64(w.Left(time.Now())/time.Second))
	if w.State == Buried {
		last = fmt.Sprintf("bury %d %d", w.Old, w.Pri)
	}
	if _, err := c.source.ask(2, fmt.Sprintf("reserve-job %d\r\n%s\r\n", w.Old, last)); err != nil {
		return err
	}
	return fmt.Errorf("job %d of tube %s, with %d bytes, stays on the old server: %w", w.Old, w.Tube, len(w.Body), cause)
}
