package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/tube"
)

// image is what a part of the log says about a job at its end.
type image struct {
	record tube.Record
	body   []byte // nil if it was not put in this part of the log, or has none
	put    bool
	gone   bool
}

// history is what a part of the log says when all of it was replayed.
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

// entry takes in an entry about a job. It returns what is behind it.
func (h *history) entry(kind byte, b []byte) (rest []byte, err error) {
	id, n := binary.Uvarint(b)
	if n <= 0 || id == 0 {
		return nil, errEntry
	}
	im, rest := h.image(id), b[n:]
	if kind == deletedEntry {
		im.gone, im.body = true, nil
		return rest, nil
	}
	if im.record, rest, err = decodeRecord(id, rest, h.names.name); err != nil {
		return nil, err
	}
	switch kind {
	case changedEntry:
		return rest, nil
	case putEntry:
		return h.body(im, rest)
	}
	return nil, errEntry
}

// body takes in the body of a job that was put. It returns what is behind it.
func (h *history) body(im *image, b []byte) (rest []byte, err error) {
	id, size := im.record.ID, im.record.Size
	if uint64(len(b)) < uint64(size) {
		return nil, fmt.Errorf("reading the body of job %d: %w", id, errEntry)
	}
	im.put, im.body = true, bytes.Clone(b[:size])
	h.lastID = max(h.lastID, id)
	return b[size:], nil
}

// image returns the image of a job. It makes it if there is none.
func (h *history) image(id uint64) *image {
	im := h.jobs[id]
	if im == nil {
		im = new(image)
		h.jobs[id] = im
	}
	return im
}

// paused takes in an entry about a pause. It returns what is behind it.
func (h *history) paused(b []byte) (rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0])+pauseSize {
		return nil, errEntry
	}
	end := 1 + int(b[0])
	h.pauses[h.names.name(b[1:end])] = decodePause(b[end:])
	return b[end+pauseSize:], nil
}
