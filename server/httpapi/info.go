package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"time"
	"unicode/utf8"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file has the descriptions of jobs and tubes in answers.

// JobInfo describes a job.
type JobInfo struct {
	ID         uint64  `json:"id"`
	Tube       string  `json:"tube"`
	State      string  `json:"state" enum:"ready,delayed,reserved,buried"`
	Priority   uint32  `json:"priority"`
	Delay      uint32  `json:"delay" doc:"seconds, as last set"`
	TTR        uint32  `json:"ttr" doc:"seconds"`
	Age        int64   `json:"age" doc:"seconds since the put"`
	Put        int64   `json:"put_ms" doc:"when that was, in milliseconds since the Unix epoch"`
	Due        int64   `json:"due_ms" doc:"time until a delayed job is ready, or until the TTR of a reserved job ends; 0 in other states"`
	Size       int     `json:"size" doc:"bytes of the body"`
	Reserves   uint32  `json:"reserves"`
	Timeouts   uint32  `json:"timeouts"`
	Releases   uint32  `json:"releases"`
	Buries     uint32  `json:"buries"`
	Kicks      uint32  `json:"kicks"`
	Failures   uint32  `json:"failures" doc:"since the put, or since it was parked and kicked"`
	Deliveries uint32  `json:"deliveries" doc:"since the put, or since it was parked and kicked"`
	Leased     bool    `json:"leased,omitempty" doc:"reserved with a lease"`
	Key        string  `json:"key,omitempty"`
	Group      string  `json:"group,omitempty"`
	Held       string  `json:"held,omitempty" enum:"paused,concurrency,rate,batch" doc:"why a ready job cannot be reserved now: its group is paused, or a limit of the group or the tube; batch: a delayed job runs after a batch"`
	Retry      retries `json:"retry,omitzero"`
	Jitter     uint8   `json:"jitter,omitempty" doc:"by how many per cent each delay is spread"`
	Max        uint32  `json:"max,omitempty"`
	Dead       string  `json:"dead,omitempty"`
	Parked     string  `json:"parked,omitempty" enum:"retries,deliveries,refused,expired,batch-failed,batch-unsealed" doc:"why the server buried it; missing if a worker did"`
	FromTube   string  `json:"from_tube,omitempty" doc:"for a job in a dead-letter tube: the tube it came from"`
	FromID     uint64  `json:"from_id,omitempty"`
	Expires    *int64  `json:"expires_ms,omitempty" doc:"time until it expires"`
	OnExpire   string  `json:"on_expire,omitempty" enum:"delete,park"`

	Batch    string `json:"batch,omitempty" doc:"the batch of which it is a member"`
	After    string `json:"after,omitempty" doc:"the batch after which it runs"`
	AfterAll string `json:"after_all,omitempty" doc:"the batch after which it runs, even if members are parked or gone"`

	AfterReplay *RuleOptions `json:"after_replay,omitempty" doc:"for a job in a dead-letter tube: its rules when it is back"`

	Progress        string `json:"progress,omitempty" doc:"how far its worker is, as that has said it last"`
	CheckpointBytes int    `json:"checkpoint_bytes,omitempty" doc:"size of the checkpoint that its worker has saved"`

	NotesInfo
	Excerpt string `json:"excerpt,omitempty" doc:"a part of the body, if requested"`
	Hidden  bool   `json:"hidden,omitempty" doc:"the user lacks the right read, so body, meta, progress and reasons are left out"`
}

// NotesInfo is what a job says to people and workers. It is exported so that the OpenAPI document has its fields.
type NotesInfo struct {
	Meta     map[string]string `json:"meta,omitempty" doc:"what the job was put with"`
	Trace    string            `json:"trace,omitempty" doc:"the W3C traceparent that it was put with"`
	Schedule string            `json:"schedule,omitempty" doc:"the schedule that has put it"`
	Nominal  int64             `json:"nominal_ms,omitempty" doc:"the time of the schedule for which that was, in milliseconds since the Unix epoch"`
	Reason   string            `json:"reason,omitempty" doc:"why it failed or was buried the last time that a reason was given"`
	FailedMs int64             `json:"failed_ms,omitempty" doc:"when that was, in milliseconds since the Unix epoch"`

	Attempts []AttemptInfo `json:"attempts,omitempty" doc:"its last deliveries that have failed, at most five, the newest first"`
	FirstPut int64         `json:"first_put_ms,omitempty" doc:"of a dead letter, and of what became of it: when the first of these jobs was put, in milliseconds since the Unix epoch"`
}

// AttemptInfo is a delivery that has failed. It is exported for the same reason.
type AttemptInfo struct {
	Ended  int64  `json:"ended_ms" doc:"when it ended, in milliseconds since the Unix epoch"`
	How    string `json:"how" enum:"released,timed-out,buried,refused"`
	Holder string `json:"holder,omitempty" doc:"who held the job, if that is known"`
	Reason string `json:"reason,omitempty" doc:"the first 200 bytes of the reason"`
}

func notesOf(f *tube.Metadata) (info NotesInfo) {
	n := f.AllNotes()
	if n.Meta != nil {
		info.Meta = make(map[string]string, len(n.Meta))
	}
	for _, m := range n.Meta {
		info.Meta[m.Name] = m.Value
	}
	if f != nil && f.Occurrence != nil {
		info.Schedule, info.Nominal = f.Occurrence.Schedule, msOf(f.Occurrence.Nominal)
	}
	info.Trace, info.Reason, info.FailedMs = n.Trace, n.Reason, int64(n.FailedAt)/int64(time.Millisecond)
	for _, a := range n.Attempts {
		info.Attempts = append(info.Attempts, AttemptInfo{msOf(a.At), a.How.String(), a.Holder, a.Reason})
	}
	info.FirstPut = msOf(n.FirstPut)
	return info
}

// jobWithBody describes a job and has its body.
type jobWithBody struct {
	JobInfo
	Body   *string `json:"body,omitempty" doc:"if it is UTF-8"`
	Base64 string  `json:"body_base64,omitempty" doc:"if it is not" format:"base64"`

	Redacted bool `json:"redacted,omitempty" doc:"values of the body are hidden, since the user lacks the right admin"`

	Holder *holderInfo `json:"holder,omitempty" doc:"who holds a reserved job"`
}

// infoOf returns the description of a job for the user of a request.
func infoOf(ctx context.Context, s *tube.JobStats) JobInfo {
	view := access.SightIn(ctx, s.Tube)
	info := fullInfoOf(view.Job(s))
	info.Hidden = !view.SeesContent()
	return info
}

// fullInfoOf returns the description of a job, with all that s says.
func fullInfoOf(s *tube.JobStats) JobInfo {
	f := metadataOf(s)
	info := JobInfo{
		ID: s.ID, Tube: s.Tube, State: s.State.String(), Priority: s.Pri, Delay: s.Delay, TTR: s.TTR,
		Age: int64(s.Age / time.Second), Put: msOf(s.Created), Due: int64(s.TimeLeft / time.Millisecond), Size: s.Size,
		Reserves: s.Counters[tube.Reserves], Timeouts: s.Counters[tube.Timeouts], Releases: s.Counters[tube.Releases],
		Buries: s.Counters[tube.Buries], Kicks: s.Counters[tube.Kicks],
		Failures: f.Failures(&s.Counters), Deliveries: f.Deliveries(&s.Counters),
		Leased: s.Leased, Key: f.Key, Group: f.Group, Held: s.Held.String(), Max: s.Rules.Max, Dead: s.Rules.Dead, Parked: f.Parked.String(),
		FromTube: f.FromTube, FromID: f.FromID, NotesInfo: notesOf(f), Retry: retriesOf(&s.Rules), Jitter: s.Rules.Percent(),
	}
	info.Progress, info.CheckpointBytes = f.Progress, f.CheckpointSize()
	if s.Home() != "" {
		own := ruleOptions.of(&tube.Policy{Rules: f.Rules})
		info.AfterReplay = &own
	}
	if info.Batch = f.Batch; f.AfterAll {
		info.AfterAll = f.After
	} else {
		info.After = f.After
	}
	if f.Expires != 0 {
		left := s.ExpiresIn().Milliseconds()
		info.Expires, info.OnExpire = &left, field.OnExpireWords[max(s.Rules.OnExpire, tube.ExpireDelete)]
	}
	return info
}

// withBody returns the description of a job with its body for the user of a request.
func withBody(ctx context.Context, s *tube.JobStats, body []byte) jobWithBody {
	j := jobWithBody{JobInfo: infoOf(ctx, s)}
	if j.Size = len(body); !j.Hidden {
		shown := access.SightIn(ctx, s.Tube).Body(body)
		j.Redacted = !bytes.Equal(shown, body)
		j.Body, j.Base64 = textOrBase64(shown)
	}
	return j
}

// textOrBase64 returns bytes as text if they are UTF-8, else as base64.
func textOrBase64(data []byte) (text *string, base string) {
	if utf8.Valid(data) {
		valid := string(data)
		return &valid, ""
	}
	return nil, base64.StdEncoding.EncodeToString(data)
}

// metadataOf returns the metadata of a job, or empty metadata if it has none.
func metadataOf(s *tube.JobStats) *tube.Metadata {
	if s.Metadata == nil {
		return new(tube.Metadata)
	}
	return s.Metadata
}

// tubeInfo describes a tube.
type tubeInfo struct {
	Name      string `json:"name"`
	Ready     uint64 `json:"ready"`
	Urgent    uint64 `json:"urgent" doc:"ready jobs with a priority below 1024"`
	Reserved  uint64 `json:"reserved"`
	Delayed   uint64 `json:"delayed"`
	Buried    uint64 `json:"buried"`
	Total     uint64 `json:"total" doc:"jobs put so far"`
	Deletes   uint64 `json:"deletes"`
	Pauses    uint64 `json:"pauses"`
	Pause     uint32 `json:"pause" doc:"the length of the current pause in seconds; 0 if there is none"`
	PauseLeft int64  `json:"pause_left_ms"`
	Using     uint64 `json:"using" doc:"connections to the beanstalk port"`
	Watching  uint64 `json:"watching" doc:"connections to the beanstalk port"`
	Expired   uint64 `json:"expired" doc:"jobs whose time was over"`
	Waiting   uint64 `json:"waiting" doc:"waiting reserves, over any protocol"`
}

func tubeInfoOf(s *tube.TubeStats) tubeInfo {
	return tubeInfo{
		Name: s.Name, Ready: s.Ready, Urgent: s.Urgent, Reserved: s.Reserved, Delayed: s.Delayed, Buried: s.Buried,
		Total: s.Total, Deletes: s.Deletes, Pauses: s.Pauses, Pause: s.Pause, PauseLeft: int64(s.PauseLeft / time.Millisecond),
		Using: s.Using, Watching: s.Watching, Waiting: s.Waiting, Expired: s.Expired,
	}
}

// tubesPerCall is how many tubes are read with one call of the store.
const tubesPerCall = 100

// tubeStats returns the statistics of tubes. Tubes that do not exist are left out.
func tubeStats(ctx context.Context, q *queue.Queue, names []string) (all []*tube.TubeStats, err error) {
	for some := range slices.Chunk(names, tubesPerCall) {
		ops := make([]storage.Op, len(some))
		for i, name := range some {
			ops[i] = storage.Op{Kind: storage.TubeStats, Tube: name}
		}
		answers, err := q.Do(ctx, ops...)
		if err != nil {
			return nil, err
		}
		for i := range answers {
			switch a := &answers[i]; {
			case a.Err != nil:
				return nil, a.Err
			case !a.NotFound:
				all = append(all, q.TubeStatsWith(a.TubeStats))
			}
		}
	}
	return all, nil
}

// visible returns the tubes whose jobs the user of a request may list.
func visible(ctx context.Context, names []string) []string {
	if u := access.UserIn(ctx); u != nil {
		return slices.Clone(u.Visible(names, access.List))
	}
	return names
}

// visibleTo returns the tubes whose jobs a user may list.
func visibleTo(u *access.User, names []string) []string {
	if u == nil {
		return names
	}
	return u.Visible(names, access.List)
}
