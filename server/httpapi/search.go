package httpapi

import (
	"bytes"
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"redstalk/storage"
	"redstalk/tube"
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
		page.Jobs[i] = infoOf(&found[i])
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
	return svc.readExcerpts(ctx, jobs)
}

// readExcerpts is addExcerpts in a search.
func (svc *service) readExcerpts(ctx context.Context, jobs []JobInfo) error {
	n := 0
	for left := excerptLimit; n < len(jobs) && jobs[n].Size <= left; n++ {
		left -= jobs[n].Size
	}
	size := func(i int) int { return jobs[i].Size }
	id := func(i int) uint64 { return jobs[i].ID }
	return svc.peekInSteps(ctx, n, size, id, func(i int, a *storage.Answer) { jobs[i].Excerpt = excerpt(a.Body, 0) })
}

type searchInput struct {
	TubePath
	State  string `query:"state" required:"true" enum:"ready,reserved,delayed,buried"`
	Text   string `query:"text" required:"true" minLength:"1" maxLength:"200" doc:"text in the body or the key, in upper or lower case"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the previous answer"`
}

type searchOutput struct{ Body foundPage }

// foundPage is a page of found jobs.
type foundPage struct {
	Jobs     []JobInfo `json:"jobs" nullable:"false"`
	Examined int       `json:"examined" doc:"the number of jobs that were examined"`
	Next     string    `json:"next" doc:"the cursor of the next request; empty if all jobs were examined"`
}

func (svc *service) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	endSearch, err := svc.searches.admit(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endSearch()
	page, text, end := foundPage{Jobs: []JobInfo{}}, []byte(strings.ToLower(in.Text)), time.Now().Add(searchLimit)
	for cursor := in.Cursor; ; {
		step := time.Now()
		jobs, next, err := svc.queue.ListJobs(ctx, in.Tube, stateNames[in.State], jobsPerCall, cursor)
		if err == nil {
			err = yield(ctx, step)
		}
		if err == nil {
			err = svc.searchBodies(ctx, &page, jobs, text)
		}
		if err != nil {
			return nil, err
		}
		page.Next, cursor = next, next
		if next == "" || page.Examined >= maxExamined || len(page.Jobs) >= maxFound || time.Now().After(end) {
			return &searchOutput{page}, nil
		}
	}
}

// searchBodies adds the jobs whose body or key contains text.
func (svc *service) searchBodies(ctx context.Context, page *foundPage, jobs []tube.JobStats, text []byte) error {
	page.Examined += len(jobs)
	size := func(i int) int { return jobs[i].Size }
	id := func(i int) uint64 { return jobs[i].ID }
	return svc.peekInSteps(ctx, len(jobs), size, id, func(i int, a *storage.Answer) {
		if a.NotFound {
			return // deleted since it was listed
		}
		at := bytes.Index(bytes.ToLower(a.Body), text)
		if info := infoOf(&jobs[i]); at >= 0 || strings.Contains(strings.ToLower(info.Key), string(text)) {
			info.Excerpt = excerpt(a.Body, at)
			page.Jobs = append(page.Jobs, info)
		}
	})
}

const (
	// maxExamined is how many jobs one request examines, maxFound how many it returns at
	// most. Both can be exceeded by one page.
	maxExamined, maxFound = 2000, 200

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
