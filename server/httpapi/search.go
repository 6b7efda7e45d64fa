package httpapi

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/tube/filter"
)

// This file lists and searches jobs. One search examines a limited number of jobs. Its answer
// has the cursor with which the next request goes on.

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

func (svc *service) jobs(ctx context.Context, in *jobsInput) (*jobsOutput, error) {
	found, next, err := svc.queue.ListJobs(ctx, in.Tube, stateNames[in.State], uint32(in.Limit), in.Cursor)
	if err != nil {
		return nil, err
	}
	page := jobsPage{Jobs: make([]JobInfo, len(found)), Next: next}
	for i := range found {
		page.Jobs[i] = infoOf(ctx, &found[i])
	}
	if in.Excerpt {
		err = svc.addExcerpts(ctx, page.Jobs)
	}
	return &jobsOutput{page}, err
}

// addExcerpts adds the beginnings of the bodies of listed jobs. Jobs that were deleted since
// then get none, and neither do jobs beyond excerptLimit.
func (svc *service) addExcerpts(ctx context.Context, jobs []JobInfo) error {
	endSearch, err := svc.searches.admit(ctx, clientIn(ctx))
	if err != nil {
		return err
	}
	defer endSearch()
	return svc.readExcerpts(ctx, len(jobs), func(i int) *JobInfo { return &jobs[i] })
}

// readExcerpts is addExcerpts in a search, for n jobs, as far as they have no excerpt.
func (svc *service) readExcerpts(ctx context.Context, n int, at func(i int) *JobInfo) error {
	var missing []*JobInfo
	left := excerptLimit
	for i := range n {
		if job := at(i); job.Excerpt == "" && !job.Hidden {
			if left -= job.Size; left < 0 {
				break
			}
			missing = append(missing, job)
		}
	}
	size := func(i int) int { return missing[i].Size }
	id := func(i int) uint64 { return missing[i].ID }
	return svc.peekInSteps(ctx, len(missing), size, id, func(i int, a *storage.Answer) {
		missing[i].Excerpt = excerpt(access.SightIn(ctx, missing[i].Tube).Body(a.Body), 0)
	})
}

// FilterOptions say which jobs are wanted: those for which all options hold.
type FilterOptions struct {
	Tube   []string `query:"tube,explode" json:"tube,omitempty" maxItems:"1000" doc:"the tubes to search; the default is all whose jobs the user may list"`
	State  []string `query:"state,explode" json:"state,omitempty" enum:"ready,reserved,delayed,buried" doc:"the default is all states"`
	Failed bool     `query:"failed" json:"failed,omitempty" doc:"only jobs that have failed for good: parked jobs, and dead letters: those that are buried, and all in tubes that a policy names as dead-letter tube, or whose next job is one"`

	Text        string   `query:"text" json:"text,omitempty" maxLength:"200" doc:"the job has this id, or its key, group, batch, schedule, meta, reason or body contains this, in upper or lower case. What is said of body holds here, too. Without the right read: only id, key, group, batch and schedule"`
	Group       string   `query:"group" json:"group,omitempty" maxLength:"128" doc:"the whole name, as the three that follow"`
	Key         string   `query:"key" json:"key,omitempty" maxLength:"128"`
	Batch       string   `query:"batch" json:"batch,omitempty" maxLength:"300" doc:"jobs of the batch, and those after it"`
	Schedule    string   `query:"schedule" json:"schedule,omitempty" maxLength:"200"`
	Reason      string   `query:"reason" json:"reason,omitempty" maxLength:"512" doc:"a text in the reason of the last failure, in upper or lower case. Without one, that is why the server parked the job, or dead letter"`
	WholeReason string   `query:"whole_reason" json:"whole_reason,omitempty" maxLength:"512" doc:"the whole reason, as in counts"`
	Since       uint64   `query:"since" json:"since,omitempty" maximum:"9007199254740991" doc:"failed at this time or later, or put if it has not failed, in milliseconds since the Unix epoch"`
	Until       uint64   `query:"until" json:"until,omitempty" maximum:"9007199254740991" doc:"the same at this time or before"`
	Attempts    uint32   `query:"attempts" json:"attempts,omitempty" doc:"the least number of deliveries; of those before it became a dead letter, at most five are known"`
	Meta        []string `query:"meta,explode" json:"meta,omitempty" maxItems:"16" doc:"NAME=VALUE: what the job was put with. It needs the right read, as body"`
	BodyHas     string   `query:"body" json:"body,omitempty" maxLength:"200" doc:"a text in the body, in upper or lower case, also in JSON strings with escapes. A JSON object or array is compared by value with each value in a JSON body, which can contain more"`
}

// matcher returns what examines jobs.
func (o *FilterOptions) matcher(ctx context.Context) (*filter.Matcher, error) {
	f := filter.Filter{Text: o.Text, Group: o.Group, Key: o.Key, Batch: o.Batch, Schedule: o.Schedule, Reason: o.Reason, WholeReason: o.WholeReason, Attempts: o.Attempts, Body: o.BodyHas}
	if u := access.UserIn(ctx); u != nil && f.Batch != "" {
		f.Batch = u.WholeBatch(f.Batch)
	}
	if o.Since > 0 {
		f.Since = time.UnixMilli(int64(o.Since))
	}
	if o.Until > 0 {
		f.Until = time.UnixMilli(int64(o.Until))
	}
	for _, pair := range o.Meta {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, invalid("meta: %q is not NAME=VALUE", pair)
		}
		if f.Meta == nil {
			f.Meta = make(map[string]string)
		}
		f.Meta[name] = value
	}
	return filter.New(f), nil
}

type searchInput struct {
	FilterOptions
	Limit   uint64 `query:"limit" maximum:"1000" default:"200" doc:"how many jobs to list at most; a page can have up to 999 more. 0: only count them"`
	Excerpt bool   `query:"excerpt" doc:"include a part of each body, up to a limit for all bodies together"`
	Cursor  string `query:"cursor" maxLength:"300" doc:"next of the previous answer"`
}

type searchOutput struct{ Body foundPage }

// foundPage is a step of a search.
type foundPage struct {
	Jobs     []FoundJob    `json:"jobs" nullable:"false"`
	Found    int           `json:"found" doc:"the number of jobs that were found"`
	Counts   []ReasonCount `json:"counts" nullable:"false" doc:"how many of them have each reason, tube by tube"`
	Examined int           `json:"examined" doc:"the number of jobs that were examined"`
	Total    *uint64       `json:"total,omitempty" doc:"of the first request: how many jobs there are to be examined, about"`
	Next     string        `json:"next" doc:"the cursor of the next request; empty if all jobs were examined"`
}

// FoundJob is a job that was found. It is exported so that the OpenAPI document has its fields.
type FoundJob struct {
	JobInfo
	In string `json:"in,omitempty" enum:"id,key,group,batch,schedule,meta,reason,body" doc:"where the text is: the first of these places"`
}

// ReasonCount is how many jobs have a reason. It is exported for the same reason.
type ReasonCount struct {
	Tube   string `json:"tube"`
	Reason string `json:"reason" doc:"that of the last failure; if none is known, why the server parked the job, or dead letter; empty if it has not failed"`
	Count  int    `json:"count"`
}

func (svc *service) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	endSearch, err := svc.searches.admit(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endSearch()
	w, err := svc.newWalk(ctx, &in.FilterOptions, access.List)
	if err != nil {
		return nil, err
	}
	page := foundPage{Jobs: []FoundJob{}}
	if in.Cursor == "" {
		total, err := w.total(ctx)
		if err != nil {
			return nil, err
		}
		page.Total = &total
	}
	counts := make(map[ReasonCount]int) // with 0 as Count
	w.full = func() bool { return in.Limit > 0 && page.Found >= int(in.Limit) }
	w.take = func(ctx context.Context, found []match) error {
		for i := range found {
			page.Found++
			counts[ReasonCount{Tube: found[i].job.Tube, Reason: reasonOf(found[i].job)}]++
			if in.Limit > 0 {
				page.Jobs = append(page.Jobs, found[i].info(ctx))
			}
		}
		return nil
	}
	if page.Next, err = w.run(ctx, in.Cursor); err != nil {
		return nil, err
	}
	page.Examined, page.Counts = w.examined, countsOf(counts)
	if in.Excerpt {
		err = svc.readExcerpts(ctx, len(page.Jobs), func(i int) *JobInfo { return &page.Jobs[i].JobInfo })
	}
	return &searchOutput{page}, err
}

// countsOf returns the counts of reasons, the greatest first.
func countsOf(counts map[ReasonCount]int) []ReasonCount {
	all := []ReasonCount{}
	for c, n := range counts {
		c.Count = n
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Tube, b.Tube), strings.Compare(a.Reason, b.Reason))
	})
	return all
}

const (
	// maxExamined is how many records of ended jobs one request examines.
	maxExamined = 2000

	// jobsPerCall is how many jobs are read with one call of the store.
	jobsPerCall = 100

	// bytesPerCall is how many bytes of bodies are read with one call. It can be exceeded by
	// one body.
	bytesPerCall = 256 << 10

	// searchLimit is how long one request searches.
	searchLimit = 2 * time.Second

	// excerptLimit is how many bytes of bodies are read for the excerpts of one list.
	excerptLimit = 4 << 20

	// excerptBytes is the length of an excerpt.
	excerptBytes = 160
)

// peekInSteps reads n jobs and passes each to visit. A step is one call of the store, for
// about bytesPerCall bytes of bodies; after each step it yields. visit must not retain the body.
func (svc *service) peekInSteps(ctx context.Context, n int, size func(i int) int, id func(i int) uint64, visit func(i int, a *storage.Answer)) error {
	for done := 0; done < n; {
		step, bytes := time.Now(), 0
		var ops []storage.Op
		for i := done; i < n && len(ops) < jobsPerCall && bytes < bytesPerCall; i++ {
			ops = append(ops, storage.Op{Kind: storage.Peek, ID: id(i)})
			bytes += size(i)
		}
		answers, err := svc.queue.Do(ctx, ops...)
		if err != nil {
			return err
		}
		for i := range answers {
			if answers[i].Err != nil {
				return answers[i].Err
			}
			visit(done+i, &answers[i])
			answers[i].Buffer.Release()
		}
		if done += len(ops); done == n && bytes < bytesPerCall {
			return nil
		}
		if err := yield(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// excerpt returns the part of a body around an offset, as valid UTF-8.
func excerpt(body []byte, at int) string {
	from := max(0, min(at, len(body))-excerptBytes/4)
	part := strings.ToValidUTF8(string(body[from:min(len(body), from+excerptBytes)]), "\uFFFD")
	for from > 0 && part != "" && !utf8.RuneStart(part[0]) {
		part = part[1:]
	}
	return part
}
