package worker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"redstalk/clients/go/client"
)

// takeWait is how long a reserve waits at the server. A server that hangs is noticed this much later.
const takeWait = 5 * time.Second

// A picker takes jobs from tubes by their weights.
type picker struct {
	tubes  []weighted // the largest weight first
	strict bool
	names  []string
}

type weighted struct {
	tube   string
	weight int
}

// A taken job is one with the tube that it was taken from, if that is known.
type taken struct {
	job  *client.Job
	tube string
}

func newPicker(weights map[string]int, strict bool) *picker {
	p := &picker{strict: strict}
	for tube, weight := range weights {
		p.tubes = append(p.tubes, weighted{tube, weight})
	}
	slices.SortFunc(p.tubes, func(a, b weighted) int {
		return cmp.Or(b.weight-a.weight, cmp.Compare(a.tube, b.tube))
	})
	for _, t := range p.tubes {
		p.names = append(p.names, t.tube)
	}
	return p
}

// take returns up to n jobs. If there is none, it waits for one for a while.
func (p *picker) take(ctx context.Context, from *client.Consumer, n int) ([]taken, error) {
	if len(p.tubes) == 1 {
		return reserve(ctx, from, p.names, n, takeWait)
	}
	var jobs []taken
	left := slices.Clone(p.tubes) // tubes that may have more jobs
	for len(left) > 0 && len(jobs) < n {
		shares := p.shares(left, n-len(jobs))
		for i := len(left) - 1; i >= 0; i-- {
			if shares[i] == 0 {
				continue
			}
			got, err := reserve(ctx, from, []string{left[i].tube}, shares[i], 0)
			if jobs = append(jobs, got...); err != nil {
				return jobs, err
			}
			if len(got) < shares[i] {
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	if len(jobs) > 0 {
		return jobs, nil
	}
	return reserve(ctx, from, p.names, 1, takeWait) // whichever tube has a job first
}

// shares divides n jobs between tubes: by chance according to the weights, or all to the first.
func (p *picker) shares(tubes []weighted, n int) []int {
	shares := make([]int, len(tubes))
	if p.strict {
		shares[0] = n
		return shares
	}
	sum := 0
	for _, t := range tubes {
		sum += t.weight
	}
	for range n {
		at, i := rand.IntN(sum), 0
		for at >= tubes[i].weight {
			at -= tubes[i].weight
			i++
		}
		shares[i]++
	}
	return shares
}

func reserve(ctx context.Context, from *client.Consumer, tubes []string, n int, wait time.Duration) ([]taken, error) {
	from.Watch(tubes...)
	jobs, err := from.ReserveBatch(ctx, n, wait)
	all := make([]taken, len(jobs))
	for i, job := range jobs {
		if all[i].job = job; len(tubes) == 1 {
			all[i].tube = tubes[0]
		}
	}
	return all, err
}
