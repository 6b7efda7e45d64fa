package server

import (
	"slices"

	"redstalk/protocol"
	"redstalk/storage"
)

// This file has the commands about the connection and the server.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Drain:        {planDrain, answerDone},
		protocol.Undrain:      {planUndrain, answerDone},
		protocol.Capabilities: {planNothing, answerCapabilities},
		protocol.Quit:         {planQuit, func(*session, *request, *storage.Answer) {}},
	})
}

func planNothing(*session, *protocol.Command, *request) {}

func planDrain(s *session, _ *protocol.Command, _ *request) { s.queue.Drain() }

func planUndrain(s *session, _ *protocol.Command, _ *request) { s.queue.Undrain() }

// capabilities are the names of what this server can do beyond beanstalkd, for clients that ask.
var capabilities = []string{
	"put-tags", "meta", "reason", "policy", "patterns", "backoff", "expire", "lease", "batch", "info", "list-jobs",
	"flush", "move", "replay", "drain", "clients", "weights", "restore", "groups", "schedules", "batches", "results", "history",
	"checkpoint", "progress",
}

func answerCapabilities(s *session, _ *request, _ *storage.Answer) {
	words := slices.Clone(capabilities)
	if s.queue.Pushes() {
		words = append(words, "push")
	}
	if s.principal != nil {
		words = append(words, "auth")
		if !s.principal.user.SeesAllValues() {
			words = append(words, "redacted")
		}
	}
	s.list(words)
}

func planQuit(s *session, _ *protocol.Command, _ *request) { s.quit = true }
