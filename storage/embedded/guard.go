package embedded

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/telemetry"
)

const (
	// guardEvery is how often the disk is asked for its free space.
	readDiskEvery = 100 * time.Millisecond

	// perPut is how many bytes a put takes on the disk beside its body: for the
	// record, keys, and what is written again when files are compacted.
	perPut = 512

	// reclaimEvery is how often files are tidied up for want of room.
	reclaimEvery = time.Second
)

// guard refuses puts while less than a reserve is free on the disk, so that deletes and
// all other changes still find room. It also refuses puts while the tables cannot be
// written and are far behind. It is guarded by the engine's lock.
type guard struct {
	fs      vfs.FS
	dir     string
	reserve int64 // bytes; 0: the disk is not watched
	log     *slog.Logger
	clock   func() time.Time
	stalled func() bool // see journal.stuck

	readAt    time.Time
	available int64 // bytes above the reserve when asked, less what was put since
	unknown   bool  // the file system does not know
	low       bool  // the last put was refused
	limited   telemetry.Log
	reclaimed time.Time // when files were last tidied up for want of room
}

// room reports whether a body of that many bytes may be put.
func (g *guard) reserveRoom(bytes int) bool {
	if g.stalled() {
		return false
	}
	if g.reserve <= 0 || g.unknown {
		return true
	}
	if now := g.clock(); now.Sub(g.readAt) >= readDiskEvery {
		g.readAt = now
		g.readDisk()
	}
	// A body is written at least twice: to the log and to a table.
	need := 2*int64(bytes) + perPut
	g.setLow(g.available < need)
	if g.low {
		return false
	}
	g.available -= need
	return true
}

func (g *guard) readDisk() {
	usage, err := g.fs.GetDiskUsage(g.dir)
	if err != nil {
		g.log.Warn("the free space of the disk is not known; it is not watched", "dir", g.dir, "err", err)
		g.unknown = true
		return
	}
	g.available = int64(usage.AvailBytes) - g.reserve
}

// setLow notes whether puts are refused. It tells the operator when that changes, but not
// each time that it does on a disk that is just about full.
func (g *guard) setLow(low bool) {
	if low == g.low {
		return
	}
	g.low = low
	free := g.available + g.reserve
	if low {
		g.limited.Error(g.log, "the disk is nearly full: puts are refused", "dir", g.dir, "free", free, "reserve", g.reserve)
	} else {
		g.limited.Warn(g.log, "the disk has room for puts again", "dir", g.dir, "free", free)
	}
}

// mayReclaim reports whether files should be tidied up because a put was refused.
func (g *guard) mayReclaim() bool {
	return g.low && g.clock().Sub(g.reclaimed) >= reclaimEvery
}

// wantsReclaim is mayReclaim, and notes that the files are tidied up now.
func (g *guard) wantsReclaim() bool {
	if !g.mayReclaim() {
		return false
	}
	g.reclaimed = g.clock()
	return true
}
