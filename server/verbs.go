package server

import (
	"slices"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// handler says how a verb is planned and answered. plan turns a command into an operation, and answer
// turns the operation's answer into a reply. plan can set r.reply if the reply does not depend on the
// store. If it plans no operation, answer gets nil. answer is not called for an error, nor for an answer
// that is NotFound, unless the command has several operations: then it is called once, with nil, and
// reads their answers itself.
type handler struct {
	plan   func(s *session, c *protocol.Command, r *request)
	answer func(s *session, r *request, a *storage.Answer)
}

// handlers is the table of verbs.
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

// replyWith returns a handler's answer function for a reply without arguments.
func replyWith(write func(*protocol.Writer)) func(*session, *request, *storage.Answer) {
	return func(s *session, _ *request, _ *storage.Answer) { write(s.out) }
}

func planNothing(*session, *protocol.Command, *request) {}

func planDrain(s *session, _ *protocol.Command, _ *request) { s.queue.Drain() }

func planUndrain(s *session, _ *protocol.Command, _ *request) { s.queue.Undrain() }

// capabilities are the names of what this server can do beyond beanstalkd, for clients that ask.
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
