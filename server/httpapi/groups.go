package httpapi

import (
	"context"
	"errors"
	"reflect"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/tube"
)

// This file has the operations about the groups of a tube.

func (svc *service) groupOperations() []*row {
	const path = "/v1/tubes/{tube}/groups"
	return []*row{
		typed(svc, Operation{"GET", path, rightOf(protocol.ListGroups), InPath}, doc("groups", "List the groups of a tube", 200,
			"Those with a job, with limits of their own, or that are paused; sorted by name."), svc.groups),
		typed(svc, Operation{"GET", path + "/{group}", rightOf(protocol.StatsGroup), InPath}, doc("group", "Get a group", 200,
			"Its counts, the limits that apply, and what was set for it."), svc.group),
		typed(svc, Operation{"PUT", path + "/{group}", rightOf(protocol.SetGroup), InPath}, doc("setGroup", "Set the limits and the weight of a group", 204,
			"Replaces what was set for it. What is missing applies as the policy of the tube says."), svc.setGroup),
		typed(svc, Operation{"DELETE", path + "/{group}", rightOf(protocol.SetGroup), InPath}, doc("resetGroup", "Delete what was set for a group", 204,
			"Its jobs stay."), svc.resetGroup),
		typed(svc, Operation{"POST", path + "/{group}/pause", rightOf(protocol.PauseGroup), InPath}, doc("pauseGroup", "Pause a group: none of its jobs is reserved for a time", 204,
			"The group need not have jobs yet. The reason is only logged."), svc.pauseGroup),
		typed(svc, Operation{"POST", path + "/{group}/flush", rightOf(protocol.FlushGroup), InPath}, doc("flushGroup", "Delete the ready, delayed and buried jobs of a group", 200, ""), svc.flushGroup),
	}
}

// GroupPath is a tube and a group in a path.
type GroupPath struct {
	TubePath
	Group string `path:"group" minLength:"1" maxLength:"128" doc:"percent-encoded"`
}

// checkGroup returns the problem for a name that is not the name of a group.
func (in *GroupPath) checkGroup() error {
	if !protocol.ValidGroup(in.Group) {
		return invalidGroup(in.Group)
	}
	return nil
}

func invalidGroup(name string) *problem {
	return invalid("group: %q is not the name of a group: 1 to %d bytes of UTF-8 without control characters", name, protocol.MaxGroup)
}

// LimitOptions are limits of a tube, or of a group.
type LimitOptions struct {
	Concurrency *uint32 `json:"concurrency,omitempty" minimum:"1" maximum:"1000000" doc:"the maximum number of reserved jobs"`
	Rate        *string `json:"rate,omitempty" maxLength:"64" doc:"the maximum number of reserves in any period of each length, such as 100/m,1000/h"`
}

// groupConfig is what is set for one group, over the policy of its tube.
type groupConfig struct {
	LimitOptions
	Weight *uint32   `json:"weight,omitempty" minimum:"1" maximum:"1000" doc:"the share of the group among the others; the default is 1"`
	TTL    *duration `json:"ttl,omitempty" doc:"how long this is kept while the group has no jobs; the default is 30d, 0 is for ever"`
}

// config returns what the fields set; nil if that is nothing.
func (c *groupConfig) config() (config *tube.GroupConfig, err error) {
	if reflect.ValueOf(c).Elem().IsZero() {
		return nil, nil
	}
	config = &tube.GroupConfig{Weight: 1, TTL: tube.DefaultGroupTTL}
	var p tube.Policy
	if err := limitOptions.read(&c.LimitOptions, &p); err != nil {
		return nil, err
	}
	config.Limits = p.Limits
	if c.Weight != nil {
		if config.Weight = *c.Weight; config.Weight < 1 || config.Weight > tube.MaxGroupWeight {
			return nil, invalid("weight: it must be from 1 to %d", tube.MaxGroupWeight)
		}
	}
	if c.TTL != nil {
		config.TTL = time.Duration(*c.TTL)
	}
	return config, nil
}

// GroupInfo describes a group.
type GroupInfo struct {
	Name     string `json:"name"`
	Ready    uint64 `json:"ready"`
	Delayed  uint64 `json:"delayed"`
	Reserved uint64 `json:"reserved"`
	Buried   uint64 `json:"buried"`
	LimitOptions
	Weight    uint32 `json:"weight"`
	PauseLeft int64  `json:"pause_left_ms"`
	Held      string `json:"held,omitempty" enum:"paused,concurrency,rate" doc:"why no ready job of the group can be reserved now"`
}

func groupInfoOf(s *tube.GroupStats) GroupInfo {
	return GroupInfo{
		Name: s.Name, Ready: s.Ready, Delayed: s.Delayed, Reserved: s.Reserved, Buried: s.Buried,
		LimitOptions: limitOptions.of(&tube.Policy{Limits: s.Limits}), Weight: s.Weight, PauseLeft: s.PauseLeft.Milliseconds(), Held: s.Held.String(),
	}
}

type groupsInput struct {
	TubePath
	Cursor string `query:"cursor" maxLength:"128" doc:"next of the previous page"`
	Limit  uint64 `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type groupsOutput struct{ Body groupsPage }

// groupsPage is a page of groups.
type groupsPage struct {
	Groups []GroupInfo `json:"groups" nullable:"false"`
	Next   string      `json:"next" doc:"the cursor of the next page; empty on the last page"`
}

func (svc *service) groups(ctx context.Context, in *groupsInput) (*groupsOutput, error) {
	groups, next, err := svc.queue.ListGroups(ctx, in.Tube, uint32(in.Limit), in.Cursor)
	if err != nil {
		return nil, err
	}
	page := groupsPage{Groups: []GroupInfo{}, Next: next}
	for i := range groups {
		page.Groups = append(page.Groups, groupInfoOf(&groups[i]))
	}
	return &groupsOutput{page}, nil
}

type groupOutput struct{ Body groupWithConfig }

// groupWithConfig describes a group and what was set for it.
type groupWithConfig struct {
	GroupInfo
	Set *groupConfig `json:"set,omitempty" doc:"what was set for the group; only for users who may set it"`
}

func (svc *service) group(ctx context.Context, in *GroupPath) (*groupOutput, error) {
	if err := in.checkGroup(); err != nil {
		return nil, err
	}
	s, err := svc.queue.GroupStats(ctx, in.Tube, in.Group)
	if err != nil {
		return nil, err
	}
	out := &groupOutput{groupWithConfig{GroupInfo: groupInfoOf(s)}}
	if checkOtherTube(ctx, access.Admin, in.Tube) != nil {
		return out, nil
	}
	config, err := svc.queue.Group(ctx, in.Tube, in.Group)
	if errors.Is(err, queue.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	ttl := duration(config.TTL)
	out.Body.Set = &groupConfig{limitOptions.of(&tube.Policy{Limits: config.Limits}), &config.Weight, &ttl}
	return out, nil
}

type setGroupInput struct {
	GroupPath
	Body groupConfig
}

func (svc *service) setGroup(ctx context.Context, in *setGroupInput) (*noOutput, error) {
	if err := in.checkGroup(); err != nil {
		return nil, err
	}
	config, err := in.Body.config()
	if err != nil {
		return nil, err
	}
	if note := actIn(ctx); note != nil {
		note.values = in.Body
	}
	return nil, svc.queue.SetGroup(ctx, in.Tube, in.Group, config)
}

func (svc *service) resetGroup(ctx context.Context, in *GroupPath) (*noOutput, error) {
	if err := in.checkGroup(); err != nil {
		return nil, err
	}
	return nil, svc.queue.SetGroup(ctx, in.Tube, in.Group, nil)
}

type pauseGroupInput struct {
	GroupPath
	PauseOptions
}

func (svc *service) pauseGroup(ctx context.Context, in *pauseGroupInput) (*noOutput, error) {
	if err := in.checkGroup(); err != nil {
		return nil, err
	}
	seconds, err := parseSeconds("for", in.For)
	if err != nil {
		return nil, err
	}
	if err := svc.queue.PauseGroup(ctx, in.Tube, in.Group, seconds); err != nil {
		return nil, err
	}
	svc.log.Info("group paused", "tube", in.Tube, "group", in.Group, "seconds", seconds, "reason", in.Reason, "user", userName(ctx))
	return nil, nil
}

func (svc *service) flushGroup(ctx context.Context, in *GroupPath) (*countOutput, error) {
	if err := in.checkGroup(); err != nil {
		return nil, err
	}
	n, err := svc.queue.FlushGroup(ctx, in.Tube, in.Group)
	return answerCount(n, err)
}
