package redis

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage/redis/schema"
)

// Of a large job that was taken, the script returns only the beginning of the record. The rest
// is read with a GET, which is cheap, before the reply is decoded, unless this instance has
// recently put the job itself and has the body in its cache. The job is reserved by then, so
// nobody deletes it meanwhile. One call takes as much as one reply can carry, large jobs
// included, which limits how much is read at once.

// errFetch: a call was carried out, but a record that belongs to the reply could not be read.
var errFetch = errors.New("a job was reserved, and its record could not be read")

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

// fetch completes the large records of a reply.
func (p *partition) fetch(node *goredis.Client, r *reply) error {
	if len(r.large) == 0 {
		return nil
	}
	ids := r.idsOfRecords()
	var missing []large
	var commands [][]any
	for _, body := range r.large {
		if body.index >= len(ids) {
			return errReply
		}
		id := ids[body.index]
		if cached, ok := p.bodies.take(id); ok && !r.begins(body).HasMetadata() {
			r.records[body.index] = cached
			continue
		}
		missing = append(missing, body)
		commands = append(commands, []any{"get", p.prefix + string(schema.AppendID(nil, id))})
	}
	return p.get(node, r, missing, commands)
}

// begins returns the beginning of a large record.
func (r *reply) begins(body large) schema.Record {
	text, _ := r.records[body.index].(string)
	if text == "" {
		return " " // there is none
	}
	return schema.Record(text)
}

// get sends these GETs, and completes their records. A record that is gone, which happens only
// if somebody has changed keys by hand, becomes nil.
func (p *partition) get(node *goredis.Client, r *reply, which []large, commands [][]any) error {
	if len(commands) == 0 {
		return nil
	}
	if err := p.transport.send(node, commands...); err != nil {
		return fmt.Errorf("%w: %v", errFetch, err)
	}
	var failed error
	for _, body := range which {
		answer, err := p.transport.receive()
		if err != nil && !errors.Is(err, goredis.Nil) {
			failed = fmt.Errorf("%w: %v", errFetch, err)
			if codeOf(err) == "" {
				return failed
			}
			continue
		}
		text, _ := answer.(string)
		if r.records[body.index] = nil; len(text) == body.bytes {
			r.records[body.index] = text
		}
	}
	return failed
}

// idsOfRecords returns the ids of the jobs whose records are in the reply.
func (r *reply) idsOfRecords() (ids []uint64) {
	rest := *r
	for rest.err == nil && (rest.more > 0 || rest.taken != "") {
		if id := rest.nextID(); !rest.cached {
			ids = append(ids, id)
		}
	}
	return ids
}
