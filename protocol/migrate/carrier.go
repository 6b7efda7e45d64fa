package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"redstalk/protocol/client"
)

// Carrier carries jobs, one at a time.
type Carrier struct {
	there  *there
	here   Here
	from   string
	prefix string        // of the keys
	test   func(at step) // for tests: called before each step; nil: not at all
}

// step is a place between two steps of carrying, for tests.
type step string

const (
	noted    step = "noted"
	marked   step = "marked"
	placed   step = "placed"
	deleted  step = "deleted"
	revealed step = "revealed"
)

// New returns a Carrier on a connection to the old server, which must be new. from is its address:
// the same one every time. Both, the connection and here, are the carrier's from now on.
func New(old *client.Conn, from string, here Here) (*Carrier, error) {
	if err := Validate(from); err != nil {
		return nil, err
	}
	page, err := old.Page("stats")
	if err != nil {
		return nil, fmt.Errorf("asking the old server who it is: %w", err)
	}
	id, ok := page.Value("id")
	if id = strings.Trim(id, `"`); !ok || id == "" || strings.ContainsAny(id, " ") {
		return nil, errors.New("the old server does not say its id")
	}
	return &Carrier{there: &there{Conn: old}, here: here, from: from, prefix: "carried-" + id + "-"}, nil
}

// Close ends the connections. A job that is being carried goes on being where it is.
func (c *Carrier) Close() error { return errors.Join(c.there.Close(), c.here.Close()) }

// Lock keeps others from carrying jobs from the same server, until Close. It fails with ErrBusy if
// somebody does.
func (c *Carrier) Lock(ctx context.Context) error { return c.here.Lock(ctx, c.from) }

func (c *Carrier) at(s step) {
	if c.test != nil {
		c.test(s)
	}
}

// Outcome is what has become of an attempt to carry a job.
type Outcome int

const (
	None    Outcome = iota // there is no such job
	Carried                // it is here
	Lost                   // somebody else was faster: there may be more
)

// Next carries the next ready job of a tube, as a worker would get it.
func (c *Carrier) Next(ctx context.Context, tube string) (Outcome, error) {
	if err := c.there.watch(tube); err != nil {
		return None, err
	}
	id, body, err := c.there.body("reserve-with-timeout 0")
	if err != nil || id == 0 {
		return None, err
	}
	f, err := c.there.metadata(id)
	if errors.Is(err, errNotFound) {
		return Lost, nil
	}
	if err != nil {
		return None, err
	}
	n := c.note(id, &f)
	n.State, n.Body = Ready, body
	return c.carry(ctx, n, func() error { return c.there.one(fmt.Sprintf("bury %d %d", id, n.Mark), "BURIED") })
}

// Head carries the first job of a tube in a state: the one that a peek shows.
func (c *Carrier) Head(ctx context.Context, tube string, state State) (Outcome, error) {
	if err := c.there.use(tube); err != nil {
		return None, err
	}
	id, body, err := c.there.body("peek-" + string(state))
	if err != nil || id == 0 {
		return None, err
	}
	f, err := c.there.metadata(id)
	switch {
	case errors.Is(err, errNotFound), err == nil && State(f.state) != state:
		return Lost, nil
	case err != nil:
		return None, err
	}
	n := c.note(id, &f)
	n.Body = body
	return c.carry(ctx, n, func() error { return c.claim(n, &f) })
}

// note is what is to be known of a job.
func (c *Carrier) note(id uint64, f *metadata) *Note {
	return &Note{
		From: c.from, Key: fmt.Sprint(c.prefix, id), Old: id, Mark: rand.Uint32(), Kick: f.kicks,
		Job: Job{Tube: f.tube, State: State(f.state), Pri: f.pri, TTR: f.ttr, Due: time.Now().Add(f.left)},
	}
}

// claim reserves a job and marks it, in one go. The error is errNotFound if somebody else was
// faster. before is what was known of it before: if something has happened to it since, the
// note is mended.
func (c *Carrier) claim(n *Note, before *metadata) error {
	var f metadata
	var words []string
	err := c.there.Ask(fmt.Appendf(nil, "reserve-job %[1]d\r\nstats-job %[1]d\r\nbury %[1]d %[2]d\r\n", n.Old, n.Mark), 3, func(r *client.Reply) (err error) {
		words = append(words, first(string(r.Line)))
		if r.Word == client.OK {
			f, err = metadataOf(r)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case words[0] == "NOT_FOUND", words[2] == "NOT_FOUND":
		return errNotFound
	case words[0] != "RESERVED" || words[1] != "OK" || words[2] != "BURIED":
		return fmt.Errorf("reserving job %d: the old server answers %q", n.Old, words)
	}
	n.Pri, n.TTR = f.pri, f.ttr
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

// carry carries a job of which no worker there gets hold, or does not once mark has worked.
func (c *Carrier) carry(ctx context.Context, n *Note, mark func() error) (Outcome, error) {
	note, err := c.here.Write(ctx, n)
	if err != nil {
		return None, fmt.Errorf("writing a note: %w", err)
	}
	c.at(noted)
	switch err := mark(); {
	case errors.Is(err, errNotFound):
		return Lost, c.here.Remove(ctx, note)
	case err != nil:
		return None, err
	}
	c.at(marked)
	return c.finish(ctx, &Written{Note: *n, ID: note})
}

// finish carries a job on that has its mark.
func (c *Carrier) finish(ctx context.Context, w *Written) (Outcome, error) {
	copied, err := c.here.Place(ctx, w.Key, &w.Job)
	if err != nil {
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			return None, errors.Join(c.refused(ctx, w, err), c.here.Remove(ctx, w.ID))
		}
		return None, fmt.Errorf("putting a copy of job %d: %w", w.Old, err)
	}
	c.at(placed)
	switch err := c.there.one(fmt.Sprint("delete ", w.Old), "DELETED"); {
	case errors.Is(err, errNotFound): // somebody has kicked it, and a worker there has it
		return Lost, c.drop(ctx, w.ID, copied)
	case err != nil:
		return None, err
	}
	c.at(deleted)
	return Carried, c.reveal(ctx, w, copied)
}

// reveal gives a copy free, and forgets the note.
func (c *Carrier) reveal(ctx context.Context, w *Written, copied Copy) error {
	if copied.Hidden {
		if err := c.here.Reveal(ctx, copied.ID, &w.Job); err != nil {
			return fmt.Errorf("giving the copy of job %d free: %w", w.Old, err)
		}
	}
	c.at(revealed)
	return c.here.Remove(ctx, w.ID)
}

// drop removes a copy that nobody has got, and the note.
func (c *Carrier) drop(ctx context.Context, note uint64, copied Copy) error {
	if copied.Hidden {
		return c.here.Remove(ctx, copied.ID, note)
	}
	return c.here.Remove(ctx, note)
}

// refused makes a job there what it was, as it is not wanted here.
func (c *Carrier) refused(_ context.Context, w *Written, cause error) error {
	last := fmt.Sprintf("release %d %d %d", w.Old, w.Pri, int64(w.Left(time.Now())/time.Second))
	if w.State == Buried {
		last = fmt.Sprintf("bury %d %d", w.Old, w.Pri)
	}
	if _, err := c.there.say(2, fmt.Sprintf("reserve-job %d\r\n%s\r\n", w.Old, last)); err != nil {
		return err
	}
	return fmt.Errorf("job %d of tube %s, with %d bytes, stays where it was: %w", w.Old, w.Tube, len(w.Body), cause)
}
