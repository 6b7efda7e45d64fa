package queue

import (
	"context"
	"encoding/json"
	"sync"

	"redstalk/storage"
	"redstalk/tube"
)

// A lease belongs to no connection. So that an operator sees who works on a leased job, the last
// leases that connections with names have taken are recorded.

// numTakers is how many leases are recorded, each at the remainder of its job's id.
const numTakers = 1 << 14

// takers are the connections of this server that have taken leases.
type takers struct {
	mu   sync.Mutex
	last []taker // numTakers; nil until a connection with a name takes one
}

// taker says that a connection with a name has taken a lease of a job.
type taker struct {
	job, lease uint64
	holder     tube.Holder
	name       string
}

// NoteLease records that a connection with a name has taken a lease of a job.
func (q *Queue) NoteLease(job, lease uint64, h tube.Holder, name string) {
	q.takers.mu.Lock()
	defer q.takers.mu.Unlock()
	if q.takers.last == nil {
		q.takers.last = make([]taker, numTakers)
	}
	q.takers.last[job%numTakers] = taker{job, lease, h, name}
}

// takerOf returns who has taken a lease of a job from this server, and whether connections with
// names have taken any.
func (q *Queue) takerOf(job, lease uint64) (by taker, any bool) {
	q.takers.mu.Lock()
	defer q.takers.mu.Unlock()
	if q.takers.last == nil {
		return taker{}, false
	}
	if by = q.takers.last[job%numTakers]; by.job != job || by.lease != lease {
		by = taker{}
	}
	return by, true
}

// localTaker is takerOf as a JobHolder. Its connection can have ended.
func (q *Queue) localTaker(job, lease uint64) JobHolder {
	by, any := q.takerOf(job, lease)
	holder := JobHolder{Lease: true, Name: by.name, Named: any}
	if by.name != "" {
		holder.Instance = q.peer()
		if c := q.localHolder(by.holder); c != nil {
			holder.Address, holder.User = c.Address, c.User
		}
	}
	return holder
}

// othersTakers stands in clients.unnamed for the leases of all other servers.
const othersTakers = ""

// taker returns who has taken the lease of a job: of all servers, if the store is shared.
func (q *Queue) taker(ctx context.Context, job *tube.JobStats) (*JobHolder, error) {
	holder := q.localTaker(job.ID, job.Metadata.Lease)
	peers, ok := q.store.(storage.PeerStore)
	if holder.Name != "" || !ok || !q.mayBeNamed(othersTakers) {
		return &holder, nil
	}
	ctx, cancel := context.WithTimeout(ctx, PeerPatience)
	defer cancel()
	answers, err := peers.AskPeers(ctx, "", question{Job: job.ID, Lease: job.Metadata.Lease}.text())
	if err != nil {
		return &holder, err
	}
	named := false
	for _, a := range answers {
		var other JobHolder
		if !a.Answered || json.Unmarshal([]byte(a.Text), &other) != nil {
			continue
		}
		named = named || other.Named
		if other.Name != "" {
			holder = other
		}
	}
	q.noteNamed(othersTakers, named)
	return &holder, nil
}
