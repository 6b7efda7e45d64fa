package redis

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

const (
	// heartbeatEvery is the interval of heartbeats. The actual interval varies by half of it
	// either way.
	heartbeatEvery = time.Second

	// minLoggedLag is from which lateness of a delay, TTR or pause on it is logged, and
	// logLagEvery how often.
	minLoggedLag = time.Second
	logLagEvery  = 10 * time.Second

	// leastSetBack and leastSetAhead are from which step of the clock of Redis on it is noticed. What is taken for a step
	// ahead can be how late the reply before was.
	leastSetBack, leastSetAhead = time.Second, 10 * time.Second
)

// heartbeat is what a partition knows of its own heartbeats, and of those of the other
// instances. It belongs to the caller of the partition.
//
// Only the local clock measures how long another instance is silent, and only while Redis
// answers: the clock of Redis can be set at any time, and Redis can have been down for long. Of
// the time that Redis reports for a heartbeat, it only matters whether it has changed.
type heartbeat struct {
	doubted time.Time // when heartbeats of others last may have been delayed, by clock.now
	last    time.Time // when this instance last sent one, by the local clock; zero if never
	others  map[string]sighting
}

// sighting is the last heartbeat of another instance.
type sighting struct { // its time as a text, as Redis reports it
	beat  string    // when Redis first reported that, by clock.now
	since time.Time // when Redis was first asked and said so, by clock.now
}

// doubt records that at that time a call failed or took long, or this instance started: other
// instances may have been delayed as well.
func (h *heartbeat) doubt(now time.Time) { h.doubted = now }

// saw records the last heartbeats of all instances, alternately a name and a time, from the
// reply to a call that was sent then.
func (h *heartbeat) saw(beats []string, own string, sent time.Time) {
	seen := make(map[string]sighting, len(beats)/2)
	for i := 0; i+1 < len(beats); i += 2 {
		name, beat := beats[i], beats[i+1]
		last := h.others[name]
		if last.beat != beat {
			last = sighting{beat, sent}
		}
		if name != own {
			seen[name] = last
		}
	}
	h.others = seen
}

// silent returns the instances to be declared dead, unless they have sent a heartbeat since
// they were last seen. It is called with every heartbeat. If Redis was down, or this instance
// was paused itself, as on a suspended machine, the others may have been too and need time to
// send one. An instance that has just started does not know whether they were.
func (h *heartbeat) silent(now time.Time) map[string]sighting {
	local := time.Now()
	if !h.last.IsZero() && elapsed(h.last, local) > heartbeatEvery+schema.SlowCall {
		h.doubt(now)
	}
	h.last = local
	if now.Sub(h.doubted) < schema.HeartbeatTimeout+schema.SlowCall {
		return nil
	}
	dead := make(map[string]sighting)
	for name, seen := range h.others {
		if now.Sub(seen.since) >= schema.HeartbeatTimeout && len(dead) < maxMoves {
			dead[name] = seen
		}
	}
	return dead
}

// clock has the local time and that of Redis. Any goroutine can call now; the rest belongs to
// the caller of the partition.
type clock struct {
	skew func() time.Duration // see Options

	said int64     // the last time that Redis reported, in ms
	at   time.Time // when that was, by the local clock; zero if never
}

// now is the local time, moved by the same amount as the clock of Redis is in tests.
func (k *clock) now() time.Time { return time.Now().Add(k.skew()) }

// redis estimates the clock of Redis, in ms.
func (k *clock) redis() int64 {
	if k.at.IsZero() {
		return k.now().UnixMilli()
	}
	return k.said + k.now().Sub(k.at).Milliseconds()
}

// setRedisTime records the time that Redis has just reported, in ms, to a call that was sent then, by the local
// clock. It returns by how much the clock of Redis was set since the report before, at least: negative if it was set back.
func (k *clock) setRedisTime(redis int64, sent time.Time) (step time.Duration) {
	now := time.Now()
	if !k.at.IsZero() {
		passed, least, most := time.Duration(redis-k.said)*time.Millisecond, sent.Sub(k.at), now.Sub(k.at)
		step = passed - min(max(passed, least), most)
	}
	k.said, k.at = redis, now
	return step
}

// background schedules the background work of a partition: heartbeats, and what is due. Times are
// by the local clock, which is moved like that of Redis in tests.
type background struct {
	elsewhere atomic.Bool // another instance has something due, as of the last tick

	// A tick has reported named records of a kind that are due, and nobody has asked for them since.
	recordsDue [tube.NumRecordKinds]atomic.Bool

	mu      sync.Mutex
	running bool
	beat    time.Time // when the last heartbeat was requested
	due     time.Time // when the next thing is due, as far as known
}

// never is a time in the distant future.
var never = time.Unix(1<<40, 0)

// dueIn records that something will be due.
func (u *background) dueIn(now time.Time, in time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := now.Add(in); at.Before(u.due) {
		u.due = at
	}
}

// nothingDue records that what was known to be due is done, or will be reported again.
func (u *background) nothingDue() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.due = never
}

// left returns how long it is until the next thing is due. While a tick is under way nothing
// more is due, so that the timer does not ask again and again.
func (u *background) left(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running {
		return heartbeatEvery
	}
	return u.due.Sub(now)
}

// begin returns whether there is something to do while nothing is under way, and whether that
// includes a heartbeat. It is called at least every heartbeatEvery: a heartbeat is sent if the
// next one would be late.
func (u *background) begin(now time.Time, always bool) (ok, beat bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	beat = now.Sub(u.beat) >= heartbeatEvery/2
	if u.running || !always && !beat && u.due.After(now) {
		return false, false
	}
	if beat {
		u.beat = now
	}
	u.running = true
	return true, beat
}

func (u *background) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running = false
}

// timerLag logs when due things were done late: because the machine or Redis is overloaded,
// because more was due at once than can be done at once, or because there was no instance.
type timerLag struct {
	log *slog.Logger

	mu     sync.Mutex
	logged time.Time     // when it was last logged
	times  int           // since then
	most   time.Duration // of these
}

// record records how late the latest thing was that a tick has done.
func (t *timerLag) record(late time.Duration) {
	if late < minLoggedLag {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times, t.most = t.times+1, max(t.most, late)
	if now := time.Now(); now.Sub(t.logged) >= logLagEvery {
		t.log.Warn("delays, TTRs or pauses have ended late", "by", t.most, "times", t.times)
		t.logged, t.times, t.most = now, 0, 0
	}
}

// calling is the start time of the call that is under way.
type calling struct{ since atomic.Int64 } // ns since the epoch; 0 if there is none

func (c *calling) begin(now time.Time) { c.since.Store(now.UnixNano()) }

func (c *calling) end() { c.since.Store(0) }

// takes returns whether a call has been under way for at least that long.
func (c *calling) takes(long time.Duration) bool {
	since := c.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) >= long
}

// instance is the name under which Redis knows this instance in a partition, and what Redis has
// recorded of its calls. name is safe for concurrent use; the rest belongs to the caller of the
// partition.
type instance struct {
	named        atomic.Pointer[string]
	numbers      uint64 // the last call number that was used
	registration uint64 // number of the call that registers the name
	recorded     string // number of the last call that Redis has recorded; "" before the registration
	renamed      bool   // it had another name before
	garbled      bool   // a reply could not be decoded, so holdings may be wrong
	largest      int    // size, in bytes, that Redis knows no record put here exceeds
}

// rename continues as a new, unknown instance.
func (i *instance) rename() {
	name := rand.Text()[:8]
	i.renamed = i.named.Swap(&name) != nil
	i.registration = i.nextNumber()
	i.recorded, i.garbled, i.largest = "", false, 0
}

// name returns the name, which has 8 characters.
func (i *instance) name() string { return *i.named.Load() }

// nextNumber returns a new call number.
func (i *instance) nextNumber() uint64 {
	i.numbers++
	return i.numbers
}

// isRegistered returns whether Redis knows the name.
func (i *instance) isRegistered() bool { return i.recorded != "" }
