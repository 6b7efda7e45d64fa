package httpapi

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file looks through many jobs, within bounds: an answer says how far it has looked, and
// the next request goes on from there.

const (
	// mostLooked is how many jobs one request looks at, mostFound how many it returns at
	// most, a page more or less.
	mostLooked, mostFound = 2000, 200

	// lookAtOnce is how many jobs are looked at with one call of the store.
	lookAtOnce = 100

	// peekAtOnce is how many bytes of bodies are read with one call, or a body more.
	peekAtOnce = 256 << 10

	// searchLimit is when a request looks no further.
	searchLimit = 2 * time.Second

	// mostPeeked is how many bytes of bodies are read for the excerpts of one list.
	mostPeeked = 4 << 20

	// excerptBytes is how much of a body is shown around what was found.
	excerptBytes = 160
)

type searchInput struct {
	TubePath
	State  string `query:"state" required:"true" enum:"ready,reserved,delayed,buried"`
	Text   string `query:"text" required:"true" minLength:"1" maxLength:"200" doc:"in the body or the key, in small or large letters"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the answer before"`
}

type searchOutput struct{ Body foundPage }

// foundPage is what was found so far.
type foundPage struct {
	Jobs   []JobInfo `json:"jobs" nullable:"false"`
	Looked int       `json:"looked" doc:"at so many jobs"`
	Next   string    `json:"next" doc:"the cursor to go on with; empty if all were looked at"`
}

func (d *Door) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	endTurn, err := d.turns.begin(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endTurn()
	page, text, end := foundPage{Jobs: []JobInfo{}}, []byte(strings.ToLower(in.Text)), time.Now().Add(searchLimit)
	for cursor := in.Cursor; ; {
		step := time.Now()
		jobs, next, err := d.queue.ListJobs(ctx, in.Tube, stateNames[in.State], lookAtOnce, cursor)
		if err == nil {
			err = rest(ctx, step)
		}
		if err == nil {
			err = d.lookInto(ctx, &page, jobs, text)
		}
		if err != nil {
			return nil, err
		}
		page.Next, cursor = next, next
		if next == "" || page.Looked >= mostLooked || len(page.Jobs) >= mostFound || time.Now().After(end) {
			return &searchOutput{page}, nil
		}
	}
}

// lookInto adds those jobs that have a text in them.
func (d *Door) lookInto(ctx context.Context, page *foundPage, jobs []tube.JobStats, text []byte) error {
	page.Looked += len(jobs)
	size := func(i int) int { return jobs[i].Size }
	id := func(i int) uint64 { return jobs[i].ID }
	return d.peekInSteps(ctx, len(jobs), size, id, func(i int, a *storage.Answer) {
		if a.NotFound {
			return // gone meanwhile
		}
		at := bytes.Index(bytes.ToLower(a.Body), text)
		if info := infoOf(&jobs[i]); at >= 0 || strings.Contains(strings.ToLower(info.Key), string(text)) {
			info.Excerpt = excerpt(a.Body, at)
			page.Jobs = append(page.Jobs, info)
		}
	})
}

// addExcerpts adds how the bodies of listed jobs begin. Those that have gone meanwhile get none, nor
// do those behind mostPeeked.
func (d *Door) addExcerpts(ctx context.Context, jobs []JobInfo) error {
	endTurn, err := d.turns.begin(ctx, clientIn(ctx))
	if err != nil {
		return err
	}
	defer endTurn()
	n := 0
	for left := mostPeeked; n < len(jobs) && jobs[n].Size <= left; n++ {
		left -= jobs[n].Size
	}
	size := func(i int) int { return jobs[i].Size }
	id := func(i int) uint64 { return jobs[i].ID }
	return d.peekInSteps(ctx, n, size, id, func(i int, a *storage.Answer) { jobs[i].Excerpt = excerpt(a.Body, 0) })
}

// peekInSteps reads n jobs and has each looked at. A step is a call of the store, for peekAtOnce
// bytes of bodies or a job more; between two of them others go on. The body of an answer is not
// to be kept.
func (d *Door) peekInSteps(ctx context.Context, n int, size func(i int) int, id func(i int) uint64, look func(i int, a *storage.Answer)) error {
	for done := 0; done < n; {
		step, bytes := time.Now(), 0
		var ops []storage.Op
		for i := done; i < n && len(ops) < lookAtOnce && bytes < peekAtOnce; i++ {
			ops = append(ops, storage.Op{Kind: storage.Peek, ID: id(i)})
			bytes += size(i)
		}
		answers, err := d.queue.Do(ctx, ops...)
		if err != nil {
			return err
		}
		for i := range answers {
			if answers[i].Err != nil {
				return answers[i].Err
			}
			look(done+i, &answers[i])
			answers[i].Buffer.Release()
		}
		if done += len(ops); done == n && bytes < peekAtOnce {
			return nil
		}
		if err := rest(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// excerpt returns the part of a body around a place, as text.
func excerpt(body []byte, at int) string {
	from := max(0, min(at, len(body))-excerptBytes/4)
	part := strings.ToValidUTF8(string(body[from:min(len(body), from+excerptBytes)]), "\uFFFD")
	for from > 0 && part != "" && !utf8.RuneStart(part[0]) {
		part = part[1:]
	}
	return part
}

type parkedInput struct {
	From   string `query:"from" maxLength:"200" doc:"next_tube of the answer before"`
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the answer before"`
}

type parkedOutput struct{ Body parkedPage }

// parkedPage is some of the jobs that were given up, of all tubes.
type parkedPage struct {
	Jobs     []JobInfo `json:"jobs" nullable:"false"`
	Looked   int       `json:"looked" doc:"at so many buried jobs"`
	NextTube string    `json:"next_tube" doc:"the tube to go on with; empty if all were looked at"`
	Next     string    `json:"next" doc:"the cursor to go on with there"`
}

// parked looks for parked jobs, tube after tube in the order of their names.
func (d *Door) parked(ctx context.Context, in *parkedInput) (*parkedOutput, error) {
	endTurn, err := d.turns.begin(ctx, clientIn(ctx))
	if err != nil {
		return nil, err
	}
	defer endTurn()
	names, err := d.queue.Tubes(ctx)
	if err != nil {
		return nil, err
	}
	names = visible(ctx, names)
	slices.Sort(names)
	from, _ := slices.BinarySearch(names, in.From)
	page, cursor, end := parkedPage{Jobs: []JobInfo{}}, in.Cursor, time.Now().Add(searchLimit)
	if from == len(names) || names[from] != in.From {
		cursor = "" // that tube has gone
	}
	for _, name := range names[from:] {
		for more := true; more; {
			if page.Looked >= mostLooked || len(page.Jobs) >= mostFound || time.Now().After(end) {
				page.NextTube, page.Next = name, cursor
				return &parkedOutput{page}, nil
			}
			step := time.Now()
			jobs, next, err := d.queue.ListJobs(ctx, name, tube.Buried, lookAtOnce, cursor)
			if err == nil {
				page.addParked(jobs)
				err = rest(ctx, step)
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
	p.Looked += len(jobs)
	for i := range jobs {
		if jobs[i].Metadata != nil && jobs[i].Metadata.Parked != tube.NotParked {
			p.Jobs = append(p.Jobs, infoOf(&jobs[i]))
		}
	}
}

type actionInput struct {
	Body struct {
		Action   string   `json:"action" enum:"delete,kick,bury,reschedule,priority,move"`
		IDs      []uint64 `json:"ids" minItems:"1" maxItems:"1000" nullable:"false"`
		In       string   `json:"in,omitempty" pattern:"^[0-9]+(ms|s|m|h|d)?$" doc:"reschedule: how long until the jobs are ready"`
		Priority *uint32  `json:"priority,omitempty" doc:"priority: the new one"`
		To       string   `json:"to,omitempty" maxLength:"200" doc:"move: another tube, where the jobs get new ids and their failures begin anew"`
	}
}

type actionOutput struct{ Body actionInfo }

// actionInfo is what became of an action.
type actionInfo struct {
	Done   int      `json:"done" doc:"to so many jobs"`
	Missed []uint64 `json:"missed" nullable:"false" doc:"jobs that were not there, not in a state for that, or that the user may not touch"`
}

// act does the same to many jobs, one after the other.
func (d *Door) act(ctx context.Context, in *actionInput) (*actionOutput, error) {
	do, err := d.actionOf(ctx, in)
	if err != nil {
		return nil, err
	}
	info := actionInfo{Missed: []uint64{}}
	for _, id := range in.Body.IDs {
		err := d.mayAct(ctx, id)
		if err == nil {
			err = do(ctx, id)
		}
		switch problem := problemOfAct(err); {
		case err == nil:
			info.Done++
		case problem:
			return nil, err
		default:
			info.Missed = append(info.Missed, id)
		}
	}
	return &actionOutput{info}, nil
}

// actionOf returns what does an action to one job.
func (d *Door) actionOf(ctx context.Context, in *actionInput) (func(context.Context, uint64) error, error) {
	switch in.Body.Action {
	case "delete":
		return func(ctx context.Context, id uint64) error { return d.queue.Delete(ctx, d.queue.NewHolder(), id) }, nil
	case "kick":
		return d.queue.KickJob, nil
	case "bury":
		return d.buryJob, nil
	case "move":
		if !protocol.ValidName([]byte(in.Body.To)) {
			return nil, invalidTube("to", in.Body.To)
		}
		for _, need := range []Right{Admin, Put} {
			if err := checkOther(ctx, need, in.Body.To); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context, id uint64) error { return d.moveJob(ctx, id, in.Body.To) }, nil
	case "reschedule":
		wait, err := parseDuration(in.Body.In)
		if err != nil {
			return nil, invalid("in: %v", err)
		}
		return func(ctx context.Context, id uint64) error {
			return d.do(ctx, storage.Op{Kind: storage.Reschedule, ID: id, In: time.Duration(wait)})
		}, nil
	}
	if in.Body.Priority == nil {
		return nil, invalid("priority: there is none")
	}
	return func(ctx context.Context, id uint64) error {
		return d.do(ctx, storage.Op{Kind: storage.SetPriority, ID: id, Pri: *in.Body.Priority})
	}, nil
}

// buryJob sets a job aside that nobody holds. It is reserved for that, and buried at once; if
// it cannot be buried it is given back.
func (d *Door) buryJob(ctx context.Context, id uint64) error {
	s, err := d.queue.JobStats(ctx, id)
	if err != nil {
		return err
	}
	holder := d.queue.NewHolder()
	defer d.queue.Leave(context.WithoutCancel(ctx), holder)
	if _, err := d.queue.ReserveJob(ctx, holder, id); err != nil {
		return err
	}
	return d.queue.Bury(ctx, holder, id, s.Pri)
}
