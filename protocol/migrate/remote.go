package migrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// Remote implements Target for a redstalk that gets jobs over the protocol.
type Remote struct {
	*client.Conn
	used string
	lock uint64   // the job that is the lock; 0: it has no lock
	has  []string // extensions of the server
}

func (h *Remote) can(extension string) bool { return slices.Contains(h.has, extension) }

// needed are the extensions that the new server must have.
var needed = []string{"put-tags", "list-jobs"}

// NewRemote returns a Target on a connection, which must be new.
func NewRemote(conn *client.Conn) (*Remote, error) {
	capabilities, err := capabilitiesOf(conn)
	if err != nil {
		return nil, fmt.Errorf("asking the new server for its capabilities: %w", err)
	}
	for _, extension := range needed {
		if !slices.Contains(capabilities, extension) {
			return nil, fmt.Errorf("the new server has no %s: is it a redstalk?", extension)
		}
	}
	return &Remote{Conn: conn, has: capabilities}, nil
}

// capabilitiesOf returns what a server can do beyond beanstalkd.
func capabilitiesOf(conn *client.Conn) (all []string, err error) {
	err = conn.Ask([]byte("capabilities\r\n"), 1, func(r *client.Reply) error {
		if r.Word == client.OK {
			all = strings.Fields(strings.ReplaceAll(string(r.Body), "- ", " "))
		}
		return nil
	})
	return all, err
}

// put puts a hidden job. tags are its tags besides the delay.
func (h *Remote) put(tube string, pri, ttr uint32, body []byte, tags string) (line []string, err error) {
	var out []byte
	replies := 1
	if h.used != tube {
		out, replies = fmt.Appendf(out, "use %s\r\n", tube), 2
	}
	out = fmt.Appendf(out, "put %d %d %d %d%s\r\n", pri, int64(HideFor/time.Second), ttr, len(body), tags)
	out = append(append(out, body...), "\r\n"...)
	err = h.Ask(out, replies, func(r *client.Reply) error {
		line = strings.Fields(string(r.Line))
		return nil
	})
	h.used = tube
	if err == nil && len(line) == 2 && line[0] == "DUPLICATE" { // the key is that of a job of another batch
		return append(line, ""), nil
	}
	if err == nil && (len(line) < 2 || line[0] != "INSERTED") {
		return nil, &Refusal{strings.Join(line, " ")}
	}
	return line, err
}

// Lock implements Target. The lock is a job that is reserved while the connection lasts.
func (h *Remote) Lock(_ context.Context, from string) error {
	line, err := h.put(NotesTube, 0, math.MaxUint32, nil, " key:lock-"+from+" on-duplicate:keep")
	if err != nil {
		return err
	}
	t := source{Conn: h.Conn}
	switch id, _, err := t.fetch("reserve-job " + line[1]); {
	case err != nil:
		return err
	case id == 0:
		return ErrBusy
	default:
		h.lock = id
	}
	return nil
}

// Close implements Target. If the process is killed, the lock becomes a ready job, which the next
// process reserves.
func (h *Remote) Close() error {
	if h.lock != 0 {
		h.Remove(context.Background(), h.lock) // no effect if the connection is broken
	}
	return h.Conn.Close()
}

// Write implements Target.
func (h *Remote) Write(_ context.Context, n *Note) (uint64, error) {
	line, err := h.put(NotesTube, 0, 1, []byte(n.String()), "")
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(line[1], 10, 64)
}

// Place implements Target.
func (h *Remote) Place(_ context.Context, key string, j *Job) (Copy, error) {
	tags, less := words(j.Tags, h.can)
	less = less || len(j.Checkpoint) > 0 && !h.can("checkpoint")
	if own := j.key(); own != "" {
		c, free, err := h.placeWith(j, true, fmt.Sprintf(" key:%s on-duplicate:keep", protocol.Quote(own))+tags)
		if free || err != nil {
			c.Less = less
			return c, err
		}
		less = true
	}
	c, _, err := h.placeWith(j, false, fmt.Sprintf(" key:%s key-ttl:%ds on-duplicate:keep", key, int64(KeyTTL/time.Second))+tags)
	c.Less = less
	return c, err
}

// SaveCheckpoint implements Target: the checkpoint of the job becomes that of the note.
func (h *Remote) SaveCheckpoint(_ context.Context, note uint64, data []byte) error {
	return h.saveHidden(note, 0, data)
}

// Checkpoint implements Target.
func (h *Remote) Checkpoint(_ context.Context, note uint64) ([]byte, error) {
	if !h.can("checkpoint") {
		return nil, nil
	}
	t := source{Conn: h.Conn}
	return t.checkpoint(note)
}

// saveHidden saves the checkpoint of a hidden job or note, unless that is empty or the server has none. It stays hidden.
func (h *Remote) saveHidden(id uint64, pri uint32, data []byte) error {
	if len(data) == 0 || !h.can("checkpoint") {
		return nil
	}
	commands := fmt.Sprintf("reserve-job %d\r\ncheckpoint %d %d\r\n%s\r\nrelease %d %d %d failure:no\r\n", id, id, len(data), data, id, pri, int64(HideFor/time.Second))
	return h.commands(commands, "RESERVED", "SAVED", "RELEASED")
}

// commands sends commands that are to be answered with these words.
func (h *Remote) commands(commands string, want ...string) error {
	next, wrong := 0, ""
	err := h.Ask([]byte(commands), len(want), func(r *client.Reply) error {
		if wrong == "" && first(string(r.Line)) != want[next] {
			wrong = string(r.Line)
		}
		next++
		return nil
	})
	if err == nil && wrong != "" {
		err = &Refusal{wrong}
	}
	return err
}

// placeWith puts a copy with these tags, one of them its own key or not. If a job has the key, it returns that one; ok says whether
// the copy is new, or was put before and is still hidden.
func (h *Remote) placeWith(j *Job, own bool, tags string) (c Copy, ok bool, err error) {
	line, err := h.put(j.Tube, j.Pri, j.TTR, j.Body, tags)
	if err != nil {
		return Copy{}, false, err
	}
	id, err := strconv.ParseUint(line[1], 10, 64)
	switch {
	case err != nil:
		return Copy{}, false, err
	case len(line) == 2:
		return Copy{ID: id, Hidden: true}, true, nil
	case line[2] == "GONE":
		return Copy{ID: id}, false, nil
	}
	c, err = h.copy(id, own, j)
	return c, c.Hidden, err
}

// copy finds out whether a job is still hidden. own says that it has the key of j, and so need not be
// its copy.
func (h *Remote) copy(id uint64, own bool, j *Job) (Copy, error) {
	t := source{Conn: h.Conn}
	f, err := t.jobStats(id)
	if errors.Is(err, errNotFound) {
		return Copy{ID: id}, nil
	}
	return Copy{ID: id, Hidden: f.state == string(Delayed) && f.left > StillHidden && (!own || f.ttr == j.TTR)}, err
}

// Find implements Target.
func (h *Remote) Find(_ context.Context, key string, j *Job) (Copy, error) {
	c, err := h.find(key, false, j)
	if own := j.key(); err == nil && c.ID == 0 && own != "" {
		if c, err = h.find(own, true, j); !c.Hidden {
			c = Copy{}
		}
	}
	return c, err
}

// find returns the job that has a key, as a copy of j.
func (h *Remote) find(key string, own bool, j *Job) (Copy, error) {
	id := uint64(0)
	err := h.Ask(fmt.Appendf(nil, "find %s %s\r\n", j.Tube, key), 1, func(r *client.Reply) error {
		if r.Word == client.Found {
			id = r.ID
		} else if r.Word != client.NotFound {
			return r.Unexpected()
		}
		return nil
	})
	if err != nil || id == 0 {
		return Copy{}, err
	}
	return h.copy(id, own, j)
}

// maxReschedule is the longest duration of reschedule; release accepts longer ones.
const maxReschedule = 10 * 365 * 24 * time.Hour

// Reveal implements Target. A copy whose checkpoint is not saved stays hidden.
func (h *Remote) Reveal(_ context.Context, id uint64, j *Job) error {
	if err := h.saveHidden(id, j.Pri, j.Checkpoint); err != nil {
		return err
	}
	left := j.Left(time.Now())
	switch {
	case j.State == Buried:
		return h.commands(fmt.Sprintf("reserve-job %d\r\nbury %d %d\r\n", id, id, j.Pri), "RESERVED", "BURIED")
	case left > maxReschedule:
		return h.commands(fmt.Sprintf("reserve-job %d\r\nrelease %d %d %d\r\n", id, id, j.Pri, int64(left/time.Second)), "RESERVED", "RELEASED")
	}
	return h.commands(fmt.Sprintf("reschedule %d %dms\r\n", id, left.Milliseconds()), "RESCHEDULED")
}

// Remove implements Target.
func (h *Remote) Remove(_ context.Context, ids ...uint64) error {
	var out []byte
	for _, id := range ids {
		out = client.AppendDelete(out, id)
	}
	return h.Ask(out, len(ids), func(r *client.Reply) error {
		if r.Word != client.Deleted && r.Word != client.NotFound {
			return r.Unexpected()
		}
		return nil
	})
}

// Notes implements Target.
func (h *Remote) Notes(context.Context) (notes []StoredNote, err error) {
	ids, err := h.noteIDs()
	if err != nil {
		return nil, err
	}
	t := source{Conn: h.Conn}
	for _, id := range ids {
		_, body, err := t.fetch(fmt.Sprint("peek ", id))
		if err != nil {
			return nil, err
		}
		if n, err := ParseNote(string(body)); err == nil {
			notes = append(notes, StoredNote{Note: n, ID: id})
		}
	}
	return notes, nil
}

// noteIDs lists the jobs of the tube of notes. One is ready if the connection was lost in SaveCheckpoint.
func (h *Remote) noteIDs() (ids []uint64, err error) {
	for _, state := range []State{Delayed, Ready} {
		some, err := h.jobsIn(state)
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	return ids, nil
}

// jobsIn lists the jobs of the tube of notes in a state.
func (h *Remote) jobsIn(state State) (ids []uint64, err error) {
	for cursor := ""; ; {
		page, err := h.Page(strings.TrimSpace(fmt.Sprint("list-jobs ", NotesTube, " ", state, " 1000 ", cursor)))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(page)) {
			text, ok := strings.CutPrefix(line, "- {id: ")
			text, _, _ = strings.Cut(text, ",")
			if id, err := strconv.ParseUint(text, 10, 64); ok && err == nil {
				ids = append(ids, id)
			}
		}
		next, _ := page.Value("next")
		if cursor = strings.Trim(next, `"`); cursor == "" {
			return ids, nil
		}
	}
}
