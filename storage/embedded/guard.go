package embedded

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/telemetry"
)

const (
	// readDiskEvery is how often the free space of the disk is read.
	readDiskEvery = 100 * time.Millisecond

	// perPut is how many bytes a put takes on the disk beside its body: for the record, keys,
	// and what compactions write again.
	perPut = 512

	// reclaimEvery is how often the tables are compacted because the disk is full.
	reclaimEvery = time.Second
)

// guard refuses puts while less than a reserve is free on the disk, so that there is still room
// for deletes and all other changes. It also refuses puts while the tables cannot be written
// and are far behind. It is guarded by the engine's lock.
type guard struct {
	fs      vfs.FS
	dir     string
	reserve int64 // bytes; 0: the free space is not checked
	log     *slog.Logger
	clock   func() time.Time
	stalled func() bool // see journal.stalled

	readAt    time.Time
	available int64 // bytes above the reserve at readAt, less what was put since
	unknown   bool  // the file system does not report its free space
	low       bool  // the last put was refused
	limited   telemetry.Throttle
	reclaimed time.Time // when the tables were last compacted because the disk was full
}

// reserveRoom reports whether a body of that many bytes may be put, and subtracts it from what
// is available.
func (g *guard) reserveRoom(bytes int) bool {
	if g.stalled() {
		return false
	}
	if g.reserve <= 0 || g.unknown {
		return true
	}
	g.refresh()
	// A body is written at least twice: to the log and to a table.
	need := 2*int64(bytes) + perPut
	g.setLow(g.available < need)
	if g.low {
		return false
	}
	g.available -= need
	return true
}

// refresh reads the free space, if it was not read lately.
func (g *guard) refresh() {
	if now := g.clock(); now.Sub(g.readAt) >= readDiskEvery {
		g.readAt = now
		g.readDisk()
	}
}

// refusing returns why puts are refused at present; "" if they are not.
func (g *guard) refusing() string {
	if g.stalled() {
		return "the tables of the store cannot be written"
	}
	if g.reserve <= 0 || g.unknown {
		return ""
	}
	if g.refresh(); g.unknown {
		return ""
	}
	if g.setLow(g.available < perPut); !g.low {
		return ""
	}
	return fmt.Sprintf("less than --disk-reserve (%d bytes) is free on the disk", g.reserve)
}

func (g *guard) readDisk() {
	usage, err := g.fs.GetDiskUsage(g.dir)
	if err != nil {
		g.log.Warn("the free space of the disk is unknown; it is not checked", "dir", g.dir, "err", err)
		g.unknown = true
		return
	}
	g.available = int64(usage.AvailBytes) - g.reserve
}

// setLow records whether puts are refused. It logs a change, but limits how often, in case the
// disk stays just about full.
func (g *guard) setLow(low bool) {
	if low == g.low {
		return
	}
	g.low = low
	free := g.available + g.reserve
	if low {
		g.limited.Error(g.log, "less than --disk-reserve is free on the disk: puts are refused", "dir", g.dir, "free", free, "reserve", g.reserve)
	} else {
		g.limited.Warn(g.log, "the disk has room for puts again", "dir", g.dir, "free", free)
	}
}

// mayReclaim reports whether the tables should be compacted because a put was refused.
func (g *guard) mayReclaim() bool {
	return g.low && g.clock().Sub(g.reclaimed) >= reclaimEvery
}

// wantsReclaim is mayReclaim, and records that they are compacted now.
func (g *guard) wantsReclaim() bool {
	if !g.mayReclaim() {
		return false
	}
	g.reclaimed = g.clock()
	return true
}
