package main

import (
	"bytes"
	"fmt"

	"redstalk/protocol/client"
)

// counters are the counts of one driver's sessions. They belong to one
// goroutine until the driver has ended.
type counters struct {
	r *run

	ops      int64 // commands answered within the duration
	puts     int64 // jobs put, within the duration or after
	reserves int64
	deletes  int64
	errors   int64
	samples  map[string]int64 // the first few kinds of error, with counts
	latency  histogram        // of timed stages
	journey  histogram        // pc: put sent to job received; delayed, expire: lateness
}

// maxSamples is how many kinds of error are kept by name.
const maxSamples = 8

// count counts one command as answered.
func (t *counters) count(now int64) {
	if now <= t.r.deadline.Load() {
		t.ops++
	}
}

// fail counts one error under the name what.
func (t *counters) fail(what string) {
	t.errors++
	if t.samples == nil {
		t.samples = make(map[string]int64)
	}
	if _, known := t.samples[what]; known || len(t.samples) < maxSamples {
		t.samples[what]++
	}
}

// unexpected counts a reply that command should not have got.
func (t *counters) unexpected(command string, reply *client.Reply) {
	t.fail(fmt.Sprintf("%s answered %.60q", command, reply.Line))
}

// merge adds what o counted.
func (t *counters) merge(o *counters) {
	t.ops += o.ops
	t.puts += o.puts
	t.reserves += o.reserves
	t.deletes += o.deletes
	t.latency.merge(&o.latency)
	t.journey.merge(&o.journey)
	for what, n := range o.samples {
		t.fail(what)
		t.errors--
		t.samples[what] += n - 1
	}
	t.errors += o.errors
}

// checkInserted verifies the reply to a put: a job id, and not the last one of
// this connection.
func checkInserted(t *counters, reply *client.Reply, last *uint64) bool {
	if reply.Word != client.Inserted {
		t.unexpected("put", reply)
		return false
	}
	if reply.ID == 0 || reply.ID == *last {
		t.fail("put answered with an id that is zero or was the last job's")
	}
	*last = reply.ID
	t.puts++
	return true
}

// checkReserved verifies the reply to a reserve: a job with the body that
// was put.
func checkReserved(t *counters, reply *client.Reply, body []byte) bool {
	if reply.Word != client.Reserved {
		t.unexpected("reserve", reply)
		return false
	}
	if reply.ID == 0 || !bytes.Equal(reply.Body, body) {
		t.fail("reserve answered with a body that was not put")
	}
	t.reserves++
	return true
}

// checkDeleted verifies the reply to a delete.
func checkDeleted(t *counters, reply *client.Reply) {
	if reply.Word != client.Deleted {
		t.unexpected("delete", reply)
		return
	}
	t.deletes++
}
