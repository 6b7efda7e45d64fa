package main

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"redstalk/protocol/migrate"
	"redstalk/server/queue"
	"redstalk/server/upstream"
)

// defaultUpstreamRate is how many jobs a second are migrated in the background: few enough that
// clients of both servers do not notice.
const defaultUpstreamRate = 500

// upstreamOption is the row of --upstream.
func (s *settings) upstreamOption() *option {
	return &option{name: "upstream", value: "ADDR", set: s.setUpstream,
		help: "serve in front of an old beanstalk server: its jobs are migrated when a client\nwants them, and in the background"}
}

// upstreamRateOption is the row of --upstream-rate.
func (s *settings) upstreamRateOption() *option {
	return &option{name: "upstream-rate", value: "N", set: s.setUpstreamRate, initial: strconv.Itoa(defaultUpstreamRate),
		help: "migrate at most N jobs a second in the background; 0 for no limit"}
}

func (s *settings) setUpstream(v string) error {
	s.upstream = v
	return migrate.Validate(v)
}

func (s *settings) setUpstreamRate(v string) error {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a number of jobs", v)
	}
	s.upstreamRate = n
	return nil
}

// migrator migrates the jobs of the old server of --upstream. A nil migrator, without that flag, does
// nothing.
type migrator struct{ *upstream.Proxy }

// newMigrator returns the migrator of --upstream, or nil without that flag.
func (p *program) newMigrator() *migrator {
	if p.upstream == "" {
		return nil
	}
	return &migrator{upstream.New(upstream.Config{Addr: p.upstream, Rate: p.upstreamRate, Log: p.log})}
}

func (f *migrator) wanted() func([]string) {
	if f == nil {
		return nil
	}
	return f.Wanted
}

func (f *migrator) start(q *queue.Queue) {
	if f != nil {
		f.Start(q)
	}
}

func (f *migrator) stop(ctx context.Context) error {
	if f == nil {
		return nil
	}
	return f.Stop(ctx)
}
