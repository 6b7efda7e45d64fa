package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/tube"
)

// A frame of the log is what one call of the engine has changed, or some of its
// batches: entries, each of which begins with its kind in one byte and, but for a pause, the id of the
// job as a varint.
const (
	putEntry     byte = 1 // record, body
	changedEntry byte = 2 // record
	deletedEntry byte = 3
	pausedEntry  byte = 4 // length of the name in one byte, name, pause
)

func appendEntry(to []byte, kind byte, id uint64) []byte {
	return binary.AppendUvarint(append(to, kind), id)
}

// image is what the log says of a job at its end.
type image struct {
	record tube.Record
	body   []byte // if it was put in this part of the log and has one
	put    bool
	gone   bool
}

// history is what a part of the log says when all of it is replayed.
type history struct {
	jobs    map[uint64]*image
	pauses  map[string]pause
	lastID  uint64
	names   interner
	entries int
}

func newHistory(names interner) *history {
	return &history{jobs: make(map[uint64]*image), pauses: make(map[string]pause), names: names}
}

var errEntry = errors.New("it is not an entry of the log")

// replay takes in a frame.
func (h *history) replay(frame []byte) (err error) {
	for len(frame) > 0 {
		kind := frame[0]
		if frame = frame[1:]; kind == pausedEntry {
			frame, err = h.paused(frame)
		} else {
			frame, err = h.entry(kind, frame)
		}
		if err != nil {
			return err
		}
		h.entries++
	}
	return nil
}

func (h *history) entry(kind byte, b []byte) (rest []byte, err error) {
	id, n := binary.Uvarint(b)
	if n <= 0 || id == 0 {
		return nil, errEntry
	}
	rest = b[n:]
	if kind == deletedEntry {
		h.image(id).gone = true
		h.image(id).body = nil
		return rest, nil
	}
	r, rest, err := decodeRecord(id, rest, h.names.name)
	if err != nil {
		return nil, err
	}
	im := h.image(id)
	im.record = r
	switch kind {
	case changedEntry:
		return rest, nil
	case putEntry:
		if uint64(len(rest)) < uint64(r.Size) {
			return nil, fmt.Errorf("reading the body of job %d: %w", id, errEntry)
		}
		im.put, im.body = true, bytes.Clone(rest[:r.Size])
		h.lastID = max(h.lastID, id)
		return rest[r.Size:], nil
	}
	return nil, errEntry
}

func (h *history) image(id uint64) *image {
	im := h.jobs[id]
	if im == nil {
		im = new(image)
		h.jobs[id] = im
	}
	return im
}

func (h *history) paused(b []byte) (rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0])+pauseSize {
		return nil, errEntry
	}
	end := 1 + int(b[0])
	h.pauses[h.names.name(b[1:end])] = decodePause(b[end:])
	return b[end+pauseSize:], nil
}
