package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	histograms "redstalk/storage/telemetry"
	"redstalk/tube"
)

// What this instance counts: by tube, what its clients have done; and how often it has called
// Redis. Redis stores none of it. Puts, takes and deletes are known from the answers; the
// script reports everything else at the end of a reply, see OPS.note in lua/slow/tubes.lua.

// tubeFlows is what has happened in the tubes of a partition. mu is held while a reply is
// decoded.
type tubeFlows struct {
	mu       sync.Mutex
	flows    *tube.Flows
	reported map[string]reportedTimes // by tube
}

func newTubeFlows() tubeFlows {
	return tubeFlows{flows: tube.NewFlows(tube.RoomFor(tube.DefaultNamed)), reported: make(map[string]reportedTimes)}
}

// of returns the flow of a tube.
func (f *tubeFlows) of(name string) *tube.Flow { return f.flows.Open(name) }

// noteDelivered counts that op has got a job. Its waiting time is known if this is its first
// delivery and it was neither kicked nor reserved by its id before it was due.
func (p *partition) noteDelivered(r *reply, op *storage.Op, j *job) {
	if j.tube == "" || r.err != nil {
		return // its record is gone
	}
	f := p.flow.of(j.tube)
	f.Counts[tube.Reserves]++
	switch {
	case !j.cached.IsZero():
		f.Waits.Observe(r.sent.Sub(j.cached))
	case j.record != "" && op.Kind == storage.Take:
		if c := j.record.Counters(); c[tube.Reserves]+c[tube.Kicks] == 0 {
			f.Waits.Observe(time.Duration(p.redisTime(r)-due(j.record)) * time.Millisecond)
		}
	}
}

// redisTime returns about when Redis has carried out a call, in ms.
func (p *partition) redisTime(r *reply) int64 {
	if r.clock != 0 {
		return r.clock + p.options.skew().Milliseconds()
	}
	return p.clock.redis()
}

// due returns when a job was due that was put with its delay, in ms by the clock of Redis.
func due(r schema.Record) int64 { return r.CreatedMs() + int64(r.Delay())*1000 }

// noteRun counts how long a job has run that its holder has deleted.
func (p *partition) noteRun(r *reply, held *holding) {
	p.flow.of(p.holdings.tubeOf(held)).Runs.Observe(r.sent.Sub(p.holdings.since(held)))
}

// readNoted reads the counts at the end of a reply.
func (p *partition) readNoted(r *reply) {
	for r.err == nil && r.unread != "" {
		what, n, name := r.text(), r.count(), r.text()
		f := p.flow.of(name)
		switch what {
		case "run":
			f.Runs.Observe(time.Duration(n) * time.Millisecond)
		case "puts":
			f.Puts += n
		case "deletes":
			f.Deletes += n
		case "parked":
			f.Parked += n
		default:
			c, known := counterNamed[what]
			if !known {
				r.err = errReply
				return
			}
			f.Counts[c] += n
		}
	}
}

// counterNamed has the counters of a job by their names.
var counterNamed = func() map[string]tube.Counter {
	all := make(map[string]tube.Counter)
	for c := range tube.NumCounters {
		all[c.String()] = c
	}
	return all
}()

// storeStats is what a store counts of its own work. It is safe for concurrent use.
type storeStats struct { // duration from sending to the reply
	calls      *histograms.Histogram // from sending to the answer
	operations *histograms.Histogram
	retries    atomic.Uint64
	replays    atomic.Uint64
}

func newStoreStats() *storeStats {
	return &storeStats{calls: histograms.NewDurations(), operations: histograms.NewSizes()}
}

// noteAnswered counts a call that Redis has answered.
func (p *partition) noteAnswered(c *call) {
	now := time.Now()
	p.answered.Store(now.UnixNano())
	p.adjustBatchSizes(c, now.Sub(c.begun))
	p.stats.calls.Add(int64(now.Sub(c.begun)))
	p.stats.operations.Add(int64(c.ops))
}

// NameTubes implements storage.Reporter.
func (s *Store) NameTubes(n int) {
	room := tube.RoomFor(n)
	for _, p := range s.parts {
		p.flow.mu.Lock()
		p.flow.flows = tube.NewFlows(room)
		p.flow.mu.Unlock()
	}
}

// Report implements storage.Reporter.
func (s *Store) Report() storage.Report {
	e := s.stats
	r := storage.Report{
		Calls: e.calls.Read(), Operations: e.operations.Read(), Retries: e.retries.Load(), Replays: e.replays.Load(),
	}
	for _, p := range s.parts {
		p.flow.mu.Lock()
		r.Named = append(r.Named, p.flow.flows.Named()...)
		r.Rest.Add(&p.flow.flows.Rest)
		p.flow.mu.Unlock()
		if p.failing.Load() {
			r.Unavailable = storage.ErrUnavailable
		}
		if at := p.answered.Load(); at != 0 {
			r.SinceContact = max(r.SinceContact, time.Since(time.Unix(0, at)))
		}
	}
	return r
}
