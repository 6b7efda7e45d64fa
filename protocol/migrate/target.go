package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol"
)

// State is the state of a job that can be moved.
type State string

// The states, in the words of the protocol.
const (
	Ready   State = "ready"
	Delayed State = "delayed"
	Buried  State = "buried"
)

// Job is a job to be moved.
type Job struct {
	Tube     string
	State    State
	Pri, TTR uint32
	Due      time.Time // of a delayed job
	Body     []byte

	Tags       *protocol.Tags // nil: none
	Checkpoint []byte         // nil: none
}

// key returns the key of a job, "" if it has none.
func (j *Job) key() string {
	if j.Tags == nil {
		return ""
	}
	return j.Tags.Key
}

// Left returns how long a job is still delayed; 0 if it is not, or not any more.
func (j *Job) Left(now time.Time) time.Duration {
	if j.State != Delayed {
		return 0
	}
	return max(j.Due.Sub(now), 0)
}

// Note is what is written about a job before anything is done to it.
type Note struct {
	From string // the address of the old server, as it was given
	Key  string // the key of its copy on the target: the same for every attempt
	Old  uint64 // its id on the source
	Mark uint32
	Kick uint32 // how often it was kicked on the source before
	Job         // without Body and Checkpoint, and of its Tags only the Key

	lessTags bool // it has some that cannot be moved
	saved    bool // it has a checkpoint on the source
}

// Validate reports whether an address can be in a note.
func Validate(from string) error {
	if from == "" || strings.ContainsFunc(from, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q is not a server address", from)
	}
	return nil
}

// String returns the stored form of a note: fields separated by spaces.
func (n *Note) String() string {
	text := fmt.Sprint("carry-1 ", n.From, " ", n.Key, " ", n.Old, " ", n.Mark, " ", n.Kick, " ", n.Tube, " ", n.State, " ", n.Pri, " ", n.TTR, " ", n.Due.UnixMilli())
	if key := n.Job.key(); key != "" {
		text += " " + strconv.Quote(key)
	}
	return text
}

var errNote = errors.New("not a note about a moved job")

// ParseNote is the reverse of String.
func ParseNote(text string) (n Note, err error) {
	words, tags := strings.Fields(text), (*protocol.Tags)(nil)
	if len(words) == 12 {
		key, err := strconv.Unquote(words[11])
		if err != nil {
			return n, fmt.Errorf("%q: %w", text, errNote)
		}
		words, tags = words[:11], &protocol.Tags{Key: key}
	}
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
		Job: Job{Tube: words[6], State: State(words[7]), Pri: uint32(numbers[3]), TTR: uint32(numbers[4]), Due: time.UnixMilli(numbers[5]), Tags: tags},
	}, nil
}

// StoredNote is a note that is stored on the target.
type StoredNote struct {
	Note
	ID uint64 // of the note's job on the target
}

// Copy is the copy of a job on the target.
type Copy struct {
	ID     uint64
	Hidden bool // nobody can have got it yet
	Less   bool // it has not all tags of the job, or not its checkpoint: the target does not know them, or another job has the key
}

const (
	// NotesTube is the tube of the notes: each is a job that is never due.
	NotesTube = "redstalk-carry"

	// HideFor is the delay of notes and of hidden copies. A copy that is due later than
	// StillHidden from now is a hidden one.
	HideFor     = 365 * 24 * time.Hour
	StillHidden = HideFor / 2

	// KeyTTL is how long the key of a copy stays taken after the job is done.
	KeyTTL = time.Hour
)

// Target is the server that gets the jobs. When a call returns, its change must be as durable as
// the server promises.
type Target interface {
	// Lock fails with ErrBusy if another process moves jobs from this address, and locks it for
	// others until Close.
	Lock(ctx context.Context, from string) error

	// Write stores a note, and returns its id.
	Write(ctx context.Context, n *Note) (id uint64, err error)

	// SaveCheckpoint keeps the checkpoint of a job with the note about it, and Checkpoint returns it. The error of SaveCheckpoint is
	// a Refusal if the server has no room.
	SaveCheckpoint(ctx context.Context, note uint64, data []byte) error
	Checkpoint(ctx context.Context, note uint64) ([]byte, error)

	// Notes returns all stored notes, whatever their source.
	Notes(ctx context.Context) ([]StoredNote, error)

	// Place puts a hidden copy of a job, with its own key if no job has that, and else with this one,
	// unless a job has it, or had it recently. The error is a Refusal if the server refuses the job.
	Place(ctx context.Context, key string, j *Job) (Copy, error)

	// Find returns the copy of a job that was put by Place with this key, or a hidden one with its own
	// key; its ID is 0 if there is none.
	Find(ctx context.Context, key string, j *Job) (Copy, error)

	// Reveal gives a hidden copy the state and the checkpoint of its job.
	Reveal(ctx context.Context, id uint64, j *Job) error

	// Remove removes notes and hidden copies.
	Remove(ctx context.Context, ids ...uint64) error

	// Close closes its connections.
	Close() error
}

// ErrBusy means that another process is moving jobs from the same server.
var ErrBusy = errors.New("another process is moving jobs from this server")

// Refusal is the error of a server that refuses a job.
type Refusal struct{ Word string }

func (r *Refusal) Error() string { return "the new server answered " + r.Word }
