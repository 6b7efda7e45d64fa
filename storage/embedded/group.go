package embedded

import (
	"redstalk/storage"
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

const (
	// maxFrame is the size in bytes from which on a frame ends with its batch.
	// maxEntries is the same without the bodies that are not copied: to give the
	// rest more room takes long, and the lock is held meanwhile.
	maxFrame   = 16 << 20
	maxEntries = 1 << 20

	// maxBatch is the largest size of a frame in bytes. Of a batch that fits into a
	// frame a power cut leaves all or nothing. The rest of a larger one gets a
	// frame of its own.
	maxBatch = 1 << 30

	// minLarge is the size in bytes from which on a body is not copied to the
	// frame, but written from where it is.
	minLarge = 32 << 10

	// heavyGroup is how many bytes a caller commits itself. More would take it
	// too long: a committer does it.
	heavyGroup = 1 << 20

	// keepFrame is up to how many bytes the memory of a frame is used again.
	maxKeptFrame = 1 << 20
)

// group is changes that are written together: as one frame of the log, or, if there
// are many, as several.
type group struct {
	frame []byte      // what is being filled: room for the header, and entries
	large []largeBody // that belong into frame
	size  int         // of frame in bytes, with large bodies
	full  []fullFrame // the frames before it

	bodies    int64            // bytes of all bodies
	onWritten []*storage.Batch // are done when the group is written
	onDurable []*storage.Batch // are done when it is durable

	mustSync bool   // it must become durable: for onDurable, or for a change that no batch waits for
	noJoin   bool   // it is written, and mustSync does not change any more
	reclaim  bool   // the tables have to be made smaller after it
	lastID   uint64 // the largest id when it was taken
}

// largeBody is a body that belongs behind the first at bytes of a frame. The body belongs
// to its job. It has to stay as it is until releaseBodies, even if the job is deleted.
type largeBody struct {
	at     int
	body   []byte
	buffer tube.Buffer // of body, or nil; the group has a use of it until it is written
}

// fullFrame is a frame that is complete, but not written yet.
type fullFrame struct {
	frame []byte
	large []largeBody
}

// newGroup returns an empty group. The lock is held.
func (j *journal) newGroup() *group {
	if n := len(j.spare); n > 0 {
		g := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return g
	}
	return &group{frame: make([]byte, wal.HeaderSize)}
}

// recycle makes g, which is written, ready to be filled again. The lock is held.
func (j *journal) recycle(g *group) {
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

// releaseBodies ends the uses of the bodies that were not copied, and forgets them. It is
// called when g is written.
func (g *group) releaseBodies() {
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

func (g *group) empty() bool { return len(g.frame) == wal.HeaderSize && len(g.full) == 0 }

// bytes is how much there is to write of g, about.
func (g *group) bytes() int64 { return int64(len(g.full))*maxEntries + int64(len(g.frame)) + g.bodies }

// heavy reports whether it takes long to write g.
func (g *group) heavy() bool {
	return len(g.full) > 0 || len(g.frame) > heavyGroup || g.bodies > heavyGroup
}

// cut ends the frame that is being filled, and begins another one.
func (g *group) cut() {
	g.full = append(g.full, fullFrame{g.frame, g.large})
	g.frame, g.large, g.size = make([]byte, wal.HeaderSize, min(len(g.frame), maxEntries)), nil, 0
}

// each calls do with the pieces of each frame, in their order.
func (g *group) each(do func(pieces [][]byte) error) error {
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
