package server

import (
	"encoding/base64"
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/field"
)

// This file has the commands about groups.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.SetGroup:   {planSetGroup, answerDone},
		protocol.GetGroup:   {planGroup(storage.GetGroup), answerGetGroup},
		protocol.StatsGroup: {planGroup(storage.GroupStats), answerStatsGroup},
		protocol.ListGroups: {planListGroups, answerListGroups},
		protocol.PauseGroup: {planPauseGroup, answerDone},
		protocol.FlushGroup: {planGroup(storage.Flush), func(s *session, _ *request, a *storage.Answer) { s.out.FlushedJobs(uint64(a.Count)) }},
	})
}

// planGroup returns the plan of a command about a group of a tube.
func planGroup(kind storage.Kind) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		s.addOp(r, storage.Op{Kind: kind, Tube: string(c.Name), Args: &storage.Args{Group: c.Key}})
	}
}

func planSetGroup(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.SetGroup, Tube: string(c.Name), Args: &storage.Args{Group: c.Key, GroupConfig: groupConfigOf(c.Tags)}})
}

// groupConfigOf translates the tags of set-group for package tube.
func groupConfigOf(t *protocol.Tags) *tube.GroupConfig {
	if t == nil {
		return nil
	}
	config := &tube.GroupConfig{Limits: t.Limits, Weight: max(t.Weight, 1), TTL: tube.DefaultGroupTTL}
	if t.HasTTL {
		config.TTL = t.TTL
	}
	return config
}

func planPauseGroup(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.PauseGroup, Tube: string(c.Name), Delay: c.Delay, Args: &storage.Args{Group: c.Key}})
}

// planListGroups plans list-groups. A cursor is the name of a group in base64, because names can have
// spaces.
func planListGroups(s *session, c *protocol.Command, r *request) {
	cursor, err := base64.RawURLEncoding.DecodeString(c.Cursor)
	if err != nil {
		r.reply = func(s *session) { s.out.BadFormat() }
		return
	}
	s.addOp(r, storage.Op{Kind: storage.ListGroups, Tube: string(c.Name), MaxJobs: c.MaxJobs, Args: &storage.Args{Cursor: string(cursor)}})
}

// answerGetGroup writes what is set for a group as the tags that set it.
func answerGetGroup(s *session, _ *request, a *storage.Answer) {
	var page protocol.Page
	config := a.Result.GroupConfig
	addFields(&page, &tube.Policy{Limits: config.Limits}, "")
	page.Uint("weight", uint64(config.Weight))
	page.Bare("ttl", field.Durations(config.TTL))
	s.out.OK(page.Bytes())
}

func answerStatsGroup(s *session, _ *request, a *storage.Answer) {
	var page protocol.Page
	g := &a.Result.Groups[0]
	page.Quoted("name", g.Name)
	for _, n := range countsOf(g) {
		page.Uint(n.word, n.count)
	}
	page.Bare("rate", rateWord(g))
	page.Int("pause-time-left", int64(g.PauseLeft/time.Second))
	page.Bare("held", heldWord(g.Held))
	s.out.OK(page.Bytes())
}

func answerListGroups(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	p.Word("next", base64.RawURLEncoding.EncodeToString([]byte(a.Result.Cursor)))
	p.List("groups", len(a.Result.Groups))
	for i := range a.Result.Groups {
		p.Flow(groupLine(&a.Result.Groups[i]))
	}
	s.out.OK(p.Bytes())
}

// groupLine returns the line of list-groups for a group.
func groupLine(g *tube.GroupStats) *protocol.FlowMap {
	m := new(protocol.FlowMap)
	m.Quoted("name", g.Name)
	for _, n := range countsOf(g) {
		m.Uint(n.word, n.count)
	}
	m.Bare("rate", rateWord(g))
	m.Int("pause-time-left", int64(g.PauseLeft/time.Second))
	m.Bare("held", heldWord(g.Held))
	return m
}

type wordCount struct {
	word  string
	count uint64
}

// countsOf returns the numbers that are known of a group; 0 is no concurrency limit.
func countsOf(g *tube.GroupStats) []wordCount {
	return []wordCount{
		{"ready", g.Ready}, {"delayed", g.Delayed}, {"reserved", g.Reserved}, {"buried", g.Buried},
		{"concurrency", uint64(g.Concurrency)}, {"weight", uint64(g.Weight)},
	}
}

// rateWord returns the rates of a group, "none" if it has none.
func rateWord(g *tube.GroupStats) string {
	if g.Rates == (tube.Rates{}) {
		return "none"
	}
	return g.Rates.String()
}

// heldWord returns why ready jobs are held, "no" if they are not.
func heldWord(h tube.Held) string {
	if h == tube.NotHeld {
		return "no"
	}
	return h.String()
}
