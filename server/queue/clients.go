package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Client is a connection of a client, or a request that waits, as lists of connections show it. On the wire between
// servers it is JSON.
type Client struct {
	ID       tube.Holder `json:"id"` // grows with each connection of a server
	Instance string      `json:"instance,omitempty"`
	Address  string      `json:"address"`
	Entrance string      `json:"entrance"` // how it came in: beanstalk, tls, unix or http
	Name     string      `json:"name,omitempty"`
	User     string      `json:"user,omitempty"`
	Used     string      `json:"used"`
	Watched  []string    `json:"watched"`  // at most MaxShownTubes of them
	Watching int         `json:"watching"` // how many it watches
	Waiting  bool        `json:"waiting,omitempty"`
	Jobs     int         `json:"jobs,omitempty"` // how many it holds; -1: unknown
	Held     []uint64    `json:"held,omitempty"` // at most MaxShownJobs of their ids
	Since    int64       `json:"since"`          // when it connected, ms since 1970
}

// MaxShownTubes limits the watched tubes that a list shows for each connection.
const MaxShownTubes = 20

// MaxShownJobs likewise limits the ids of the jobs that a connection holds.
const MaxShownJobs = 20

// ClientQuery asks for connections of one server, in the order of their ids.
type ClientQuery struct {
	After tube.Holder `json:"after"` // only ids above this
	Limit int         `json:"limit"`
	Mine  bool        `json:"mine,omitempty"` // only connections of User, none if that is ""
	User  string      `json:"user,omitempty"`
}

// Shows reports whether the query asks for the connections of a user.
func (q *ClientQuery) Shows(user string) bool { return !q.Mine || q.User != "" && q.User == user }

// ClientSource is a listener with connections.
type ClientSource interface {
	// Clients returns connections, in the order of their ids.
	Clients(q *ClientQuery) []Client

	// CloseClient begins to close a connection, as if its client had left. It reports false if there is no such connection.
	CloseClient(id tube.Holder) bool
}

// ServeClients adds a listener whose connections are listed.
func (q *Queue) ServeClients(source ClientSource) {
	q.clients.mu.Lock()
	defer q.clients.mu.Unlock()
	q.clients.sources = append(q.clients.sources, source)
}

// ClientPage is a page of the connections of all servers on the store.
type ClientPage struct {
	Clients []Client
	Next    string   // the cursor of the next page; "" if this is the last one
	Missing []string // servers that have not answered
}

// ErrBadCursor: a cursor is not one that a page had.
var ErrBadCursor = errors.New("this is not a cursor of a list of connections")

// PeerPatience is how long a list waits for the answers of other servers.
const PeerPatience = time.Second

// ListClients returns the connections of all servers that share the store, by the names of the
// servers and then by id: at most query.Limit, after those that the cursor says. query.After is
// not used.
func (q *Queue) ListClients(ctx context.Context, query ClientQuery, cursor string) (*ClientPage, error) {
	from, after, err := parseCursor(cursor)
	if err != nil {
		return nil, err
	}
	query.After = 0
	query.Limit++ // one more, to know whether there is a next page
	page := new(ClientPage)
	if own := q.peer(); own >= from {
		page.Clients = q.clientsOf(own, from, after, query)
	}
	if err := q.askForClients(ctx, page, from, after, query); err != nil {
		return nil, err
	}
	slices.SortFunc(page.Clients, func(a, b Client) int {
		return cmp.Or(strings.Compare(a.Instance, b.Instance), cmp.Compare(a.ID, b.ID))
	})
	if n := query.Limit - 1; len(page.Clients) > n {
		page.Clients = page.Clients[:n]
		page.Next = page.Clients[n-1].cursor()
	}
	return page, nil
}

// clientsOf returns the connections of this server that follow a cursor.
func (q *Queue) clientsOf(own, from string, after tube.Holder, query ClientQuery) []Client {
	if own == from {
		query.After = after
	}
	clients := q.localClients(&query)
	for i := range clients {
		clients[i].Instance = own
	}
	return clients
}

// askForClients adds the connections of the other servers to a page.
func (q *Queue) askForClients(ctx context.Context, page *ClientPage, from string, after tube.Holder, query ClientQuery) error {
	peers, ok := q.store.(storage.PeerStore)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, PeerPatience)
	defer cancel()
	answers, err := peers.AskPeers(ctx, from, question{Clients: &query, From: from, FromAfter: after}.text())
	if err != nil {
		return fmt.Errorf("asking the other servers: %w", err)
	}
	for _, a := range answers {
		var clients []Client
		if !a.Answered || json.Unmarshal([]byte(a.Text), &clients) != nil {
			page.Missing = append(page.Missing, a.Peer)
			continue
		}
		page.Clients = append(page.Clients, clients...)
	}
	slices.Sort(page.Missing)
	return nil
}

// peer returns the name of this server among those that share the store; "" if it is alone.
func (q *Queue) peer() string {
	if peers, ok := q.store.(storage.PeerStore); ok {
		return peers.Peer()
	}
	return ""
}

// localClients returns connections of this server, with the jobs that they hold.
func (q *Queue) localClients(query *ClientQuery) []Client {
	q.clients.mu.Lock()
	sources := slices.Clone(q.clients.sources)
	q.clients.mu.Unlock()
	clients := []Client{}
	for _, source := range sources {
		clients = append(clients, source.Clients(query)...)
	}
	if len(sources) > 1 {
		slices.SortFunc(clients, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	}
	clients = clients[:min(len(clients), query.Limit)]
	q.addHeld(clients)
	return clients
}

// addHeld sets which jobs the connections hold.
func (q *Queue) addHeld(clients []Client) {
	store, ok := q.store.(storage.HolderStore)
	if !ok || len(clients) == 0 {
		return
	}
	holders := make([]tube.Holder, len(clients))
	for i := range clients {
		holders[i] = clients[i].ID
	}
	all := store.HeldBy(holders, MaxShownJobs)
	for i := range clients {
		if clients[i].Jobs = -1; all != nil {
			clients[i].Jobs, clients[i].Held = all[i].Count, all[i].First
		}
	}
}

// cursor returns the cursor of the connections after c: the server and the id.
func (c *Client) cursor() string { return c.Instance + ":" + strconv.FormatUint(uint64(c.ID), 10) }

// parseCursor parses a cursor; "" is before all connections.
func parseCursor(cursor string) (from string, after tube.Holder, err error) {
	if cursor == "" {
		return "", 0, nil
	}
	from, number, found := strings.Cut(cursor, ":")
	id, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil {
		return "", 0, ErrBadCursor
	}
	return from, tube.Holder(id), nil
}
