package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
)

// reply is the reply to a call of the script, read from the front, see lua/main.lua. err is
// the first error.
type reply struct {
	sent     time.Time // when the call was sent
	clock    int64     // of Redis, ms; 0 in a repeated reply
	recorded bool
	id       uint64        // number of the next job put
	puts     int           // how many puts were read
	keeping  bool          // policies say something about records of ended jobs
	refused  map[int]bool  // which of these have made no job, counted from 1; nil if none
	due      time.Duration // until the first thing is due that the call made due; negative: none
	wakeUps  []wakeUp

	prefixed int    // length of a key before the id
	unread   string // what is not read yet
	err      error

	// Of jobs taken in bulk, what is not handed out yet:
	taken   string    // ids
	records []any     // the record of each job, a string; or a job, or nil, see large.go
	large   []large   // those of which only the beginning is there, until fetch
	more    int       // how many more jobs of the current range
	set     *leaseSet // their lease set, nil if none
	last    uint64    // the id that was read last
	step    uint64    // difference between ids of a range

	reads []any // what was read behind the call, and not decoded yet

	cached bool // they and the last one are in the body cache, and have no records here

	recordless bool                 // it has no records, as the call was void; see lua/main.lua
	cut        map[*storage.Op]bool // operations that must be requested again
}

// wakeUp names a tube in which this instance can take that many jobs, as far as other clients
// leave them.
type wakeUp struct {
	tube string
	jobs int
}

// cutOff records that operations must be requested again.
func (r *reply) cutOff(ops []*storage.Op) {
	if r.cut == nil {
		r.cut = make(map[*storage.Op]bool)
	}
	for _, op := range ops {
		r.cut[op] = true
	}
}

// verdict reads a verdict, and records if the operation was cut.
func (r *reply) verdict(op *storage.Op) lua.Verdict {
	v := lua.Verdict(r.int64())
	if v == lua.CutOff {
		r.cutOff([]*storage.Op{op})
	}
	return v
}

var errReply = errors.New("the script returned something else than expected")

// parseReply reads what comes before the answers in the reply to a call that was sent then.
func parseReply(raw any, prefix string, partitions int, sent time.Time) (*reply, error) {
	parts, ok := raw.([]any)
	if !ok || len(parts) < 3 {
		return nil, fmt.Errorf("%w: %T", errReply, raw)
	}
	r := &reply{sent: sent, records: parts[3:], prefixed: len(prefix), step: uint64(partitions)}
	text, textOK := parts[0].(string)
	taken, takenOK := parts[1].(string)
	sizes, sizesOK := parts[2].(string)
	if !textOK || !takenOK || !sizesOK {
		return nil, fmt.Errorf("%w: %T, %T, %T", errReply, parts[0], parts[1], parts[2])
	}
	r.unread, r.taken = text, taken
	r.parseSizes(sizes)
	r.clock = r.int64()*1000 + r.int64()/1000
	flags := r.int64()
	r.recorded = flags&1 != 0
	r.keeping = flags&4 != 0
	if flags&2 != 0 {
		r.readRefused()
	}
	r.id = uint64(r.int64())
	r.due = time.Duration(r.int64()) * time.Microsecond
	for range r.int64() {
		r.wakeUps = append(r.wakeUps, wakeUp{tube: r.text(), jobs: r.int()})
	}
	return r, r.err
}

// readRefused reads which puts were refused because of quotas.
func (r *reply) readRefused() {
	r.refused = make(map[int]bool)
	for range r.int64() {
		r.refused[r.int()] = true
	}
}

// until reads up to a mark.
func (r *reply) until(mark byte) string {
	at := strings.IndexByte(r.unread, mark)
	if at < 0 {
		r.err, r.unread = errReply, ""
		return ""
	}
	head := r.unread[:at]
	r.unread = r.unread[at+1:]
	return head
}

// first reads n bytes.
func (r *reply) first(n int) string {
	if n < 0 || n > len(r.unread) {
		r.err, r.unread = errReply, ""
		return ""
	}
	head := r.unread[:n]
	r.unread = r.unread[n:]
	return head
}

func (r *reply) parse(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		r.err = errReply
	}
	return n
}

func (r *reply) int64() int64 { return r.parse(r.until(';')) }
func (r *reply) int() int     { return int(r.int64()) }
func (r *reply) found() bool  { return r.int64() == 1 }
func (r *reply) text() string { return r.first(int(r.parse(r.until(':')))) }

// key reads the id of a job from its key.
func (r *reply) key() uint64 {
	r.first(r.prefixed)
	return uint64(r.parse(r.first(schema.IDLen)))
}

// ms reads milliseconds.
func (r *reply) ms() time.Duration { return time.Duration(r.int64()) * time.Millisecond }

// record reads the record of a job.
func (r *reply) record() schema.Record {
	rec := schema.Record(r.text())
	if !rec.Valid() {
		r.err = errReply
		return ""
	}
	return rec
}

// count reads a number of things. Some are differences of counters: if Redis has lost a part of them, they are below 0
// until fsck has repaired them, which reads as 0.
func (r *reply) count() uint64 { return uint64(max(r.int64(), 0)) }

// skipNumber reads an answer that is ignored.
func skipNumber(r *reply) { r.int64() }

// nextID reads the next id of the jobs taken in bulk: 'KEY', or for a range 'KEY;COUNT;' and
// its terms, or for a lease set its deadline. A '!' at the end means that the bodies are in the
// body cache.
func (r *reply) nextID() uint64 {
	if r.more > 0 {
		r.more--
		r.last += r.step
		return r.last
	}
	end := r.prefixed + schema.IDLen
	if len(r.taken) < end {
		r.err = errReply
		return 0
	}
	r.last = uint64(r.parse(r.taken[r.prefixed:end]))
	key := r.taken[:end]
	behind, rest, _ := strings.Cut(r.taken[end:], ",")
	r.taken, r.set = rest, nil
	if behind, r.cached = strings.CutSuffix(behind, "!"); behind != "" {
		many, what, _ := strings.Cut(behind[1:], ";")
		r.more = int(r.parse(many)) - 1
		if strings.HasPrefix(what, "g") {
			r.set = &leaseSet{name: key + behind, left: r.more + 1}
		}
	}
	return r.last
}

// large is a record in a reply of which only the beginning is there.
type large struct {
	index int // in records
	bytes int // of the whole record
}

// parseSizes reads which records are large.
func (r *reply) parseSizes(sizes string) {
	for sizes != "" {
		var body large
		place, rest, _ := strings.Cut(sizes, ";")
		bytes, rest, _ := strings.Cut(rest, ";")
		body.index, body.bytes, sizes = int(r.parse(place)), int(r.parse(bytes)), rest
		if r.err != nil || body.index < 0 || body.index >= len(r.records) {
			r.err = errReply
			return
		}
		r.large = append(r.large, body)
	}
}
