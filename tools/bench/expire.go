package main

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// longDelay is the delay in seconds of jobs that consumers get only after their TTR ends:
// nobody gets them before.
const longDelay = 3600

// ends records when the TTRs of jobs began at the earliest: when the holder's
// reserve-job was sent, in nanoseconds since the run's start, by the job's id.
type ends struct {
	ttr   int // of each job, in seconds
	began sync.Map
}

// late returns the time from the end of a job's TTR to its delivery at now.
func (e *ends) late(id uint64, now int64) (ns int64, known bool) {
	began, known := e.began.LoadAndDelete(id)
	if !known {
		return 0, false
	}
	return now - began.(int64) - int64(e.ttr)*int64(time.Second), true
}

// A holder puts delayed jobs, reserves them by id and lets their TTRs end, so that
// consumers get them.
type holder struct {
	producer
	out  []byte
	held []uint64 // jobs to be reserved, or being so
	from int      // how many of these are answered
	over bool     // nothing more is put
}

// newHolder makes a holder that first puts at the time due.
func newHolder(l *load, t *counters, f *flow, body []byte, due int64) *holder {
	h := &holder{producer: producer{t: t, f: f, n: l.Pipeline, due: due}}
	for range l.Pipeline {
		h.puts = client.AppendPut(h.puts, 0, longDelay, l.TTR, body)
		h.stamps = append(h.stamps, len(h.puts)-len(body)-len("\r\n"))
	}
	return h
}

func (h *holder) next(now int64) (stage, status) {
	if h.over {
		return stage{}, waits // the jobs come back at once if the connection ends
	}
	if len(h.held) == 0 {
		s, what := h.producer.next(now)
		if h.over = what == done; h.over {
			what = waits
		}
		return s, what
	}
	h.out, h.from = h.out[:0], 0
	for _, id := range h.held {
		h.f.ends.began.Store(id, now)
		h.out = client.AppendReserveJob(h.out, id)
	}
	return stage{h.out, len(h.held), true}, sends
}

func (h *holder) replied(reply *client.Reply, now int64) {
	if len(h.out) == 0 {
		h.producer.replied(reply, now)
		if reply.Word == client.Inserted {
			h.held = append(h.held, reply.ID)
		}
		return
	}
	h.t.count(now)
	if reply.Word != client.Reserved || reply.ID != h.held[h.from] {
		h.t.unexpected("reserve-job", reply)
	}
	h.t.reserves++
	if h.from++; h.from == len(h.held) {
		h.held, h.out = h.held[:0], h.out[:0]
	}
}

// journey returns how long the delivery of a job, at now, took: since it was put,
// or since it was due.
func (f *flow) journey(reply *client.Reply, now int64) (ns int64, err error) {
	if f.ends.ttr > 0 {
		late, known := f.ends.late(reply.ID, now)
		if !known || late < 0 {
			return 0, fmt.Errorf("a job came before the end of its TTR of %d s", f.ends.ttr)
		}
		return late, nil
	}
	ns = now - int64(binary.LittleEndian.Uint64(reply.Body)) - int64(f.delay)*int64(time.Second)
	if ns < 0 {
		return ns, fmt.Errorf("a job came %d s delayed but early", f.delay)
	}
	return ns, nil
}
