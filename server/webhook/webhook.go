package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"redstalk/tube"
)

// errPanic is the error of a call in which a source panicked.
var errPanic = errors.New("the call has panicked")

// callJob calls a job and returns the outcome.
func (d *Dispatcher) callJob(ctx context.Context, sub *subscription, j *Job) (result Outcome) {
	if sub.source == nil {
		return d.webhook(ctx, sub, j)
	}
	defer func() {
		if p := recover(); p != nil {
			result = Outcome{Result: Failed, Err: fmt.Errorf("%w: %v", errPanic, p)}
		}
	}()
	result = sub.source.Call(ctx, j)
	if d.calling.Err() != nil && (result.Verdict == Fail || result.Verdict == Later) {
		return Outcome{Verdict: GiveBack, Result: Skipped} // the call was cut off
	}
	return result
}

// webhook sends a job to the URL of its tube's policy.
func (d *Dispatcher) webhook(ctx context.Context, sub *subscription, j *Job) Outcome {
	answer, cut, err := d.client.sendKeeping(d.request(ctx, sub, j, time.Now()), j.keeps())
	if err == nil {
		outcome := outcomeOf(answer, time.Now())
		d.saveCheckpoint(ctx, answer, j, &outcome)
		if outcome.Verdict == Done && j.keeps() {
			outcome.Answer = d.resultIn(answer, cut, j)
		}
		return outcome
	}
	if d.calling.Err() != nil {
		return Outcome{Verdict: GiveBack, Result: Skipped}
	}
	return Outcome{Result: resultOf(err), Err: err}
}

// resultIn returns the result of a job: the body of the answer, unless that was cut.
func (d *Dispatcher) resultIn(answer *http.Response, cut bool, j *Job) []byte {
	if cut {
		d.cutLog.Warn(d.config.Log, "the answer of a push target is longer than a result can be, or was too slow: its job is done without a result", "job", j.ID, "tube", j.Tube)
		return nil
	}
	result, _ := io.ReadAll(answer.Body) // it is in memory
	return result
}

// errStatus is the error of a call whose answer has a status other than 2xx.
var errStatus = errors.New("the answer is not a success")

// outcomeOf returns what happens to a job after an answer.
func outcomeOf(answer *http.Response, now time.Time) Outcome {
	status := answer.StatusCode
	if status >= 200 && status < 300 {
		return Outcome{Verdict: Done, Result: Delivered}
	}
	err, reason := fmt.Errorf("%w: status %d", errStatus, status), reasonIn(answer)
	switch {
	case status == http.StatusGone:
		return Outcome{Verdict: Park, Result: Gone, Err: err, Reason: reason}
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		if wait := retryIn(answer.Header.Get("Retry-After"), now); wait > 0 {
			return Outcome{Verdict: Later, Delay: wait, Result: Postponed, Err: err, Reason: reason}
		}
	}
	return Outcome{Result: Failed, Err: err, Reason: reason}
}

// reasonIn returns why a call has failed, as far as the body of the answer says it.
func reasonIn(answer *http.Response) string {
	head, _ := io.ReadAll(io.LimitReader(answer.Body, maxHead))
	return strings.ToValidUTF8(string(head), "")
}

// retryIn parses a Retry-After header (RFC 9110, section 10.2.3): seconds or a date. It
// returns 0 if there is none, or none in the future.
func retryIn(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if n, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(n, uint64(longestDelay/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), longestDelay)
	}
	return 0
}

// maxJSON limits the bodies that are checked for JSON, in bytes.
const maxJSON = 1 << 20

func (d *Dispatcher) request(ctx context.Context, sub *subscription, j *Job, now time.Time) *http.Request {
	id, unix := strconv.FormatUint(j.ID, 10)+"-"+strconv.FormatUint(uint64(j.Deliveries), 10), now.Unix()
	h := http.Header{
		"Content-Type":      {contentType(j.Body)},
		"User-Agent":        {d.userAgent()},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {strconv.FormatInt(unix, 10)},
	}
	if signature := sign(d.secrets.Load().keys(j.Tube), id, unix, j.Body); signature != "" {
		h["Webhook-Signature"] = []string{signature}
	}
	j.addMetadata(h, now)
	d.addCheckpoint(ctx, h, j)
	req := &http.Request{
		Method: http.MethodPost, URL: sub.url, Host: sub.url.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody, ContentLength: int64(len(j.Body)),
	}
	if len(j.Body) > 0 {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(j.Body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req.WithContext(ctx)
}

func (d *Dispatcher) userAgent() string {
	if d.config.Version == "" {
		return "redstalk"
	}
	return "redstalk/" + d.config.Version
}

// contentType returns application/json for JSON objects and arrays, and
// application/octet-stream for everything else.
func contentType(body []byte) string {
	text := bytes.TrimLeft(body, " \t\r\n")
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') && len(body) <= maxJSON && json.Valid(body) {
		return "application/json"
	}
	return "application/octet-stream"
}

// addMetadata adds the metadata of a job as headers. The names are in the canonical form of
// net/http.
func (j *Job) addMetadata(h http.Header, now time.Time) {
	number := func(name string, n uint64) { h[name] = []string{strconv.FormatUint(n, 10)} }
	number("Redstalk-Job", j.ID)
	h["Redstalk-Tube"] = []string{j.Tube}
	number("Redstalk-Delivery", uint64(j.Deliveries))
	number("Redstalk-Failures", uint64(j.Failures))
	number("Redstalk-Priority", uint64(j.Pri))
	number("Redstalk-Age-Ms", uint64(max(j.Age, 0).Milliseconds()))
	number("Redstalk-Time-Left-Ms", uint64(max(j.Deadline.Sub(now), 0).Milliseconds()))
	if j.Key != "" {
		h["Redstalk-Key"] = []string{j.Key}
	}
	if j.Group != "" {
		h["Redstalk-Group"] = []string{lineEnds.Replace(j.Group)}
	}
	if j.FromTube != "" {
		h["Redstalk-From-Tube"] = []string{j.FromTube}
		number("Redstalk-From-Job", j.FromID)
	}
	if o := j.Occurrence; o != nil {
		h["Redstalk-Schedule"] = []string{o.Schedule}
		number("Redstalk-Nominal-Ms", uint64(o.Nominal)/uint64(time.Millisecond))
	}
	if j.Notes != nil {
		addNotes(h, j.Notes)
	}
}

// addNotes adds the trace and the meta of a job as headers. Line ends in values become spaces.
func addNotes(h http.Header, n *tube.Notes) {
	if n.Trace != "" {
		h["Traceparent"] = []string{n.Trace}
	}
	for _, m := range n.Meta {
		h[http.CanonicalHeaderKey("Redstalk-Meta-"+m.Name)] = []string{lineEnds.Replace(m.Value)}
	}
}

var lineEnds = strings.NewReplacer("\n", " ")
