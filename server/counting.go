package server

import (
	"redstalk/protocol"
	"redstalk/server/queue"
)

// CommandNames returns the names of the commands. The index of a name is the index of its command
// in queue.Counters.
func CommandNames() []string {
	names := make([]string, protocol.NumVerbs)
	for v := range names {
		names[v] = protocol.Verb(v).String()
	}
	return names
}

// resultOf returns the result of a command, for the counters, from the first word of its reply.
func resultOf(v protocol.Verb, word string) queue.Result {
	if v == protocol.Quit {
		return queue.Done // a quit has no reply: the word is that of an earlier one
	}
	switch word {
	case "NOT_FOUND", "NOT_IGNORED":
		return queue.NotFound
	case "TIMED_OUT":
		return queue.TimedOut
	case "DEADLINE_SOON":
		return queue.Soon
	case "DUPLICATE":
		return queue.Duplicate
	case "OUT_OF_MEMORY":
		return queue.Full
	case "INTERNAL_ERROR":
		return queue.Failed
	case "BAD_FORMAT", "UNKNOWN_COMMAND", "JOB_TOO_BIG", "EXPECTED_CRLF":
		return queue.BadRequest
	case "FORBIDDEN", "UNAUTHORIZED":
		return queue.Forbidden
	case "BATCH_SEALED":
		return queue.Refused
	case "DRAINING":
		if v == protocol.Put {
			return queue.Refused
		}
	}
	return queue.Done
}

// countResult counts the reply that was just written.
func (s *session) countResult(v protocol.Verb) {
	result := resultOf(v, s.out.Last())
	if t := &s.counts; t.verb != v || t.result != result {
		s.flushResults()
		t.verb, t.result = v, result
	}
	s.counts.replies++
}

// flushResults adds the counted replies to the shared counters.
func (s *session) flushResults() {
	if t := &s.counts; t.replies > 0 {
		s.queue.Counters.Results[t.verb][t.result].Add(t.replies)
		t.replies = 0
	}
}

// flushCounts adds everything to the shared counters.
func (s *session) flushCounts() {
	s.flushResults()
	c, t := &s.queue.Counters, &s.counts
	if now := s.in.Received(); now != t.received {
		c.Received.Add(now - t.received)
		t.received = now
	}
	if now := s.out.Sent(); now != t.sent {
		c.Sent.Add(now - t.sent)
		t.sent = now
	}
}

// count counts a command when it is answered or begins to wait. It also counts the connection as
// a producer or a worker if the command makes it one.
func (s *session) count(r *request) {
	s.noteProducer(r.producer)
	if isReserve(r.verb) && r.fault == protocol.NoFault {
		s.noteWorker()
	}
	if r.counted {
		r.counted = false
		s.countCommand(r.verb)
	}
}

// The counters have room for every verb.
var _ [queue.MaxCommands - protocol.NumVerbs]struct{}

func (s *session) countCommand(v protocol.Verb) { s.queue.Counters.Commands[v].Add(1) }

// noteProducer counts the connection as a producer if ok is set, once.
func (s *session) noteProducer(ok bool) {
	if ok && !s.producer {
		s.producer = true
		s.queue.Counters.Producers.Add(1)
	}
}

// noteWorker counts the connection as a worker, once.
func (s *session) noteWorker() {
	if !s.worker {
		s.worker = true
		s.queue.Counters.Workers.Add(1)
	}
}
