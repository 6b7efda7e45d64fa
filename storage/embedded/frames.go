package embedded

import (
	"redstalk/storage"
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

const (
	// maxFrame is the size in bytes from which on a frame ends after the current batch.
	// maxEntries is the same for the frame without the bodies that are not copied: to grow a
	// larger buffer takes long, and the lock is held meanwhile.
	maxFrame   = 16 << 20
	maxEntries = 1 << 20

	// maxBatch is the maximum size of a frame in bytes. After a power cut either all of a batch
	// that fits into a frame is there or nothing. The rest of a larger batch gets a frame of
	// its own.
	maxBatch = 1 << 30

	// minLarge is the size in bytes from which on a body is not copied to the frame, but
	// written from where it is.
	minLarge = 32 << 10

	// heavyCommit is how many bytes a caller commits itself. More would take it too long: a
	// committer does it.
	heavyCommit = 1 << 20

	// maxKeptFrame is the size in bytes up to which the memory of a frame is used again.
	maxKeptFrame = 1 << 20
)

// commit is changes that are written together: as one frame of the log or, if there are many, as
// several.
type commit struct {
	frame []byte      // is being filled: space for the header, and entries
	large []largeBody // that belong into frame
	size  int         // of frame in bytes, with large bodies
	full  []fullFrame // the frames before it

	bodies    int64            // bytes of all bodies
	onWritten []*storage.Batch // end when the commit is written
	onDurable []*storage.Batch // end when it is durable

	mustSync bool   // it must become durable: for onDurable, or for a change that no batch waits for
	noJoin   bool   // it is written, and mustSync no longer changes
	reclaim  bool   // the tables have to be compacted after it
	lastID   uint64 // the largest id when its commit started
}

// largeBody is a body that belongs behind the first at bytes of a frame. The body belongs to
// its job. It must not change until releaseBodies, even if the job is deleted.
type largeBody struct {
	at     int
	body   []byte
	buffer tube.Buffer // of body, or nil; retained until the commit is written
}

// fullFrame is a complete frame that is not written yet.
type fullFrame struct {
	frame []byte
	large []largeBody
}

// newCommit returns an empty commit. The lock is held.
func (j *journal) newCommit() *commit {
	if n := len(j.spare); n > 0 {
		g := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return g
	}
	return &commit{frame: make([]byte, wal.HeaderSize)}
}

// recycle empties g, which is written, so that it can be filled again. The lock is held.
func (j *journal) recycle(g *commit) {
	if cap(g.frame) > maxKeptFrame {
		g.frame = make([]byte, wal.HeaderSize)
	}
	j.unwritten -= g.bodies
	clear(g.onWritten)
	clear(g.onDurable)
	g.frame, g.onWritten, g.onDurable = g.frame[:wal.HeaderSize], g.onWritten[:0], g.onDurable[:0]
	g.size, g.bodies = 0, 0
	g.mustSync, g.noJoin, g.reclaim = false, false, false
	j.spare = append(j.spare, g)
	j.roomMade()
}

// releaseBodies releases the buffers of bodies that were not copied, and forgets them. It is
// called when g is written.
func (g *commit) releaseBodies() {
	for _, f := range g.full {
		releaseLarge(f.large)
	}
	releaseLarge(g.large)
	g.large, g.full = nil, nil
}

func releaseLarge(large []largeBody) {
	for _, l := range large {
		if l.buffer != nil {
			l.buffer.Release()
		}
	}
}

func (g *commit) empty() bool { return len(g.frame) == wal.HeaderSize && len(g.full) == 0 }

// bytes is about how many bytes of g have to be written.
func (g *commit) bytes() int64 { return int64(len(g.full))*maxEntries + int64(len(g.frame)) + g.bodies }

// heavy reports whether it takes long to write g.
func (g *commit) heavy() bool {
	return len(g.full) > 0 || len(g.frame) > heavyCommit || g.bodies > heavyCommit
}

// cut ends the frame that is being filled, and begins another one.
func (g *commit) cut() {
	g.full = append(g.full, fullFrame{g.frame, g.large})
	g.frame, g.large, g.size = make([]byte, wal.HeaderSize, min(len(g.frame), maxEntries)), nil, 0
}

// each calls do with the pieces of each frame, in order.
func (g *commit) each(do func(pieces [][]byte) error) error {
	for _, f := range g.full {
		if err := do(f.pieces()); err != nil {
			return err
		}
	}
	if len(g.frame) == wal.HeaderSize {
		return nil
	}
	return do(fullFrame{g.frame, g.large}.pieces())
}

// pieces returns the entries of a frame with the large bodies between them.
func (f fullFrame) pieces() (pieces [][]byte) {
	from := 0
	for _, l := range f.large {
		pieces = append(pieces, f.frame[from:l.at], l.body)
		from = l.at
	}
	return append(pieces, f.frame[from:])
}
