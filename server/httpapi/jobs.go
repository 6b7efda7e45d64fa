package httpapi

import (
	"context"
	"encoding/base64"
	"math"
	"time"
	"unicode/utf8"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// JobInfo is what is known of a job.
type JobInfo struct {
	ID         uint64     `json:"id"`
	Tube       string     `json:"tube"`
	State      string     `json:"state" enum:"ready,delayed,reserved,buried"`
	Priority   uint32     `json:"priority"`
	Delay      uint32     `json:"delay" doc:"seconds, as last set"`
	TTR        uint32     `json:"ttr" doc:"seconds"`
	Age        int64      `json:"age" doc:"seconds since the put"`
	Due        int64      `json:"due_ms" doc:"until a delayed job is ready, or the TTR of a reserved one ends; 0 in other states"`
	Size       int        `json:"size" doc:"of the body, in bytes"`
	Reserves   uint32     `json:"reserves"`
	Timeouts   uint32     `json:"timeouts"`
	Releases   uint32     `json:"releases"`
	Buries     uint32     `json:"buries"`
	Kicks      uint32     `json:"kicks"`
	Failures   uint32     `json:"failures" doc:"since it was put, or kicked when it was parked"`
	Deliveries uint32     `json:"deliveries" doc:"since it was put, or kicked when it was parked"`
	Leased     bool       `json:"leased,omitempty" doc:"it is reserved by a lease"`
	Key        string     `json:"key,omitempty"`
	Retry      []duration `json:"retry,omitempty" nullable:"false"`
	Max        uint32     `json:"max,omitempty"`
	Dead       string     `json:"dead,omitempty"`
	Parked     string     `json:"parked,omitempty" enum:"retries,deliveries" doc:"why it was buried, if it was not by a worker"`
	FromTube   string     `json:"from_tube,omitempty" doc:"of a job in a dead-letter tube: where it was"`
	FromID     uint64     `json:"from_id,omitempty"`
	Excerpt    string     `json:"excerpt,omitempty" doc:"a part of the body, where that is asked for"`
}

// jobWithBody is a job and its body.
type jobWithBody struct {
	JobInfo
	Body   *string `json:"body,omitempty" doc:"if it is UTF-8"`
	Base64 string  `json:"body_base64,omitempty" doc:"if it is not" format:"base64"`
}

// infoOf returns what is known of a job.
func infoOf(s *tube.JobStats) JobInfo {
	f := metadataOf(s)
	info := JobInfo{
		ID: s.ID, Tube: s.Tube, State: s.State.String(), Priority: s.Pri, Delay: s.Delay, TTR: s.TTR,
		Age: int64(s.Age / time.Second), Due: int64(s.TimeLeft / time.Millisecond), Size: s.Size,
		Reserves: s.Counters[tube.Reserves], Timeouts: s.Counters[tube.Timeouts], Releases: s.Counters[tube.Releases],
		Buries: s.Counters[tube.Buries], Kicks: s.Counters[tube.Kicks],
		Failures: f.Failures(&s.Counters), Deliveries: f.Deliveries(&s.Counters),
		Leased: s.Leased, Key: f.Key, Max: s.Rules.Max, Dead: s.Rules.Dead, Parked: f.Parked.String(),
		FromTube: f.FromTube, FromID: f.FromID,
	}
	for _, wait := range s.Rules.Retry {
		info.Retry = append(info.Retry, duration(wait))
	}
	return info
}

// withBody adds the body of a job.
func withBody(s *tube.JobStats, body []byte) jobWithBody {
	j := jobWithBody{JobInfo: infoOf(s)}
	j.Size = len(body)
	if utf8.Valid(body) {
		text := string(body)
		j.Body = &text
	} else {
		j.Base64 = base64.StdEncoding.EncodeToString(body)
	}
	return j
}

type jobOutput struct{ Body jobWithBody }

func (d *Door) job(ctx context.Context, in *JobPath) (*jobOutput, error) {
	answers, err := d.queue.Do(ctx, storage.Op{Kind: storage.JobStats, ID: in.ID}, storage.Op{Kind: storage.Peek, ID: in.ID})
	if err != nil {
		return nil, err
	}
	for i := range answers {
		if err := answerError(&answers[i]); err != nil {
			return nil, err
		}
	}
	return &jobOutput{withBody(answers[0].Job, answers[1].Body)}, nil
}

// answerError is the error that an answer of a store means.
func answerError(a *storage.Answer) error {
	if a.Err == nil && a.NotFound {
		return queue.ErrNotFound
	}
	return a.Err
}

// keyPath is the key in a path.
type keyPath struct {
	TubePath
	Key string `path:"key" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
}

func (d *Door) jobByKey(ctx context.Context, in *keyPath) (*jobOutput, error) {
	job, err := d.queue.PeekKey(ctx, in.Tube, in.Key)
	if err != nil {
		return nil, err
	}
	return d.job(ctx, &JobPath{job.ID})
}

func (d *Door) deleteByKey(ctx context.Context, in *keyPath) (*noOutput, error) {
	return nil, d.queue.DeleteKey(ctx, in.Tube, in.Key)
}

func (d *Door) kickJob(ctx context.Context, in *JobPath) (*noOutput, error) {
	return nil, d.queue.KickJob(ctx, in.ID)
}

type rescheduleInput struct {
	JobPath
	In string `query:"in" required:"true" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"how long until the job is ready" example:"10m"`
}

func (d *Door) reschedule(ctx context.Context, in *rescheduleInput) (*noOutput, error) {
	wait, err := parseDuration(in.In)
	if err != nil {
		return nil, invalid("in: %v", err)
	}
	return nil, d.do(ctx, storage.Op{Kind: storage.Reschedule, ID: in.ID, In: time.Duration(wait)})
}

type priorityInput struct {
	JobPath
	Priority uint64 `query:"priority" required:"true" maximum:"4294967295"`
}

func (d *Door) setPriority(ctx context.Context, in *priorityInput) (*noOutput, error) {
	return nil, d.do(ctx, storage.Op{Kind: storage.SetPriority, ID: in.ID, Pri: uint32(in.Priority)})
}

// do carries out an operation whose answer says nothing.
func (d *Door) do(ctx context.Context, op storage.Op) error {
	answers, err := d.queue.Do(ctx, op)
	if err != nil {
		return err
	}
	return answerError(&answers[0])
}

// parseSeconds reads a duration of whole seconds, where the protocol has no others.
func parseSeconds(name, word string) (uint32, error) {
	d, ok := protocol.ParseDuration(word)
	if !ok || d%time.Second != 0 || d/time.Second > math.MaxUint32 {
		return 0, invalid("%s: %q is not a duration of whole seconds", name, word)
	}
	return uint32(d / time.Second), nil
}
