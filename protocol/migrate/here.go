package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// State is that of a job that can be carried.
type State string

// The states, in the words of the protocol.
const (
	Ready   State = "ready"
	Delayed State = "delayed"
	Buried  State = "buried"
)

// Job is a job that is carried.
type Job struct {
	Tube     string
	State    State
	Pri, TTR uint32
	Due      time.Time // of a delayed one
	Body     []byte
}

// Left is how long a job is still delayed; 0 if it is not, or not any more.
func (j *Job) Left(now time.Time) time.Duration {
	if j.State != Delayed {
		return 0
	}
	return max(j.Due.Sub(now), 0)
}

// Note is what is written down about a job before anything is done to it.
type Note struct {
	From string // the address of the old server, as it was given
	Key  string // that its copy has here: the same for every attempt
	Old  uint64 // its id there
	Mark uint32
	Kick uint32 // how often it was kicked there before
	Job         // without Body
}

// Validate tells whether an address can be in a note.
func Validate(from string) error {
	if from == "" || strings.ContainsFunc(from, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q is no address of a server", from)
	}
	return nil
}

// String is how a note is written down: fields with spaces between them.
func (n *Note) String() string {
	return fmt.Sprint("carry-1 ", n.From, " ", n.Key, " ", n.Old, " ", n.Mark, " ", n.Kick, " ", n.Tube, " ", n.State, " ", n.Pri, " ", n.TTR, " ", n.Due.UnixMilli())
}

var errNote = errors.New("it is not a note about a job that is carried")

// ParseNote is the reverse of String.
func ParseNote(text string) (n Note, err error) {
	words := strings.Fields(text)
	if len(words) != 11 || words[0] != "carry-1" {
		return n, fmt.Errorf("%q: %w", text, errNote)
	}
	var numbers [6]int64
	for i, at := range []int{3, 4, 5, 8, 9, 10} {
		if numbers[i], err = strconv.ParseInt(words[at], 10, 64); err != nil {
			return n, fmt.Errorf("%q: %w", text, errNote)
		}
	}
	return Note{
		From: words[1], Key: words[2], Old: uint64(numbers[0]), Mark: uint32(numbers[1]), Kick: uint32(numbers[2]),
		Job: Job{Tube: words[6], State: State(words[7]), Pri: uint32(numbers[3]), TTR: uint32(numbers[4]), Due: time.UnixMilli(numbers[5])},
	}, nil
}

// Written is a note that is written down here.
type Written struct {
	Note
	ID uint64 // here, of the note
}

// Copy is the copy of a job here.
type Copy struct {
	ID     uint64
	Hidden bool // nobody has got it yet
}

const (
	// NotesTube is where notes are: each is a job that is never due.
	NotesTube = "redstalk-carry"

	// HideFor is the delay of notes and of hidden copies, and a copy that is due only after
	// StillHidden is a hidden one.
	HideFor     = 365 * 24 * time.Hour
	StillHidden = HideFor / 2

	// KeyTTL is how long the key of a copy stays taken when the job is done.
	KeyTTL = time.Hour
)

// Here is the server that gets the jobs. When a call returns, its change must be as safe as the
// server promises.
type Here interface {
	// Lock fails with ErrBusy if somebody else carries jobs from this address, and keeps others from
	// it until Close.
	Lock(ctx context.Context, from string) error

	// Write writes a note down, and returns its id.
	Write(ctx context.Context, n *Note) (id uint64, err error)

	// Notes returns those that are written down, about jobs from wherever.
	Notes(ctx context.Context) ([]Written, error)

	// Place puts a hidden copy of a job, unless there is one with this key, or was one not long
	// ago. The error is a Refusal if the server does not want such a job.
	Place(ctx context.Context, key string, j *Job) (Copy, error)

	// Find returns the copy with a key; its ID is 0 if there is none.
	Find(ctx context.Context, tube, key string) (Copy, error)

	// Reveal makes a hidden copy what the job was.
	Reveal(ctx context.Context, id uint64, j *Job) error

	// Remove removes notes and hidden copies.
	Remove(ctx context.Context, ids ...uint64) error

	// Close ends what it has.
	Close() error
}

// ErrBusy: another process carries jobs from the same server.
var ErrBusy = errors.New("another process is moving jobs from this server")

// Refusal is the error of a server that does not want a job.
type Refusal struct{ Word string }

func (r *Refusal) Error() string { return "the new server answers " + r.Word }
