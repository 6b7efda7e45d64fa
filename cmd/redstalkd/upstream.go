package main

import (
	"fmt"
	"math"
	"strconv"

	"redstalk/protocol/migrate"
	"redstalk/server/queue"
	"redstalk/server/upstream"
)

// defaultBehindRate is how many jobs a second come over that nobody waits for: few enough not to be
// felt by those who work at both servers.
const defaultUpstreamRate = 500

// behindOption is the row of --behind.
func (s *settings) upstreamOption() *option {
	return &option{name: "behind", value: "ADDR", set: s.setUpstream,
		help: "serve in front of an old beanstalk server: its jobs come over as they are wanted,\nand by and by"}
}

// behindRateOption is the row of --behind-rate.
func (s *settings) upstreamRateOption() *option {
	return &option{name: "behind-rate", value: "N", set: s.setUpstreamRate, initial: strconv.Itoa(defaultUpstreamRate),
		help: "how many jobs a second come over that nobody waits for, at most; 0 for no limit"}
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

// bringer is what brings over the jobs of an old server. Its methods may be called on nil: there is
// no old server.
type migrator struct{ *upstream.Front }

// bringer returns the one of --behind.
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

func (f *migrator) stop() {
	if f != nil {
		f.Stop()
	}
}
