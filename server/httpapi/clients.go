package httpapi

import (
	"context"
	"errors"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/tube"
)

type clientsInput struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type clientsOutput struct{ Body clientsPage }

// clientsPage is a page of connections.
type clientsPage struct {
	Clients []clientInfo `json:"clients" nullable:"false"`
	Next    string       `json:"next" doc:"the cursor of the next page; empty on the last page"`
	Missing []string     `json:"missing" nullable:"false" doc:"instances that have not answered; their connections are not in the page"`
}

// clientInfo describes a connection to the beanstalk port, or a reserve that waits over HTTP.
type clientInfo struct {
	ID       uint64   `json:"id" doc:"unique among the connections of an instance"`
	Instance string   `json:"instance,omitempty" doc:"missing if the engine cannot be shared"`
	Address  string   `json:"address"`
	Entrance string   `json:"entrance" enum:"beanstalk,tls,unix,http"`
	Name     string   `json:"name,omitempty" doc:"that the client has given the connection"`
	User     string   `json:"user,omitempty"`
	Used     string   `json:"used" doc:"the tube into which it puts; empty over HTTP"`
	Watched  []string `json:"watched" nullable:"false" doc:"the first 20 tubes from which it reserves"`
	Watching int      `json:"watching" doc:"the number of these tubes"`
	Waiting  bool     `json:"waiting" doc:"a reserve waits for a job"`
	Jobs     *int     `json:"jobs,omitempty" doc:"the number of jobs that it holds; missing while the store does not answer"`
	Held     []uint64 `json:"held,omitempty" doc:"the ids of up to 20 of them"`
	Since    int64    `json:"since_ms" doc:"when it connected, milliseconds since 1970"`
}

func (svc *service) clients(ctx context.Context, in *clientsInput) (*clientsOutput, error) {
	query := queue.ClientQuery{Limit: int(in.Limit)}
	if u := access.UserIn(ctx); u != nil {
		query.Mine, query.User = !u.MaySeeClients(), u.Own()
	}
	found, err := svc.queue.ListClients(ctx, query, in.Cursor)
	if errors.Is(err, queue.ErrBadCursor) {
		return nil, invalid("cursor: %v", err)
	}
	if err != nil {
		return nil, err
	}
	page := clientsPage{Clients: []clientInfo{}, Next: found.Next, Missing: append([]string{}, found.Missing...)}
	for i := range found.Clients {
		c := &found.Clients[i]
		info := clientInfo{
			ID: uint64(c.ID), Instance: c.Instance, Address: c.Address, Entrance: c.Entrance, Name: c.Name, User: c.User,
			Used: c.Used, Watched: c.Watched, Watching: c.Watching, Waiting: c.Waiting, Held: c.Held, Since: c.Since,
		}
		if c.Jobs >= 0 {
			info.Jobs = &c.Jobs
		}
		page.Clients = append(page.Clients, info)
	}
	return &clientsOutput{page}, nil
}

type closeClientInput struct {
	ID       uint64 `path:"id" minimum:"1"`
	Instance string `query:"instance" maxLength:"128" doc:"of the connection, as the list has it; without it: that which receives the request"`
}

func (svc *service) closeClient(ctx context.Context, in *closeClientInput) (*noOutput, error) {
	return nil, svc.queue.CloseClient(ctx, in.Instance, tube.Holder(in.ID))
}

type hungOutput struct{ Body hungPage }

// hungPage are jobs that are held for much longer than their TTR.
type hungPage struct {
	Jobs []hungInfo `json:"jobs" nullable:"false" doc:"by id, at most 1,000"`
}

type hungInfo struct {
	ID   uint64 `json:"id"`
	Tube string `json:"tube"`
	TTR  uint32 `json:"ttr" doc:"seconds"`
	Held int64  `json:"held_ms" doc:"since this delivery"`
}

func (svc *service) hung(ctx context.Context, _ *struct{}) (*hungOutput, error) {
	found, err := svc.queue.Hung(ctx, func(tube string) bool { return len(visible(ctx, []string{tube})) > 0 })
	if err != nil {
		return nil, err
	}
	page := hungPage{Jobs: []hungInfo{}}
	for i := range found {
		j := &found[i]
		page.Jobs = append(page.Jobs, hungInfo{j.ID, j.Tube, j.TTR, j.HeldFor.Milliseconds()})
	}
	return &hungOutput{page}, nil
}

// holderInfo says who holds a reserved job.
type holderInfo struct {
	Name     string `json:"name,omitempty" doc:"of the connection"`
	Address  string `json:"address,omitempty" doc:"of the connection; missing if the user may not see it"`
	Instance string `json:"instance,omitempty" doc:"of the connection, if several share the store"`
	Lease    bool   `json:"lease,omitempty" doc:"the job is reserved by a lease, which the connection has taken, if one is named"`
}

// holderOf returns who holds a job; nil if nobody does, or that is not known.
func (svc *service) holderOf(ctx context.Context, job *tube.JobStats) *holderInfo {
	if job.State != tube.Reserved {
		return nil
	}
	holder, err := svc.queue.HolderOf(ctx, job)
	if err != nil || holder == nil || *holder == (queue.JobHolder{Named: holder.Named}) {
		return nil // the job is worth more without it than an error
	}
	info := &holderInfo{Name: holder.Name, Address: holder.Address, Instance: holder.Instance, Lease: holder.Lease}
	if u := access.UserIn(ctx); u != nil && !u.MaySeeClients() && (u.Own() == "" || u.Own() != holder.User) {
		info.Address = ""
	}
	return info
}

// clientOperations are the operations on connections.
func (svc *service) clientOperations() []*row {
	return []*row{
		typed(svc, Operation{"GET", "/v1/clients", rightOf(protocol.ListClients), NoTube}, doc("clients", "List the connections of all instances", 200,
			"By instance, then by the time of the connection. Without the right admin on all tubes: those of the same user."), svc.clients),
		typed(svc, Operation{"GET", "/v1/hung", rightOf(protocol.ListHung), Listed}, doc("hung", "List the jobs whose workers probably hang", 200,
			"They have touched the job again and again, for more than ten times its TTR, and have neither reported a progress nor saved a checkpoint."), svc.hung),
		typed(svc, Operation{"DELETE", "/v1/clients/{id}", rightOf(protocol.CloseClient), NoTube}, doc("closeClient", "Close a connection", 204,
			"As if the client had left: its jobs become ready, without a failure. Jobs that it has leased stay leased. A reserve that waits over HTTP ends without a job."), svc.closeClient),
	}
}
