package httpapi

import (
	"context"
	"slices"
	"time"

	"redstalk/tube"
)

type parkedInput struct {
	From   string `query:"from" maxLength:"200" doc:"next_tube of the previous answer"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the previous answer"`
}

type parkedOutput struct{ Body parkedPage }

// parkedPage is a page of the parked jobs of all tubes.
type parkedPage struct {
	Jobs     []JobInfo `json:"jobs" nullable:"false"`
	Examined int       `json:"looked" doc:"the number of buried jobs that were examined"`
	NextTube string    `json:"next_tube" doc:"the tube of the next request; empty if all jobs were examined"`
	Next     string    `json:"next" doc:"the cursor in that tube"`
}

// parked searches parked jobs, tube by tube in the order of their names.
func (api *API) parked(ctx context.Context, in *parkedInput) (*parkedOutput, error) {
	endSearch, err := api.searches.admit(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endSearch()
	names, err := api.queue.Tubes(ctx)
	if err != nil {
		return nil, err
	}
	names = visible(ctx, names)
	slices.Sort(names)
	from, _ := slices.BinarySearch(names, in.From)
	page, cursor, end := parkedPage{Jobs: []JobInfo{}}, in.Cursor, time.Now().Add(searchLimit)
	if from == len(names) || names[from] != in.From {
		cursor = "" // that tube is gone
	}
	for _, name := range names[from:] {
		for more := true; more; {
			if page.Examined >= maxExamined || len(page.Jobs) >= maxFound || time.Now().After(end) {
				page.NextTube, page.Next = name, cursor
				return &parkedOutput{page}, nil
			}
			step := time.Now()
			jobs, next, err := api.queue.ListJobs(ctx, name, tube.Buried, jobsPerCall, cursor)
			if err == nil {
				page.addParked(jobs)
				err = yield(ctx, step)
			}
			if err != nil {
				return nil, err
			}
			cursor, more = next, next != ""
		}
	}
	return &parkedOutput{page}, nil
}

func (p *parkedPage) addParked(jobs []tube.JobStats) {
	p.Examined += len(jobs)
	for i := range jobs {
		if jobs[i].Metadata != nil && jobs[i].Metadata.Parked != tube.NotParked {
			p.Jobs = append(p.Jobs, infoOf(&jobs[i]))
		}
	}
}
