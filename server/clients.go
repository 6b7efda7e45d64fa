package server

import (
	"context"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands about connections.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.NameClient:  {planNameClient, answerDone},
		protocol.ListClients: {planListClients, answerListClients},
		protocol.CloseClient: {planCloseClient, answerAsked},
	})
}

func planNameClient(s *session, c *protocol.Command, _ *request) {
	s.name = string(c.Name)
	s.queue.NameClient(s.holder, s.name)
	if s.log != nil {
		s.log = s.server.log.With(s.logFields()...)
	}
}

func planListClients(s *session, c *protocol.Command, r *request) {
	s.endsBurst = true
	query, cursor := s.shownClients(), c.Cursor
	query.Limit = int(c.MaxJobs)
	r.ask = &question{do: func(ctx context.Context, to *question) { to.page, to.err = s.queue.ListClients(ctx, query, cursor) }}
}

// shownClients returns which connections the client may see: with admin on all tubes all, else those
// of its user. Unauthenticated clients see nobody.
func (s *session) shownClients() queue.ClientQuery {
	if s.principal == nil {
		return queue.ClientQuery{}
	}
	return queue.ClientQuery{Mine: !s.principal.user.MaySeeClients(), User: s.principal.user.Own()}
}

// answerListClients writes a page: the cursor of the next page, the servers that have not answered,
// and a line for each connection.
func answerListClients(s *session, r *request, _ *storage.Answer) {
	page, err := r.ask.page, r.ask.err
	switch {
	case err == queue.ErrBadCursor:
		s.out.BadFormat()
		return
	case err != nil:
		s.fail(r, err)
		return
	}
	var p protocol.Page
	p.Word("next", page.Next)
	p.List("missing", len(page.Missing))
	for _, name := range page.Missing {
		p.Item(name)
	}
	p.List("clients", len(page.Clients))
	for i := range page.Clients {
		p.Flow(clientLine(&page.Clients[i]))
	}
	s.out.OK(p.Bytes())
}

func planCloseClient(s *session, c *protocol.Command, r *request) {
	instance, id := string(c.To), tube.Holder(c.ID)
	closed := func(s *session) { s.out.Done(protocol.CloseClient) }
	if id == s.holder && s.queue.IsHere(instance) { // it ends as with quit, but after the reply
		r.ask, s.quit = &question{started: true, reply: closed}, true
		return
	}
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		return closed, s.queue.CloseClient(ctx, instance, id)
	})
}

// clientLine returns the line of list-clients for a connection.
func clientLine(c *queue.Client) *protocol.FlowMap {
	m := new(protocol.FlowMap)
	m.Uint("id", uint64(c.ID))
	for _, word := range [][2]string{{"instance", c.Instance}, {"address", c.Address}, {"name", c.Name}, {"user", c.User}} {
		if word[1] != "" {
			m.Quoted(word[0], word[1])
		}
	}
	m.Bare("entrance", c.Entrance)
	m.Quoted("used", c.Used)
	m.QuotedList("watched", c.Watched)
	m.Int("watching", int64(c.Watching))
	m.Bool("waiting", c.Waiting)
	if c.Jobs >= 0 {
		m.Int("jobs", int64(c.Jobs))
	}
	if c.Jobs > 0 {
		m.UintList("held", c.Held)
	}
	m.Int("since-ms", c.Since)
	return m
}
