package embedded

import (
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

const (
	// maxFrame is the size in bytes from which on a frame ends with its batch.
	maxFrame = 16 << 20

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

// largeBody is a body that belongs behind the first at bytes of a group's
// frames.
type largeBody struct {
	at   int
	body []byte
}

// crowded tells whether further puts have to wait until others are written, or
// have come to the tables. The lock is held.
func (j *journal) crowded() bool {
	limit := int64(maxUnwritten)
	if j.most > 0 {
		limit = j.most
	}
	return j.unwritten > limit || j.behind > 0 && j.machine.BodyBytes() > j.keep+maxUnkept
}

// Put implements tube.Journal.
func (j *journal) Put(r tube.Record, body []byte) {
	g := j.filling
	if g.size > 0 && g.size+len(body) > maxBatch {
		g.cut()
	}
	begun := len(g.frames)
	g.frames = encodeRecord(appendEntry(g.frames, putEntry, r.ID), &r)
	if len(body) < minLarge {
		g.frames = append(g.frames, body...)
		g.size += len(g.frames) - begun
	} else {
		g.large = append(g.large, largeBody{len(g.frames), body})
		g.size += len(g.frames) - begun + len(body)
	}
	g.bodies += int64(len(body))
	j.unwritten += int64(len(body))
	j.window.put(r.ID)
	j.written++
}

// Changed implements tube.Journal.
func (j *journal) Changed(r tube.Record) {
	g := j.filling
	begun := len(g.frames)
	g.frames = encodeRecord(appendEntry(g.frames, changedEntry, r.ID), &r)
	g.size += len(g.frames) - begun
	j.window.changed(r.ID)
	j.written++
}

// Deleted implements tube.Journal.
func (j *journal) Deleted(id uint64, size uint32) {
	g := j.filling
	begun := len(g.frames)
	g.frames = appendEntry(g.frames, deletedEntry, id)
	g.size += len(g.frames) - begun
	j.window.deleted(id, inline(size))
	j.written++
}

// Paused implements tube.Journal.
func (j *journal) Paused(name string, seconds uint32, until tube.Instant) {
	g, p := j.filling, pause{seconds, until}
	begun := len(g.frames)
	g.frames = append(append(g.frames, pausedEntry, byte(len(name))), name...)
	g.frames = encodePause(g.frames, p)
	g.size += len(g.frames) - begun
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
	if j.filling.size > limit {
		j.filling.cut()
	}
}

// cut ends a frame and begins the next one.
func (g *group) cut() {
	g.cuts = append(g.cuts, len(g.frames))
	g.frames = append(g.frames, make([]byte, wal.HeaderSize)...)
	g.size = 0
}

// heavy tells whether writing g takes long.
func (g *group) heavy() bool { return len(g.frames) > heavyGroup || g.bodies > heavyGroup }

// each calls do with the pieces of each frame.
func (g *group) each(do func(pieces [][]byte) error) error {
	from, large := 0, g.large
	for i := range len(g.cuts) + 1 {
		to := len(g.frames)
		if i < len(g.cuts) {
			to = g.cuts[i]
		} else if to == from+wal.HeaderSize {
			return nil // it was begun, but there is nothing in it
		}
		var pieces [][]byte
		for ; len(large) > 0 && large[0].at <= to; large = large[1:] {
			pieces = append(pieces, g.frames[from:large[0].at], large[0].body)
			from = large[0].at
		}
		if err := do(append(pieces, g.frames[from:to])); err != nil {
			return err
		}
		from = to
	}
	return nil
}
