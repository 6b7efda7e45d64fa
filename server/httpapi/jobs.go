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

// JobInfo describes a job.
type JobInfo struct {
	ID         uint64     `json:"id"`
	Tube       string     `json:"tube"`
	State      string     `json:"state" enum:"ready,delayed,reserved,buried"`
	Priority   uint32     `json:"priority"`
	Delay      uint32     `json:"delay" doc:"seconds, as last set"`
	TTR        uint32     `json:"ttr" doc:"seconds"`
	Age        int64      `json:"age" doc:"seconds since the put"`
	Due        int64      `json:"due_ms" doc:"time until a delayed job is ready, or until the TTR of a reserved job ends; 0 in other states"`
	Size       int        `json:"size" doc:"bytes of the body"`
	Reserves   uint32     `json:"reserves"`
	Timeouts   uint32     `json:"timeouts"`
	Releases   uint32     `json:"releases"`
	Buries     uint32     `json:"buries"`
	Kicks      uint32     `json:"kicks"`
	Failures   uint32     `json:"failures" doc:"since the put, or since it was parked and kicked"`
	Deliveries uint32     `json:"deliveries" doc:"since the put, or since it was parked and kicked"`
	Leased     bool       `json:"leased,omitempty" doc:"reserved with a lease"`
	Key        string     `json:"key,omitempty"`
	Retry      []duration `json:"retry,omitempty" nullable:"false"`
	Max        uint32     `json:"max,omitempty"`
	Dead       string     `json:"dead,omitempty"`
	Parked     string     `json:"parked,omitempty" enum:"retries,deliveries" doc:"why the server buried it; missing if a worker did"`
	FromTube   string     `json:"from_tube,omitempty" doc:"for a job in a dead-letter tube: the tube it came from"`
	FromID     uint64     `json:"from_id,omitempty"`
	Excerpt    string     `json:"excerpt,omitempty" doc:"a part of the body, if requested"`
}

// jobWithBody describes a job and has its body.
type jobWithBody struct {
	JobInfo
	Body   *string `json:"body,omitempty" doc:"if it is UTF-8"`
	Base64 string  `json:"body_base64,omitempty" doc:"if it is not" format:"base64"`
}

// infoOf returns the description of a job.
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

// withBody returns the description of a job with its body.
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

func (api *API) job(ctx context.Context, in *JobPath) (*jobOutput, error) {
	answers, err := api.queue.Do(ctx, storage.Op{Kind: storage.JobStats, ID: in.ID}, storage.Op{Kind: storage.Peek, ID: in.ID})
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

// answerError returns the error of an answer of a store.
func answerError(a *storage.Answer) error {
	if a.Err == nil && a.NotFound {
		return queue.ErrNotFound
	}
	return a.Err
}

// keyPath is a tube and a key in a path.
type keyPath struct {
	TubePath
	Key string `path:"key" minLength:"1" maxLength:"128" pattern:"^[!-~]+$"`
}

func (api *API) jobByKey(ctx context.Context, in *keyPath) (*jobOutput, error) {
	job, err := api.queue.PeekKey(ctx, in.Tube, in.Key)
	if err != nil {
		return nil, err
	}
	return api.job(ctx, &JobPath{job.ID})
}

func (api *API) deleteByKey(ctx context.Context, in *keyPath) (*noOutput, error) {
	return nil, api.queue.DeleteKey(ctx, in.Tube, in.Key)
}

func (api *API) kickJob(ctx context.Context, in *JobPath) (*noOutput, error) {
	return nil, api.queue.KickJob(ctx, in.ID)
}

type rescheduleInput struct {
	JobPath
	In string `query:"in" required:"true" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"time until the job is ready" example:"10m"`
}

func (api *API) reschedule(ctx context.Context, in *rescheduleInput) (*noOutput, error) {
	wait, err := parseDuration(in.In)
	if err != nil {
		return nil, invalid("in: %v", err)
	}
	return nil, api.do(ctx, storage.Op{Kind: storage.Reschedule, ID: in.ID, In: time.Duration(wait)})
}

type priorityInput struct {
	JobPath
	Priority uint64 `query:"priority" required:"true" maximum:"4294967295"`
}

func (api *API) setPriority(ctx context.Context, in *priorityInput) (*noOutput, error) {
	return nil, api.do(ctx, storage.Op{Kind: storage.SetPriority, ID: in.ID, Pri: uint32(in.Priority)})
}

// do executes an operation whose answer has only an error.
func (api *API) do(ctx context.Context, op storage.Op) error {
	answers, err := api.queue.Do(ctx, op)
	if err != nil {
		return err
	}
	return answerError(&answers[0])
}

// parseSeconds parses a duration of whole seconds, for fields that the beanstalk protocol has
// in seconds only.
func parseSeconds(name, word string) (uint32, error) {
	d, ok := protocol.ParseDuration(word)
	if !ok || d%time.Second != 0 || d/time.Second > math.MaxUint32 {
		return 0, invalid("%s: %q is not a duration in whole seconds", name, word)
	}
	return uint32(d / time.Second), nil
}
