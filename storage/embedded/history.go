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
	jobs map[uint64]*image
	tubeChanges
	lastID  uint64
	names   interner
	entries int
}

func newHistory(names interner) *history {
	return &history{jobs: make(map[uint64]*image), tubeChanges: newTubeChanges(), names: names}
}

var errEntry = errors.New("it is not an entry of the log")

// replay takes in a frame.
func (h *history) replay(frame []byte) (err error) {
	for len(frame) > 0 {
		kind := frame[0]
		switch frame = frame[1:]; kind {
		case pausedEntry, keyKeptEntry, policyEntry, importEntry:
			frame, err = h.tubeEntry(kind, frame)
		default:
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

// tubeEntry takes in an entry about a tube. It returns what is behind it.
func (h *history) tubeEntry(kind byte, b []byte) (rest []byte, err error) {
	name, b, err := cutShort(b)
	if err != nil {
		return nil, err
	}
	of := h.names.name(name)
	switch kind {
	case keyKeptEntry:
		return h.keyKept(of, b)
	case policyEntry:
		return h.policySet(of, b)
	case importEntry:
		return h.imported(of, b)
	}
	if len(b) < pauseSize {
		return nil, errEntry
	}
	h.pauses[of] = decodePause(b)
	return b[pauseSize:], nil
}

// keyKept takes in what an entry says about a key of a tube.
func (h *history) keyKept(of string, b []byte) (rest []byte, err error) {
	key, b, err := cutShort(b)
	if err != nil || len(b) < keptKeySize {
		return nil, errEntry
	}
	h.keys[keyOfTube{of, string(key)}] = decodeKeptKey(b)
	return b[keptKeySize:], nil
}

// policySet takes in what an entry says about the policy of a tube.
func (h *history) policySet(of string, b []byte) (rest []byte, err error) {
	if len(b) < 1 || b[0] > 1 {
		return nil, errEntry
	}
	var p *tube.Policy
	if rest = b[1:]; b[0] == 1 {
		p, rest, err = decodePolicy(of, rest, h.names.name)
	}
	h.policies[of] = p
	return rest, err
}

// imported takes in how far an import is.
func (h *history) imported(source string, b []byte) (rest []byte, err error) {
	if len(b) < importMarkSize+8 {
		return nil, errEntry
	}
	h.imports[source] = decodeImportMark(b)
	h.lastID = max(h.lastID, binary.BigEndian.Uint64(b[importMarkSize:]))
	return b[importMarkSize+8:], nil
}

// cutShort reads a string that has its length in one byte before it.
func cutShort(b []byte) (s, rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return nil, nil, errEntry
	}
	end := 1 + int(b[0])
	return b[1:end], b[end:], nil
}
