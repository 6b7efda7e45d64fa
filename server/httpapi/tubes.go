package httpapi

import (
	"context"
	"slices"

	"redstalk/protocol"
	"redstalk/server/access"
)

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

func (svc *service) tubes(ctx context.Context, in *tubesInput) (*tubesOutput, error) {
	names, err := svc.queue.Tubes(ctx)
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
	all, err := tubeStats(ctx, svc.queue, names)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		page.Tubes = append(page.Tubes, tubeInfoOf(s))
	}
	return &tubesOutput{page}, nil
}

type tubeOutput struct{ Body tubeInfo }

func (svc *service) tube(ctx context.Context, in *TubePath) (*tubeOutput, error) {
	s, err := svc.queue.TubeStats(ctx, in.Tube)
	if err != nil {
		return nil, err
	}
	return &tubeOutput{tubeInfoOf(s)}, nil
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

func (svc *service) flush(ctx context.Context, in *flushInput) (*countOutput, error) {
	n, err := svc.queue.Flush(ctx, in.Tube, stateNames[in.State])
	return answerCount(n, err)
}

type kickInput struct {
	TubePath
	N uint64 `query:"n" minimum:"1" maximum:"4294967295" default:"1" doc:"the maximum number of jobs"`
	KeepOption
}

func (svc *service) kick(ctx context.Context, in *kickInput) (*countOutput, error) {
	n, err := svc.queue.Kick(ctx, in.Tube, uint32(in.N), in.KeepCheckpoint)
	return answerCount(n, err)
}

// PauseOptions say how long a tube or a group is paused, and why.
type PauseOptions struct {
	For    string `query:"for" required:"true" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"whole seconds; 0 ends a pause" example:"10m"`
	Reason string `query:"reason" maxLength:"200" doc:"shown in the console and in the log"`
}

type pauseInput struct {
	TubePath
	PauseOptions
}

func (svc *service) pause(ctx context.Context, in *pauseInput) (*noOutput, error) {
	seconds, err := parseSeconds("for", in.For)
	if err != nil {
		return nil, err
	}
	if err := svc.queue.Pause(ctx, in.Tube, seconds); err != nil {
		return nil, err
	}
	svc.log.Info("tube paused", "tube", in.Tube, "seconds", seconds, "reason", in.Reason, "user", userName(ctx))
	svc.poller.paused(in.Tube, in.Reason)
	return nil, nil
}

// userName returns the name of the user of a request, "" if there is none.
func userName(ctx context.Context) string {
	if u := access.UserIn(ctx); u != nil {
		return u.Name()
	}
	return ""
}

type moveInput struct {
	TubePath
	State string `query:"state" required:"true" enum:"ready,delayed,buried"`
	To    string `query:"to" required:"true" maxLength:"200" doc:"another tube"`
	N     uint64 `query:"n" required:"true" minimum:"1" maximum:"4294967295" doc:"the maximum number of jobs"`
}

func (svc *service) move(ctx context.Context, in *moveInput) (*countOutput, error) {
	if !protocol.ValidName([]byte(in.To)) {
		return nil, invalidTube("to", in.To)
	}
	if err := checkOtherTube(ctx, access.Admin, in.To); err != nil {
		return nil, err
	}
	if err := checkRedirect(ctx, in.Tube, in.To); err != nil {
		return nil, err
	}
	n, err := svc.queue.MoveJobs(ctx, in.Tube, stateNames[in.State], in.To, uint32(in.N))
	return answerCount(n, err)
}

type chartsOutput struct{ Body chartsInfo }

// chartsInfo are the charts of several tubes.
type chartsInfo struct {
	EveryMS int64                `json:"every_ms" doc:"milliseconds between two points"`
	Tubes   map[string]chartInfo `json:"tubes" nullable:"false"`
}

// chartInfo is the chart of a tube: the last point is the latest.
type chartInfo struct {
	End      int64     `json:"end" doc:"the time of the last point, milliseconds since 1970"`
	Ready    []uint32  `json:"ready" nullable:"false"`
	Reserved []uint32  `json:"reserved,omitempty" nullable:"false"`
	Delayed  []uint32  `json:"delayed,omitempty" nullable:"false"`
	Buried   []uint32  `json:"buried,omitempty" nullable:"false"`
	Puts     []float32 `json:"put_rate,omitempty" nullable:"false" doc:"per second"`
	Deletes  []float32 `json:"delete_rate,omitempty" nullable:"false" doc:"per second"`
}

type chartsInput struct {
	Points uint64 `query:"points" minimum:"1" maximum:"360" default:"60" doc:"how many points, up to the latest"`
}

// charts returns the ready jobs of all tubes that have a chart.
func (svc *service) charts(ctx context.Context, in *chartsInput) (*chartsOutput, error) {
	p := svc.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	info := chartsInfo{EveryMS: pointEvery.Milliseconds(), Tubes: make(map[string]chartInfo)}
	for _, name := range visible(ctx, p.order) {
		c := p.history.charts[name]
		if c == nil {
			continue
		}
		one := chartInfo{End: c.last.UnixMilli(), Ready: []uint32{}}
		points := c.all()
		for _, p := range points[max(0, len(points)-int(in.Points)):] {
			one.Ready = append(one.Ready, p.ready)
		}
		info.Tubes[name] = one
	}
	return &chartsOutput{info}, nil
}

// chart returns the whole chart of one tube.
func (svc *service) chart(_ context.Context, in *TubePath) (*chartsOutput, error) {
	p := svc.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	info := chartsInfo{EveryMS: pointEvery.Milliseconds(), Tubes: make(map[string]chartInfo)}
	if c := p.history.charts[in.Tube]; c != nil {
		one := chartInfo{End: c.last.UnixMilli(), Ready: []uint32{}}
		for _, p := range c.all() {
			one.Ready, one.Reserved = append(one.Ready, p.ready), append(one.Reserved, p.reserved)
			one.Delayed, one.Buried = append(one.Delayed, p.delayed), append(one.Buried, p.buried)
			one.Puts, one.Deletes = append(one.Puts, p.puts), append(one.Deletes, p.deletes)
		}
		info.Tubes[in.Tube] = one
	}
	return &chartsOutput{info}, nil
}
