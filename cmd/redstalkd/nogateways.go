//go:build nogateways

package main

import (
	"errors"

	"redstalk/server/queue"
)

// This file replaces gateways.go in a program without the gateways, which is smaller since it
// needs no gRPC.

type gatewaySettings struct{}

type taskService struct{}

var errNoGateways = errors.New("this program was built without gateways (-tags nogateways)")

// gatewayOptions are the flags of the gateways, so that they are not unknown.
func (s *settings) gatewayOptions() (options []*option) {
	for _, flag := range []struct{ name, value string }{
		{"gateway", "NAME=ADDR"}, {"gateway-wait", "DURATION"}, {"gateway-strict", ""}, {"gateway-zone", "ZONE"}, {"gateway-origin", "ORIGINS"},
	} {
		options = append(options, &option{
			name: flag.name, value: flag.value, set: func(string) error { return errNoGateways }, help: "not in this program, which was built without gateways",
		})
	}
	return options
}

func (p *program) gatewayListeners() httpListeners { return nil }

// readOldProgram refuses the names of the old programs.
func readOldProgram(args []string) (rest []string, apply func(*settings) error, err error) {
	if len(args) > 0 && (args[0] == "ouqiang" || args[0] == "zywaited") {
		return nil, nil, failure(exitUsage, "%s: %w", args[0], errNoGateways)
	}
	return args, func(*settings) error { return nil }, nil
}

func (p *program) startTasks(*queue.Queue) error { return nil }
