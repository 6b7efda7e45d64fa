package embedded

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// guardEvery is how often the disk is asked how much room it has.
	guardEvery = 100 * time.Millisecond

	// perPut is what a put takes on disk beside its body: record, keys, and
	// what is written again when files are compacted.
	perPut = 512
)

// reclaimEvery is how often files are tidied up for want of room.
const reclaimEvery = time.Second

// guard refuses puts while less than a reserve is free on the disk, so that
// deletes and all other changes still find room, and while the tables cannot be
// written and are far behind. It is asked under the engine's lock.
type guard struct {
	fs      vfs.FS
	dir     string
	reserve int64
	log     *slog.Logger
	clock   func() time.Time

	stuck     func() bool // the tables cannot be written, and it is time to refuse puts
	asked     time.Time
	left      int64 // above the reserve when asked, less what was put since
	blind     bool  // the file system does not tell
	low       bool  // the last put was refused
	told      time.Time
	reclaimed time.Time // when files were last tidied up for want of room
}

// room tells whether a body of that many bytes may be put.
func (g *guard) room(bytes int) bool {
	if g.stuck() {
		return false
	}
	if g.reserve <= 0 || g.blind {
		return true
	}
	if now := g.clock(); now.Sub(g.asked) >= guardEvery {
		g.asked = now
		g.ask()
	}
	// A body is written twice at least: to the log and to a table.
	need := 2*int64(bytes) + perPut
	g.note(g.left < need)
	if g.low {
		return false
	}
	g.left -= need
	return true
}

func (g *guard) ask() {
	usage, err := g.fs.GetDiskUsage(g.dir)
	if err != nil {
		g.log.Warn("the free space of the disk is not known; it is not watched", "dir", g.dir, "err", err)
		g.blind = true
		return
	}
	g.left = int64(usage.AvailBytes) - g.reserve
}

// note tells the operator when puts begin or cease to be refused, but not at
// every turn of a disk that is just about full.
func (g *guard) note(low bool) {
	if low == g.low {
		return
	}
	g.low = low
	if now := g.clock(); now.Sub(g.told) >= complainEvery {
		g.told = now
		free := g.left + g.reserve
		if low {
			g.log.Error("the disk is nearly full: puts are refused", "dir", g.dir, "free", free, "reserve", g.reserve)
		} else {
			g.log.Warn("the disk has room for puts again", "dir", g.dir, "free", free)
		}
	}
}

// wanting tells whether files should be tidied up because a put was refused.
func (g *guard) wanting() bool {
	now := g.clock()
	if !g.low || now.Sub(g.reclaimed) < reclaimEvery {
		return false
	}
	g.reclaimed = now
	return true
}
