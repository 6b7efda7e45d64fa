package httpapi

import (
	"context"
	"slices"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

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
	Waiting   uint64 `json:"waiting" doc:"waiting reserves, over any protocol"`
}

func tubeInfoOf(s *tube.TubeStats) tubeInfo {
	return tubeInfo{
		Name: s.Name, Ready: s.Ready, Urgent: s.Urgent, Reserved: s.Reserved, Delayed: s.Delayed, Buried: s.Buried,
		Total: s.Total, Deletes: s.Deletes, Pauses: s.Pauses, Pause: s.Pause, PauseLeft: int64(s.PauseLeft / time.Millisecond),
		Using: s.Using, Watching: s.Watching, Waiting: s.Waiting,
	}
}

type tubesInput struct {
	Cursor string `query:"cursor" maxLength:"200" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

type tubesOutput struct{ Body tubesPage }

// tubesPage is a page of tubes.
type tubesPage struct {
	Tubes []tubeInfo `json:"tubes" nullable:"false"`
	Next  string     `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (api *API) tubes(ctx context.Context, in *tubesInput) (*tubesOutput, error) {
	names, err := api.queue.Tubes(ctx)
	if err != nil {
		return nil, err
	}
	names = visible(ctx, names)
	slices.Sort(names)
	page := tubesPage{Tubes: []tubeInfo{}}
	from, found := slices.BinarySearch(names, in.Cursor)
	if found {
		from++
	}
	names = names[from:]
	if limit := int(in.Limit); len(names) > limit {
		names = names[:limit]
		page.Next = names[limit-1]
	}
	all, err := tubeStats(ctx, api.queue, names)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		page.Tubes = append(page.Tubes, tubeInfoOf(s))
	}
	return &tubesOutput{page}, nil
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

type tubeOutput struct{ Body tubeInfo }

func (api *API) tube(ctx context.Context, in *TubePath) (*tubeOutput, error) {
	s, err := api.queue.TubeStats(ctx, in.Tube)
	if err != nil {
		return nil, err
	}
	return &tubeOutput{tubeInfoOf(s)}, nil
}

// stateNames maps the values of the parameter state to states.
var stateNames = map[string]tube.State{"": tube.Gone, "ready": tube.Ready, "reserved": tube.Reserved, "delayed": tube.Delayed, "buried": tube.Buried}

type jobsInput struct {
	TubePath
	State  string `query:"state" required:"true" enum:"ready,reserved,delayed,buried"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"100"`

	Excerpt bool `query:"excerpt" doc:"include the beginnings of the bodies, up to a limit for all bodies together"`
}

type jobsOutput struct{ Body jobsPage }

// jobsPage is a page of jobs of a tube.
type jobsPage struct {
	Jobs []JobInfo `json:"jobs" nullable:"false"`
	Next string    `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (api *API) jobs(ctx context.Context, in *jobsInput) (*jobsOutput, error) {
	found, next, err := api.queue.ListJobs(ctx, in.Tube, stateNames[in.State], uint32(in.Limit), in.Cursor)
	if err != nil {
		return nil, err
	}
	page := jobsPage{Jobs: make([]JobInfo, len(found)), Next: next}
	for i := range found {
		page.Jobs[i] = infoOf(&found[i])
	}
	if in.Excerpt {
		err = api.addExcerpts(ctx, page.Jobs)
	}
	return &jobsOutput{page}, err
}

type countOutput struct{ Body count }

// count is the number of jobs that an operation changed.
type count struct {
	Count int `json:"count"`
}

// answerCount returns the answer with a count. If an operation failed after n jobs, its error
// becomes a partialError.
func answerCount(n int, err error) (*countOutput, error) {
	if err != nil && n > 0 {
		err = partialError{err, n}
	}
	return &countOutput{count{n}}, err
}

type flushInput struct {
	TubePath
	State string `query:"state" enum:"ready,reserved,delayed,buried"`
}

func (api *API) flush(ctx context.Context, in *flushInput) (*countOutput, error) {
	n, err := api.queue.Flush(ctx, in.Tube, stateNames[in.State])
	return answerCount(n, err)
}

type kickInput struct {
	TubePath
	N uint64 `query:"n" minimum:"1" maximum:"4294967295" default:"1" doc:"the maximum number of jobs"`
}

func (api *API) kick(ctx context.Context, in *kickInput) (*countOutput, error) {
	n, err := api.queue.Kick(ctx, in.Tube, uint32(in.N))
	return answerCount(n, err)
}

type pauseInput struct {
	TubePath
	For    string `query:"for" required:"true" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"whole seconds; 0 ends a pause" example:"10m"`
	Reason string `query:"reason" maxLength:"200" doc:"shown in the console and in the log"`
}

func (api *API) pause(ctx context.Context, in *pauseInput) (*noOutput, error) {
	seconds, err := parseSeconds("for", in.For)
	if err != nil {
		return nil, err
	}
	if err := api.queue.Pause(ctx, in.Tube, seconds); err != nil {
		return nil, err
	}
	user := ""
	if u := access.UserIn(ctx); u != nil {
		user = u.Name()
	}
	api.log.Info("tube paused", "tube", in.Tube, "seconds", seconds, "reason", in.Reason, "user", user)
	api.poller.paused(in.Tube, in.Reason)
	return nil, nil
}

type moveInput struct {
	TubePath
	State string `query:"state" required:"true" enum:"ready,delayed,buried"`
	To    string `query:"to" required:"true" maxLength:"200" doc:"another tube"`
	N     uint64 `query:"n" required:"true" minimum:"1" maximum:"4294967295" doc:"the maximum number of jobs"`
}

func (api *API) move(ctx context.Context, in *moveInput) (*countOutput, error) {
	if !protocol.ValidName([]byte(in.To)) {
		return nil, invalidTube("to", in.To)
	}
	if err := checkOtherTube(ctx, access.Admin, in.To); err != nil {
		return nil, err
	}
	if err := checkRedirect(ctx, in.Tube, in.To); err != nil {
		return nil, err
	}
	n, err := api.queue.MoveJobs(ctx, in.Tube, stateNames[in.State], in.To, uint32(in.N))
	return answerCount(n, err)
}
