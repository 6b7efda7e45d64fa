package httpapi

import (
	"context"
	"slices"
	"time"

	"redstalk/server/queue"
	"redstalk/tube"
)

// This file lists the jobs that have failed for good: parked jobs, and those in dead-letter tubes.

type parkedInput struct {
	From   string `query:"from" maxLength:"200" doc:"next_tube of the previous answer"`
	State  string `query:"state" enum:"buried,delayed,ready" doc:"next_state of the previous answer"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the previous answer"`

	Dead    bool `query:"dead_letters" doc:"include jobs that came to their tube as dead letters: those that are buried, and all in tubes that a policy names as dead-letter tube, or whose next job is one"`
	Excerpt bool `query:"excerpt" doc:"include the beginnings of the bodies, up to a limit for all bodies together"`
}

type parkedOutput struct{ Body parkedPage }

// parkedPage is a page of the parked jobs of all tubes.
type parkedPage struct {
	Jobs      []JobInfo `json:"jobs" nullable:"false"`
	Examined  int       `json:"examined" doc:"the number of jobs that were examined"`
	NextTube  string    `json:"next_tube" doc:"the tube of the next request; empty if all jobs were examined"`
	NextState string    `json:"next_state" doc:"the state in that tube"`
	Next      string    `json:"next" doc:"the cursor in that state"`
}

// parked searches parked jobs, tube by tube in the order of their names.
func (svc *service) parked(ctx context.Context, in *parkedInput) (*parkedOutput, error) {
	endSearch, err := svc.searches.admit(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endSearch()
	names, err := svc.queue.Tubes(ctx)
	if err != nil {
		return nil, err
	}
	names = visible(ctx, names)
	slices.Sort(names)
	s := &parkedSearch{svc: svc, page: parkedPage{Jobs: []JobInfo{}}, dead: in.Dead, end: time.Now().Add(searchLimit)}
	if s.dead {
		if s.targets, err = svc.queue.DeadLetterTubes(ctx); err != nil {
			return nil, err
		}
	}
	from, found := slices.BinarySearch(names, in.From)
	state, cursor := in.State, in.Cursor
	if !found {
		state, cursor = "", "" // that tube is gone
	}
	for _, name := range names[from:] {
		ended, err := s.searchTube(ctx, name, state, cursor)
		if err != nil {
			return nil, err
		}
		if ended {
			break
		}
		state, cursor = "", ""
	}
	if in.Excerpt {
		err = svc.readExcerpts(ctx, s.page.Jobs)
	}
	return &parkedOutput{s.page}, err
}

// parkedSearch is a search for parked jobs in progress.
type parkedSearch struct {
	svc     *service
	page    parkedPage
	dead    bool            // dead letters are included
	targets map[string]bool // the dead-letter tubes of policies
	end     time.Time
}

// searchTube searches a tube, from a state and a cursor on. It returns true if the request has to end, and
// says in the page where the next one continues.
func (s *parkedSearch) searchTube(ctx context.Context, name, state, cursor string) (ended bool, err error) {
	states, err := s.statesIn(ctx, name)
	if err != nil {
		return false, err
	}
	for _, next := range states[max(0, slices.Index(states, stateNames[state])):] {
		for more := true; more; {
			if s.page.Examined >= maxExamined || len(s.page.Jobs) >= maxFound || time.Now().After(s.end) {
				s.page.NextTube, s.page.NextState, s.page.Next = name, next.String(), cursor
				return true, nil
			}
			step := time.Now()
			var jobs []tube.JobStats
			if jobs, cursor, err = s.svc.queue.ListJobs(ctx, name, next, jobsPerCall, cursor); err == nil {
				s.add(jobs)
				err = yield(ctx, step)
			}
			if err != nil {
				return false, err
			}
			more = cursor != ""
		}
	}
	return false, nil
}

// statesIn returns the states of the jobs that are examined in a tube.
func (s *parkedSearch) statesIn(ctx context.Context, name string) ([]tube.State, error) {
	if !s.dead {
		return []tube.State{tube.Buried}, nil
	}
	isTarget := s.targets[name]
	if !isTarget {
		answers, err := s.svc.queue.Do(ctx, queue.FirstIn(name, tube.Ready), queue.FirstIn(name, tube.Delayed))
		if err != nil {
			return nil, err
		}
		for i := range answers {
			if answers[i].Err != nil {
				return nil, answers[i].Err
			}
			isTarget = isTarget || queue.IsDeadLetter(&answers[i])
		}
	}
	if isTarget {
		return []tube.State{tube.Buried, tube.Delayed, tube.Ready}, nil
	}
	return []tube.State{tube.Buried}, nil
}

func (s *parkedSearch) add(jobs []tube.JobStats) {
	s.page.Examined += len(jobs)
	for i := range jobs {
		if metadataOf(&jobs[i]).Parked != tube.NotParked || s.dead && jobs[i].Home() != "" {
			s.page.Jobs = append(s.page.Jobs, infoOf(&jobs[i]))
		}
	}
}
