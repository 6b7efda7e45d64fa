package queue

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// clients is what a queue knows of the connections of its listeners. Connections are not recorded
// here: a source is asked when somebody wants to see them. Only their names are.
type clients struct {
	mu      sync.Mutex
	sources []ClientSource
	names   map[tube.Holder]string
	unnamed map[string]time.Time // other servers that had no named connection, and when they said so
}

// NameClient names a connection, until ForgetClient.
func (q *Queue) NameClient(h tube.Holder, name string) {
	q.clients.mu.Lock()
	defer q.clients.mu.Unlock()
	if q.clients.names == nil {
		q.clients.names = make(map[tube.Holder]string)
	}
	q.clients.names[h] = name
}

// ForgetClient is called when a named connection has ended.
func (q *Queue) ForgetClient(h tube.Holder) {
	q.clients.mu.Lock()
	defer q.clients.mu.Unlock()
	delete(q.clients.names, h)
}

// JobHolder says who holds a job.
type JobHolder struct {
	Name     string `json:"name,omitempty"`     // of the connection; "" if it has none
	Address  string `json:"address,omitempty"`  // of the connection
	Instance string `json:"instance,omitempty"` // its server, if several share the store
	Lease    bool   `json:"lease,omitempty"`    // a lease, and not the connection, which has taken it

	User  string `json:"user,omitempty"`  // of the connection
	Named bool   `json:"named,omitempty"` // its server has connections with names
}

// NameOfHolder returns the name of the connection of this server that holds a job or has taken its
// lease; "" if it has none. If other is set, that can be a connection of another server, which
// HolderOf has to ask.
func (q *Queue) NameOfHolder(job *tube.JobStats) (name string, other bool) {
	switch {
	case job.Leased:
		by, _ := q.takerOf(job.ID, job.Metadata.Lease)
		_, shared := q.store.(storage.PeerStore)
		return by.name, by.name == "" && shared && q.mayBeNamed(othersTakers)
	case job.HeldAt != "":
		return "", q.mayBeNamed(job.HeldAt)
	case job.Holder == 0:
		return "", false
	}
	q.clients.mu.Lock()
	defer q.clients.mu.Unlock()
	return q.clients.names[job.Holder], false
}

// unnamedFor is for how long another server that had no named connection is not asked again for
// the name of one. So clients that use no names cost the others at most one question a second.
const unnamedFor = time.Second

// mayBeNamed reports whether another server is worth asking for the name of a connection.
func (q *Queue) mayBeNamed(peer string) bool {
	q.clients.mu.Lock()
	defer q.clients.mu.Unlock()
	return time.Since(q.clients.unnamed[peer]) > unnamedFor
}

// HolderOf returns who holds a job; nil if nobody does, or that is not known.
func (q *Queue) HolderOf(ctx context.Context, job *tube.JobStats) (*JobHolder, error) {
	switch {
	case job.Leased:
		return q.taker(ctx, job)
	case job.HeldAt != "":
		return q.askForHolder(ctx, job)
	case job.Holder != 0:
		return q.localHolder(job.Holder), nil
	}
	return nil, nil
}

// localHolder returns a connection of this server; nil if there is no such connection.
func (q *Queue) localHolder(h tube.Holder) *JobHolder {
	q.clients.mu.Lock()
	sources, named := q.clients.sources, len(q.clients.names) > 0
	q.clients.mu.Unlock()
	for _, source := range sources {
		for _, c := range source.Clients(&ClientQuery{After: h - 1, Limit: 1}) {
			if c.ID == h {
				return &JobHolder{Name: c.Name, Address: c.Address, User: c.User, Instance: q.peer(), Named: named}
			}
		}
	}
	return nil
}

// askForHolder asks another server who holds a job.
func (q *Queue) askForHolder(ctx context.Context, job *tube.JobStats) (*JobHolder, error) {
	peers, ok := q.store.(storage.PeerStore)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, PeerPatience)
	defer cancel()
	text, err := peers.AskHolder(ctx, job, question{Job: job.ID}.text())
	if err != nil {
		return nil, err
	}
	holder := new(JobHolder)
	if err := json.Unmarshal([]byte(text), holder); err != nil {
		return nil, err
	}
	q.noteNamed(job.HeldAt, holder.Named)
	return holder, nil
}

// noteNamed records whether another server has connections with names.
func (q *Queue) noteNamed(peer string, named bool) {
	q.clients.mu.Lock()
	defer q.clients.mu.Unlock()
	if named || len(q.clients.unnamed) >= maxUnnamed || q.clients.unnamed == nil {
		q.clients.unnamed = make(map[string]time.Time)
	}
	if !named {
		q.clients.unnamed[peer] = time.Now()
	}
}

// maxUnnamed limits the servers in clients.unnamed.
const maxUnnamed = 1000

// question is what a server asks another one, or asks of it.
type question struct {
	Clients   *ClientQuery `json:"clients,omitempty"`
	From      string       `json:"from,omitempty"`       // the cursor: a server,
	FromAfter tube.Holder  `json:"from-after,omitempty"` // and one of its connections
	Job       uint64       `json:"job,omitempty"`        // who holds this job,
	Lease     uint64       `json:"lease,omitempty"`      // or has taken this lease of it?
	TakeBack  uint64       `json:"take-back,omitempty"`  // to take this job back,
	Reason    string       `json:"reason,omitempty"`     // for this reason
	Close     tube.Holder  `json:"close,omitempty"`      // to close this connection
}

func (a question) text() string {
	text, _ := json.Marshal(a) // cannot fail
	return string(text)
}

// Answer implements storage.PeerListener.
func (l listener) Answer(text string) string {
	var ask question
	if json.Unmarshal([]byte(text), &ask) != nil {
		return ""
	}
	answer := any(JobHolder{})
	switch {
	case ask.Clients != nil:
		answer = l.q.clientsOf(l.q.peer(), ask.From, ask.FromAfter, *ask.Clients)
	case ask.TakeBack != 0:
		answer = l.q.answerTakeBack(ask.TakeBack, ask.Reason)
	case ask.Close != 0:
		answer = peerOutcomeOf(l.q.closeHere(ask.Close))
	case ask.Lease != 0:
		answer = l.q.localTaker(ask.Job, ask.Lease)
	case ask.Job != 0:
		answer = l.q.answerHolder(ask.Job)
	}
	out, _ := json.Marshal(answer) // cannot fail
	return string(out)
}

// answerHolder returns which connection of this server holds a job.
func (q *Queue) answerHolder(id uint64) JobHolder {
	q.clients.mu.Lock()
	nobody := JobHolder{Named: len(q.clients.names) > 0}
	q.clients.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), PeerPatience)
	defer cancel()
	job, err := q.JobStats(ctx, id)
	if err != nil || job.Leased || job.Holder == 0 {
		return nobody
	}
	if holder := q.localHolder(job.Holder); holder != nil {
		return *holder
	}
	return nobody
}
