package server

import (
	"slices"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/storage/body"
	"redstalk/tube"
)

// handler is how a command is turned into an operation and its answer into a
// reply. plan may set r.word when the reply does not depend on the store, or plan
// no operation: then answer gets nil. answer is not called for an error, nor for an
// answer that is NotFound, unless the command has several operations: then it is
// called once, with nil, and looks at the answers itself.
type handler struct {
	plan   func(s *session, c *protocol.Command, r *request)
	answer func(s *session, r *request, a *storage.Answer)
}

var handlers [protocol.NumVerbs]handler

func init() {
	handlers = [protocol.NumVerbs]handler{
		protocol.Put:                {planPut, answerPut},
		protocol.Reserve:            {planReserve, answerReserved},
		protocol.ReserveWithTimeout: {planReserve, answerReserved},
		protocol.ReserveJob:         {planReserveJob, answerReservedJob},
		protocol.Delete:             {planMove(tube.Delete), replyWith((*protocol.Writer).Deleted)},
		protocol.Release:            {planMove(tube.Release), replyWith((*protocol.Writer).Released)},
		protocol.Bury:               {planMove(tube.Bury), replyWith((*protocol.Writer).Buried)},
		protocol.Touch:              {planMove(tube.Touch), replyWith((*protocol.Writer).Touched)},
		protocol.KickJob:            {planMove(tube.KickJob), replyWith((*protocol.Writer).KickedJob)},
		protocol.Kick:               {planKick, func(s *session, _ *request, a *storage.Answer) { s.out.Kicked(uint64(a.Count)) }},
		protocol.Peek:               {planPeek, answerFound},
		protocol.PeekReady:          {planPeekHead(tube.Ready), answerFound},
		protocol.PeekDelayed:        {planPeekHead(tube.Delayed), answerFound},
		protocol.PeekBuried:         {planPeekHead(tube.Buried), answerFound},
		protocol.Use:                {planUse, func(s *session, r *request, _ *storage.Answer) { s.out.Using(r.name) }},
		protocol.Watch:              {planWatch, answerWatching},
		protocol.Ignore:             {planIgnore, answerWatching},
		protocol.ListTubeUsed:       {planListTubeUsed, func(s *session, r *request, _ *storage.Answer) { s.out.Using(r.name) }},
		protocol.ListTubesWatched:   {planListTubesWatched, func(s *session, r *request, _ *storage.Answer) { s.list(r.names) }},
		protocol.ListTubes:          {planListTubes, func(s *session, _ *request, a *storage.Answer) { s.list(s.visible(a.Names)) }},
		protocol.PauseTube:          {planPause, replyWith((*protocol.Writer).Paused)},
		protocol.Stats:              {planStats, answerStats},
		protocol.StatsJob:           {planStatsJob, answerStatsJob},
		protocol.StatsTube:          {planStatsTube, answerStatsTube},
		protocol.ReserveBatch:       {planReserveBatch, answerReserveBatch},
		protocol.DeleteBatch:        {planDeleteBatch, answerDeleteBatch},
		protocol.Drain:              {planDrain, replyWith((*protocol.Writer).Draining)},
		protocol.Undrain:            {planUndrain, replyWith((*protocol.Writer).NotDraining)},
		protocol.Reschedule:         {planReschedule, replyWith((*protocol.Writer).Rescheduled)},
		protocol.SetPriority:        {planSetPriority, replyWith((*protocol.Writer).Updated)},
		protocol.Capabilities:       {planNothing, answerCapabilities},
		protocol.SetPolicy:          {planSetPolicy, answerSetPolicy},
		protocol.GetPolicy:          {planGetPolicy, answerGetPolicy},
		protocol.ListPolicies:       {planListPolicies, func(s *session, _ *request, a *storage.Answer) { s.list(s.administered(a.Names)) }},
		protocol.ReserveLease:       {planReserveLease, answerReservedLease},
		protocol.DeleteLease:        {planMoveLease(tube.Delete), replyWith((*protocol.Writer).Deleted)},
		protocol.TouchLease:         {planMoveLease(tube.Touch), replyWith((*protocol.Writer).Touched)},
		protocol.ReleaseLease:       {planMoveLease(tube.Release), replyWith((*protocol.Writer).Released)},
		protocol.BuryLease:          {planMoveLease(tube.Bury), replyWith((*protocol.Writer).Buried)},
		protocol.Find:               {planKey(storage.PeekKey), answerFound},
		protocol.DeleteKey:          {planKey(storage.DeleteKey), replyWith((*protocol.Writer).Deleted)},
		protocol.ListJobs:           {planListJobs, answerListJobs},
		protocol.FlushTube:          {planFlush, func(s *session, _ *request, a *storage.Answer) { s.out.FlushedJobs(uint64(a.Count)) }},
		protocol.MoveJobs:           {planMoveJobs, func(s *session, _ *request, a *storage.Answer) { s.out.Moved(uint64(a.Count)) }},
		protocol.Auth:               {planAuth, answerAuth},
		protocol.Quit:               {planQuit, func(*session, *request, *storage.Answer) {}},
	}
}

// word makes a handler's answer of a reply without arguments.
func replyWith(write func(*protocol.Writer)) func(*session, *request, *storage.Answer) {
	return func(s *session, _ *request, _ *storage.Answer) { write(s.out) }
}

func planPut(s *session, c *protocol.Command, r *request) {
	if s.queue.Draining() {
		r.reply = func(s *session) { s.out.Draining() }
		takeBuffer(c).Release()
		return
	}
	s.bytes += len(c.Body)
	op := storage.Op{Kind: storage.Put, Tube: s.used, Pri: c.Pri, Delay: c.Delay, TTR: c.TTR, Body: c.Body, Buffer: takeBuffer(c)}
	if c.Tags != nil {
		op.Args = &storage.Args{Tags: tagsOf(c.Tags)}
	}
	s.addOp(r, op)
	c.Body = nil
}

// takeBuffer takes over the use of the body's Buffer, which comes from newBuffer; nil if
// it has none.
func takeBuffer(c *protocol.Command) *body.Buffer {
	b, _ := c.Buffer.(*body.Buffer)
	c.Buffer = nil
	return b
}

func planReserveJob(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: s.holder, ID: c.ID})
}

func planMove(m tube.Move) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		s.addOp(r, storage.Op{Kind: storage.Move, Move: m, Holder: s.holder, ID: c.ID, Pri: c.Pri, Delay: c.Delay})
	}
}

func planKick(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Kick, Tube: s.used, MaxJobs: c.Bound})
}

func planPeek(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Peek, ID: c.ID})
}

func planPeekHead(state tube.State) func(*session, *protocol.Command, *request) {
	return func(s *session, _ *protocol.Command, r *request) {
		s.addOp(r, storage.Op{Kind: storage.PeekHead, Tube: s.used, State: state})
	}
}

func answerFound(s *session, _ *request, a *storage.Answer) {
	s.out.Found(a.ID, a.Body, a.Buffer)
	a.Buffer = nil // the writer's
}

func planUse(s *session, c *protocol.Command, r *request) {
	if string(c.Name) != s.used {
		name := string(c.Name)
		s.addRef(tube.Using, 1, name)
		s.addRef(tube.Using, -1, s.used)
		s.used = name
	}
	s.principal.useAccepted(s)
	r.name = s.used
}

func planListTubeUsed(s *session, _ *protocol.Command, r *request) { r.name = s.used }

func planWatch(s *session, c *protocol.Command, r *request) {
	if s.watched.find(c.Name) < 0 {
		name := string(c.Name)
		s.addRef(tube.Watching, 1, name)
		s.watched.add(name)
		s.principal.watchedChanged()
	}
	r.watchCount = s.watched.len()
}

func planIgnore(s *session, c *protocol.Command, r *request) {
	i := s.watched.find(c.Name)
	switch {
	case i >= 0 && s.watched.len() == 1:
		r.reply = func(s *session) { s.out.NotIgnored() }
	case i >= 0:
		s.addRef(tube.Watching, -1, s.watched.names[i])
		s.watched.remove(i)
		s.principal.watchedChanged()
	}
	r.watchCount = s.watched.len()
}

func answerWatching(s *session, r *request, _ *storage.Answer) { s.out.Watching(r.watchCount) }

func planListTubesWatched(s *session, _ *protocol.Command, r *request) {
	s.tubes += s.watched.len()
	r.names = s.watched.lend()
}

func planListTubes(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Tubes})
}

func planPause(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Pause, Tube: string(c.Name), Delay: c.Delay})
}

func planStats(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Stats})
}

func planStatsJob(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.JobStats, ID: c.ID})
}

func planStatsTube(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.TubeStats, Tube: string(c.Name)})
}

func planReschedule(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Reschedule, ID: c.ID, In: c.In})
}

func planSetPriority(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.SetPriority, ID: c.ID, Pri: c.Pri})
}

func planDrain(s *session, _ *protocol.Command, _ *request) { s.queue.Drain() }

func planUndrain(s *session, _ *protocol.Command, _ *request) { s.queue.Undrain() }

func planNothing(*session, *protocol.Command, *request) {}

// capabilities are what this server can beyond beanstalkd, by the words that its
// clients may ask for.
var capabilities = []string{"put-tags", "policy", "lease", "batch", "list-jobs", "flush", "move", "drain"}

func answerCapabilities(s *session, _ *request, _ *storage.Answer) {
	words := slices.Clone(capabilities)
	if s.queue.Pushes() {
		words = append(words, "push")
	}
	if s.principal != nil {
		words = append(words, "auth")
	}
	s.list(words)
}

func planQuit(s *session, _ *protocol.Command, _ *request) { s.quit = true }
