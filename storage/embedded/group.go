package embedded

import (
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

const (
	// maxFrame is the size in bytes from which on a frame ends with its batch, and
	// maxEntries that without the bodies that are not copied: to make more room
	// for these takes long, and the lock is held meanwhile.
	maxFrame   = 16 << 20
	maxEntries = 1 << 20

	// maxBatch is the size in bytes of a frame within which a batch is changed
	// as a whole or not at all by a power cut. What is more gets a further frame.
	maxBatch = 1 << 30

	// minLarge is the size in bytes from which on a body is not copied to the
	// frame but written from where it is.
	minLarge = 32 << 10

	// heavyGroup is how many bytes a caller writes and syncs by itself. More
	// would hold it up too long: the follower does it.
	heavyGroup = 1 << 20

	// maxUnwritten is how many bytes of bodies may wait to be written before
	// further puts wait, and maxUnkept how many may be in memory, beside those
	// to be kept, while the tables are behind the log.
	maxUnwritten = 64 << 20
	maxUnkept    = 256 << 20
)

// largeBody is a body that belongs behind the first at bytes of a frame.
type largeBody struct {
	at   int
	body []byte
}

// endedFrame is a frame that is complete, but not written yet.
type endedFrame struct {
	frame []byte
	large []largeBody
}

// crowded tells whether further puts have to wait until others are written, or
// have come to the tables. The lock is held.
func (j *journal) crowded() bool {
	limit := int64(maxUnwritten)
	if j.most > 0 {
		limit = j.most
	}
	waits := j.behind > 0 && !j.failing // for tables that will be written
	return j.unwritten > limit || waits && j.machine.BodyBytes() > j.keep+maxUnkept
}

// Put implements tube.Journal.
func (j *journal) Put(r tube.Record, body []byte) {
	g := j.filling
	if g.size > 0 && g.size+len(body) > maxBatch {
		g.cut()
	}
	begun := len(g.frame)
	g.frame = encodeRecord(appendEntry(g.frame, putEntry, r.ID), &r)
	if len(body) < minLarge {
		g.frame = append(g.frame, body...)
		g.size += len(g.frame) - begun
	} else {
		g.large = append(g.large, largeBody{len(g.frame), body})
		g.size += len(g.frame) - begun + len(body)
	}
	g.bodies += int64(len(body))
	j.unwritten += int64(len(body))
	j.window.put(r.ID)
	j.written++
}

// Changed implements tube.Journal.
func (j *journal) Changed(r tube.Record) {
	g := j.filling
	begun := len(g.frame)
	g.frame = encodeRecord(appendEntry(g.frame, changedEntry, r.ID), &r)
	g.size += len(g.frame) - begun
	j.window.changed(r.ID)
	j.written++
}

// Deleted implements tube.Journal.
func (j *journal) Deleted(id uint64, size uint32) {
	g := j.filling
	begun := len(g.frame)
	g.frame = appendEntry(g.frame, deletedEntry, id)
	g.size += len(g.frame) - begun
	j.window.deleted(id, inline(size))
	j.written++
}

// Paused implements tube.Journal.
func (j *journal) Paused(name string, seconds uint32, until tube.Instant) {
	g, p := j.filling, pause{seconds, until}
	begun := len(g.frame)
	g.frame = append(append(g.frame, pausedEntry, byte(len(name))), name...)
	g.frame = encodePause(g.frame, p)
	g.size += len(g.frame) - begun
	j.window.pauses[name] = p
	j.written++
}

// endFrame is called between batches: it ends the frame that is being filled if
// it is large. The lock is held.
func (j *journal) endFrame() {
	limit := maxFrame
	if j.frameSize > 0 {
		limit = j.frameSize
	}
	if g := j.filling; g.size > limit || len(g.frame) > maxEntries {
		g.cut()
	}
}

// cut ends a frame and begins the next one.
func (g *group) cut() {
	g.ended = append(g.ended, endedFrame{g.frame, g.large})
	g.frame, g.large, g.size = make([]byte, wal.HeaderSize, min(len(g.frame), maxEntries)), nil, 0
}

// heavy tells whether writing g takes long.
func (g *group) heavy() bool {
	return len(g.ended) > 0 || len(g.frame) > heavyGroup || g.bodies > heavyGroup
}

// each calls do with the pieces of each frame.
func (g *group) each(do func(pieces [][]byte) error) error {
	for _, f := range g.ended {
		if err := do(f.pieces()); err != nil {
			return err
		}
	}
	if len(g.frame) == wal.HeaderSize {
		return nil
	}
	return do(endedFrame{g.frame, g.large}.pieces())
}

// pieces returns the entries of a frame with the large bodies between them.
func (f endedFrame) pieces() (pieces [][]byte) {
	from := 0
	for _, l := range f.large {
		pieces = append(pieces, f.frame[from:l.at], l.body)
		from = l.at
	}
	return append(pieces, f.frame[from:])
}
