package client

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Stats is what the server knows about a job.
type Stats struct {
	ID         uint64
	Tube       string
	State      string // ready, delayed, reserved or buried
	Priority   uint32
	TTR        time.Duration
	Age        time.Duration // since it was put
	Left       time.Duration // until a delayed job is due, or the TTR of a reserved one ends
	Deliveries int           // how often it was reserved
	Failures   int           // releases and TTRs that ran out
	Buries     int
	Kicks      int

	// The rest comes only from redstalk; the fields from Max to FromID only from [Client.JobStats], as
	// does Left, not with the job.

	Key      string
	Group    string
	Held     string // why a ready job cannot be reserved now: concurrency, rate or paused; batch: a delayed one waits for a batch; only from [Client.JobStats]
	Retry    string // the waits of the server, of the job or of its tube's policy, as in 10s,1m
	Max      int    // deliveries; 0: no limit
	Dead     string // its dead-letter tube
	Parked   string // why it was buried by the server: retries, deliveries, refused, expired, batch-failed or batch-unsealed
	FromTube string // of a dead letter: its original tube
	FromID   uint64 // of a dead letter: its original id

	Meta   map[string]string // headers of the put
	Trace  string            // W3C traceparent of the put
	Reason string            // of the last failure
	Failed time.Time         // when that was

	Attempts []Attempt // its last deliveries that have failed, at most five, the newest first
	FirstPut time.Time // of a dead letter, and of what became of it: when the first of these jobs was put

	Schedule string    // that has put it; empty: none
	Nominal  time.Time // the time of the schedule for which that was

	Progress        string // what [Job.TouchProgress] has said since its last delivery; only from [Client.JobStats]
	CheckpointBytes int    // how long its checkpoint is, see [Client.GetCheckpoint]; 0: none
	checkpoint      []byte // nil if it did not come with the job

	Batch    string // of which it is a member; empty: none
	After    string // the batch for which it waits, if all members are done; only from [Client.JobStats]
	AfterAll string // the same, however they end
}

// Attempt is a delivery that has failed.
type Attempt struct {
	Ended  time.Time
	How    string // released, timed-out, buried or refused
	Holder string // the name of the client that held the job, as far as that is known
	Reason string // its first 200 bytes
}

// parseStats reads a page of stats-job.
func parseStats(page []byte) *Stats {
	v := parseMap(page)
	s := &Stats{
		ID: v.uint("id"), Tube: v["tube"], State: v["state"], Priority: uint32(v.uint("pri")),
		TTR: v.seconds("ttr"), Age: v.seconds("age"), Left: v.seconds("time-left"),
		Deliveries: int(v.uint("reserves")), Failures: int(v.uint("releases") + v.uint("timeouts")),
		Buries: int(v.uint("buries")), Kicks: int(v.uint("kicks")),
		Key: v["key"], Group: v["group"], Held: v["held"], Retry: v["retry"], Max: int(v.uint("max")), Dead: v["dead"], Parked: v["parked"],
		FromTube: v["from-tube"], FromID: v.uint("from-id"),
		Trace: v["trace"], Reason: v["reason"], Failed: v.time("failed-ms"), Meta: parseFlow(v["meta"]),
		Schedule: v["schedule"], Nominal: v.time("nominal-ms"),
		Batch: v["batch"], After: v["after"], AfterAll: v["after-all"],
		Progress: v["progress"], CheckpointBytes: int(v.uint("checkpoint-bytes")),
	}
	s.FirstPut = v.time("first-put-ms")
	for n := 1; v[fmt.Sprint("attempt-", n)] != ""; n++ {
		a := values(parseFlow(v[fmt.Sprint("attempt-", n)]))
		s.Attempts = append(s.Attempts, Attempt{a.time("ended-ms"), a["how"], a["holder"], a["reason"]})
	}
	if _, ok := v["failures"]; ok { // since the job was kicked
		s.Failures, s.Deliveries = int(v.uint("failures")), int(v.uint("deliveries"))
	}
	if _, ok := v["due-ms"]; ok {
		s.Left = time.Duration(v.uint("due-ms")) * time.Millisecond
	}
	return s
}

// parseInfo reads the line of JSON that comes with a job.
func parseInfo(line []byte) (*Stats, error) {
	var in struct {
		Tube       string
		Pri        uint32
		TTR, Age   float64 // seconds
		Deliveries int
		Failures   int
		Key        string
		Group      string
		Meta       map[string]string
		Trace      string
		Reason     string
		Retry      string
		FailedMs   int64 `json:"failed-ms"`
		Batch      string
		Schedule   string
		NominalMs  int64 `json:"nominal-ms"`
		FirstPutMs int64 `json:"first-put-ms"`
		Attempts   []struct {
			EndedMs int64 `json:"ended-ms"`
			How     string
			Holder  string
			Reason  string
		}
		Checkpoint      []byte
		CheckpointBytes int `json:"checkpoint-bytes"`
	}
	if err := json.Unmarshal(line, &in); err != nil || in.Tube == "" { // the reservation has ended meanwhile
		return nil, err
	}
	s := &Stats{
		Tube: in.Tube, State: "reserved", Priority: in.Pri,
		TTR: time.Duration(in.TTR * float64(time.Second)), Age: time.Duration(in.Age * float64(time.Second)),
		Deliveries: in.Deliveries, Failures: in.Failures, Key: in.Key, Group: in.Group, Meta: in.Meta, Trace: in.Trace, Reason: in.Reason, Retry: in.Retry,
		Batch: in.Batch, Schedule: in.Schedule, CheckpointBytes: in.CheckpointBytes, checkpoint: in.Checkpoint,
	}
	if in.FailedMs != 0 {
		s.Failed = time.UnixMilli(in.FailedMs)
	}
	if in.FirstPutMs != 0 {
		s.FirstPut = time.UnixMilli(in.FirstPutMs)
	}
	for _, a := range in.Attempts {
		s.Attempts = append(s.Attempts, Attempt{time.UnixMilli(a.EndedMs), a.How, a.Holder, a.Reason})
	}
	if in.NominalMs != 0 {
		s.Nominal = time.UnixMilli(in.NominalMs)
	}
	return s, nil
}

// values is a dictionary of a page, without the quotes of values.
type values map[string]string

func (v values) uint(key string) uint64 {
	n, _ := strconv.ParseUint(v[key], 10, 64)
	return n
}

func (v values) seconds(key string) time.Duration {
	return time.Duration(v.uint(key)) * time.Second
}

func (v values) time(key string) time.Time {
	if v[key] == "" {
		return time.Time{}
	}
	return time.UnixMilli(int64(v.uint(key)))
}

// parseFlow reads a dictionary in one line, {a: "x", b: 1}; nil if there is none.
func parseFlow(text string) map[string]string {
	var all map[string]string
	for rest := strings.TrimPrefix(text, "{"); ; rest = strings.TrimPrefix(rest, ", ") {
		key, after, found := strings.Cut(rest, ": ")
		value, err := strconv.QuotedPrefix(after)
		if !found {
			return all
		}
		switch {
		case strings.HasPrefix(after, "{"):
			value = innerFlow(after)
		case err != nil:
			value = after[:strings.IndexAny(after+"}", ",}")]
		}
		if all == nil {
			all = map[string]string{}
		}
		all[key], rest = unquote(value), after[len(value):]
	}
}

// innerFlow returns the dictionary at the front of a text.
func innerFlow(text string) string {
	for i := 1; i < len(text); i++ {
		if quoted, err := strconv.QuotedPrefix(text[i:]); err == nil {
			i += len(quoted) - 1
		} else if text[i] == '}' {
			return text[:i+1]
		}
	}
	return text
}

func parseMap(page []byte) values {
	v := values{}
	for line := range strings.Lines(string(page)) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ": "); ok {
			v[key] = unquote(value)
		}
	}
	return v
}

func unquote(s string) string {
	if u, err := strconv.Unquote(s); err == nil {
		return u
	}
	return s
}
