package redis

import (
	"cmp"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// cacheFor is how long bodies are cached. cacheBytes is about how many bytes of them are
	// cached in all partitions. A job that waits for longer, or is put while the cache is full,
	// is read from Redis.
	cacheFor   = 10 * time.Second
	cacheBytes = 32 << 20

	// cacheCost is the memory of a cached job in addition to its body, in bytes.
	cacheCost = 64
)

// bodyCache has the bodies of jobs that this instance has recently put into ranges, and of
// large jobs. Mostly the same instance reserves them, and a body never changes, so Redis need
// not send it back. The name of a range says which instance has put it, and each call says the
// id from which on this instance has the bodies. The cache is exact, because replies are
// decoded in order: the next call can rely on what a reply has added. An instance that loses
// contact with Redis continues under another name with an empty cache.
//
// A large job is a range of one here. The script does not know of it: the instance looks into
// the cache before it reads such a record, see large.go.
//
// It belongs to the caller of the partition.
type bodyCache struct {
	ranges []cachedRange // in the order of their ids
	last   int           // where the last job was found; the next one is probably there too
	done   int           // how many ranges are empty
	bytes  int           // of what is left, approximately
	limit  int           // of bytes
	from   uint64        // the first job that is certain to be cached
	step   uint64        // from one id of a range to the next
}

// cachedRange is the bodies of one range.
type cachedRange struct {
	first  uint64   // id
	bodies [][]byte // nil where the job was taken
	left   int
	tube   string
	groups []string // parallel to bodies; nil if the jobs have none
	ttr    time.Duration
	since  time.Time
}

func newBodyCache(o Options) *bodyCache {
	b := &bodyCache{limit: cacheBytes / o.Partitions, step: uint64(o.Partitions)}
	if o.noBodyCache {
		b.limit = 0
	}
	return b
}

// clear empties the cache of an instance that continues under another name.
func (b *bodyCache) clear() { *b = bodyCache{limit: b.limit, step: b.step} }

// room returns whether another range can be cached.
func (b *bodyCache) room() bool { return b.bytes < b.limit }

// keep caches a range that was put: jobs with the same tube and TTR, all with a group or none.
func (b *bodyCache) keep(puts []*storage.Op, now time.Time) {
	if b.done > 64 && b.done > len(b.ranges)/2 {
		b.ranges = slices.DeleteFunc(b.ranges, func(r cachedRange) bool { return r.left == 0 })
		b.done = 0
	}
	cached := cachedRange{
		first: puts[0].Answer.ID, bodies: make([][]byte, len(puts)), left: len(puts),
		tube: puts[0].Tube, ttr: ttrOf(puts[0]), since: now,
	}
	for i, op := range puts {
		if cached.bodies[i] = op.Body; op.Body == nil {
			cached.bodies[i] = []byte{}
		}
		if op.Args != nil {
			cached.groups = append(cached.groups, op.Args.Tags.Group)
		}
		b.bytes += len(op.Body) + cacheCost
	}
	b.ranges = append(b.ranges, cached)
}

// ttrOf returns the TTR of a job that is put.
func ttrOf(op *storage.Op) time.Duration {
	return time.Duration(max(op.TTR, tube.MinTTR)) * time.Second
}

// take removes a job from the cache and returns it; false if it is not there.
func (b *bodyCache) take(id uint64) (job, bool) {
	if b.last >= len(b.ranges) || !b.ranges[b.last].has(id, b.step) {
		at, ok := slices.BinarySearchFunc(b.ranges, id, func(r cachedRange, id uint64) int { return cmp.Compare(r.first, id) })
		if !ok {
			at-- // the job can be in the range that begins before it
		}
		if at < 0 || !b.ranges[at].has(id, b.step) {
			return job{}, false
		}
		b.last = at
	}
	cached := &b.ranges[b.last]
	at := (id - cached.first) / b.step
	body := cached.bodies[at]
	cached.bodies[at] = nil
	b.bytes -= len(body) + cacheCost
	j := job{body: body, tube: cached.tube, ttr: cached.ttr, cached: cached.since}
	if cached.groups != nil {
		j.hasMetadata, j.group = true, cached.groups[at]
	}
	if cached.left--; cached.left == 0 {
		cached.bodies, cached.groups = nil, nil
		b.done++
	}
	return j, true
}

// has returns whether the body of a job is there. step is the difference between ids of the
// range.
func (r *cachedRange) has(id, step uint64) bool {
	behind := id - r.first
	return id >= r.first && behind%step == 0 && behind/step < uint64(len(r.bodies)) && r.bodies[behind/step] != nil
}

// since returns the first id from which on a call can rely on the cache.
func (b *bodyCache) since(now time.Time) uint64 {
	for i := range b.ranges {
		cached := &b.ranges[i]
		if cached.left == 0 {
			continue
		}
		if now.Sub(cached.since) < cacheFor {
			break
		}
		b.from = cached.first + uint64(len(cached.bodies))*b.step
	}
	return b.from
}

// forget drops all jobs before an id. No later call relies on them.
func (b *bodyCache) forget(before uint64) {
	gone := 0
	for gone < len(b.ranges) && (b.ranges[gone].left == 0 || b.ranges[gone].first < before) {
		cached := &b.ranges[gone]
		for _, body := range cached.bodies {
			if body != nil {
				b.bytes -= len(body) + cacheCost
			}
		}
		if cached.left == 0 {
			b.done--
		}
		*cached = cachedRange{}
		gone++
	}
	b.ranges, b.last = b.ranges[gone:], max(b.last-gone, 0)
}
