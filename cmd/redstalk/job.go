package main

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// job is a job as it is shown, exported and imported: a line of JSON. Fields that the server does
// not report, or that have their default, are omitted.
type job struct {
	ID       uint64 `json:"id,omitempty"`
	Tube     string `json:"tube,omitempty"`
	State    string `json:"state,omitempty"`
	Lease    string `json:"lease,omitempty"`
	Priority uint32 `json:"priority"`
	TTR      uint32 `json:"ttr,omitempty"` // seconds
	Age      int64  `json:"age,omitempty"` // seconds
	At       int64  `json:"at,omitempty"`  // of a delayed job: when it is due, milliseconds since 1970
	Left     int64  `json:"left_ms,omitempty"`
	Delay    uint32 `json:"delay,omitempty"` // of a job that waits for a batch: seconds from the end of that until it is due
	Size     int    `json:"size,omitempty"`  // of the body, bytes

	Key         string   `json:"key,omitempty"`
	Group       string   `json:"group,omitempty"`
	Batch       string   `json:"batch,omitempty"`     // of which it is a member
	BatchTTL    string   `json:"batch_ttl,omitempty"` // how long that batch, or the one after which it runs, can stay unsealed
	After       string   `json:"after,omitempty"`     // the batch that must be done before
	AfterAll    string   `json:"after_all,omitempty"` // the batch that must have ended before
	Held        string   `json:"held,omitempty"`      // why a ready job cannot be reserved now, or a delayed one waits for a batch
	Schedule    string   `json:"schedule,omitempty"`  // that has put it; import ignores it
	OnDuplicate string   `json:"on_duplicate,omitempty"`
	KeyTTL      string   `json:"key_ttl,omitempty"`
	Retry       []string `json:"retry,omitempty"`
	Jitter      string   `json:"jitter,omitempty"` // per cent
	Max         uint32   `json:"max,omitempty"`
	Dead        string   `json:"dead,omitempty"`
	Expire      string   `json:"expire,omitempty"` // how much longer it is worth doing, from when it is due
	OnExpire    string   `json:"on_expire,omitempty"`
	Keep        string   `json:"keep,omitempty"` // how long its record is kept after its end
	Parked      string   `json:"parked,omitempty"`
	FromTube    string   `json:"from_tube,omitempty"`
	FromID      uint64   `json:"from_id,omitempty"`

	Meta   map[string]string `json:"meta,omitempty"`
	Trace  string            `json:"trace,omitempty"`
	Reason string            `json:"reason,omitempty"`    // of the last failure
	Failed int64             `json:"failed_ms,omitempty"` // when that was, milliseconds since 1970
	Holder string            `json:"holder,omitempty"`    // the name of the connection that has reserved it

	Progress        string `json:"progress,omitempty"`         // of its worker
	CheckpointBytes int    `json:"checkpoint_bytes,omitempty"` // size of what its worker has saved for the next one
	Checkpoint      []byte `json:"checkpoint,omitempty"`       // the same itself, of exported jobs

	Attempts []attempt `json:"attempts,omitempty"`     // its last deliveries that have failed, the newest first; import ignores them
	FirstPut int64     `json:"first_put_ms,omitempty"` // of a dead letter: when the first of these jobs was put, milliseconds since 1970; import ignores it

	Reserves uint32 `json:"reserves,omitempty"`
	Timeouts uint32 `json:"timeouts,omitempty"`
	Releases uint32 `json:"releases,omitempty"`
	Buries   uint32 `json:"buries,omitempty"`
	Kicks    uint32 `json:"kicks,omitempty"`

	// Body is the body if it is UTF-8, else BodyBase64 is.
	Body       *string `json:"body,omitempty"`
	BodyBase64 string  `json:"body_base64,omitempty"`
}

// attempt is a delivery that has failed.
type attempt struct {
	Ended  int64  `json:"ended_ms" yaml:"ended-ms"`
	How    string `json:"how"`
	Holder string `json:"holder,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// attemptsIn returns the attempts in a page of stats-job.
func attemptsIn(p client.Page) (all []attempt) {
	for n := 1; ; n++ {
		line, found := p.Value(fmt.Sprint("attempt-", n))
		if !found {
			return all
		}
		var a attempt
		if yaml.Unmarshal([]byte(line), &a) == nil {
			all = append(all, a)
		}
	}
}

func (j *job) setBody(body []byte) {
	if j.Size = len(body); utf8.Valid(body) {
		text := string(body)
		j.Body = &text
		return
	}
	j.BodyBase64 = base64.StdEncoding.EncodeToString(body)
}

// body returns the bytes of the body.
func (j *job) body() ([]byte, error) {
	if j.Body != nil && j.BodyBase64 != "" {
		return nil, fmt.Errorf("both body and body_base64 are given")
	}
	if j.Body != nil {
		return []byte(*j.Body), nil
	}
	body, err := base64.StdEncoding.DecodeString(j.BodyBase64)
	if err != nil {
		return nil, fmt.Errorf("body_base64: %w", err)
	}
	return body, nil
}

// readPage sets the fields from the page of stats-job.
func (j *job) readPage(p client.Page) {
	text := func(key string) string {
		value, _ := p.Value(key)
		return unquoted(value)
	}
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(text(key), 10, 64)
		return n
	}
	j.Tube, j.State = text("tube"), text("state")
	j.Priority, j.TTR, j.Age = uint32(number("pri")), uint32(number("ttr")), number("age")
	j.Reserves, j.Timeouts, j.Releases = uint32(number("reserves")), uint32(number("timeouts")), uint32(number("releases"))
	j.Buries, j.Kicks = uint32(number("buries")), uint32(number("kicks"))
	j.Key, j.Dead, j.Parked, j.Max = text("key"), text("dead"), text("parked"), uint32(number("max"))
	j.FromTube, j.FromID = text("from-tube"), uint64(number("from-id"))
	j.Group, j.Held, j.Schedule = text("group"), text("held"), text("schedule")
	j.Batch, j.After, j.AfterAll = text("batch"), text("after"), text("after-all")
	meta, _ := p.Value("meta")
	j.Meta, j.Trace, j.Reason, j.Failed = flowMap(meta), text("trace"), text("reason"), number("failed-ms")
	j.Attempts, j.FirstPut = attemptsIn(p), number("first-put-ms")
	j.Holder, j.Progress, j.CheckpointBytes = text("holder"), text("progress"), int(number("checkpoint-bytes"))
	if retry := text("retry"); retry != "" {
		j.Retry = strings.Split(retry, ",")
		if strings.HasPrefix(retry, "exp(") {
			j.Retry = []string{retry}
		}
	}
	j.Jitter, j.Keep = text("jitter"), text("keep")
	left := number("time-left") * 1000
	if _, exact := p.Value("due-ms"); exact {
		left = number("due-ms")
	}
	if j.waitsForBatch() {
		j.Delay = uint32(number("delay"))
	} else {
		j.setLeft(left, time.Now())
	}
	if expires, ok := p.Value("expires-ms"); ok {
		j.setExpiry(expires, text("on-expire"))
	}
}

// waitsForBatch reports whether the job is delayed until a batch has ended.
func (j *job) waitsForBatch() bool { return j.State == "delayed" && j.After+j.AfterAll != "" }

// setExpiry sets when the job expires from the milliseconds until then. A buried job whose time is
// over never expires.
func (j *job) setExpiry(expires, action string) {
	ms, _ := strconv.ParseInt(expires, 10, 64)
	switch {
	case j.State == "buried" && ms <= 0:
		return
	case j.State == "delayed":
		ms -= j.Left
	}
	j.Expire, j.OnExpire = fmt.Sprintf("%dms", max(ms, 1)), action
}

// setLeft sets the milliseconds from now until the job is due or its TTR ends.
func (j *job) setLeft(left int64, now time.Time) {
	switch j.State {
	case "delayed":
		j.At = now.UnixMilli() + left
		j.Left = left
	case "reserved":
		j.Left = left
	}
}

// tags returns the job's tags in the form of put. beanstalkd has none of them.
func (j *job) tags() ([]string, error) {
	values := map[string]string{
		"key": j.Key, "group": j.Group, "on-duplicate": j.OnDuplicate, "key-ttl": j.KeyTTL,
		"retry": strings.Join(j.Retry, ","), "jitter": j.Jitter, "max": optional(j.Max), "dead": j.Dead, "trace": j.Trace,
		"expire": j.Expire, "on-expire": j.OnExpire, "keep": j.Keep, "batch": j.Batch, "batch-ttl": j.BatchTTL, "after": j.After, "after-all": j.AfterAll,
	}
	words, err := tagWords(func(name string) string { return values[name] })
	for _, name := range slices.Sorted(maps.Keys(j.Meta)) {
		words = append(words, metaWord(name, j.Meta[name]))
	}
	return words, err
}

// metaWord returns the tag meta.
func metaWord(name, value string) string { return "meta:" + name + "=" + protocol.Quote(value) }

// tagWords returns the tags of a put in its form. value returns "" for a tag that is not set.
func tagWords(value func(name string) string) (words []string, err error) {
	for _, tag := range plainTags() {
		text := value(tag.Name)
		if text == "" {
			continue
		}
		if tag.Name == "group" {
			if !protocol.ValidGroup(text) {
				return nil, fmt.Errorf("group is %q, not 1 to %d bytes of UTF-8 without control characters", text, protocol.MaxGroup)
			}
			words = append(words, tag.Name+":"+protocol.Quote(text))
			continue
		}
		if err := checkWord(tag.Name, text); err != nil {
			return nil, err
		}
		words = append(words, tag.Name+":"+text)
	}
	return words, nil
}

func optional(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// maxDueTime is the latest due time that redstalkd accepts.
var maxDueTime = time.UnixMilli(1<<63/1_000_000 - 1)

// delayAt returns the delay from now until a due time in milliseconds since 1970, limited to
// what a put can express.
func delayAt(at int64, now time.Time) time.Duration {
	return min(max(0, time.UnixMilli(at).Sub(now)), math.MaxUint32*time.Second)
}

// appendPut appends a put. The delay is rounded up to seconds; a tag can give it exactly.
func appendPut(out []byte, pri uint32, delay time.Duration, ttr int64, body []byte, tags []string) []byte {
	out = fmt.Appendf(out, "put %d %d %d %d", pri, wholeSeconds(delay), ttr, len(body))
	for _, tag := range tags {
		out = append(append(out, ' '), tag...)
	}
	out = append(append(out, "\r\n"...), body...)
	return append(out, "\r\n"...)
}
