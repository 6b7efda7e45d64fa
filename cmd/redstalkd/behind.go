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
const defaultBehindRate = 500

// behindOption is the row of --behind.
func (s *settings) behindOption() *option {
	return &option{name: "behind", value: "ADDR", set: s.setBehind,
		help: "serve in front of an old beanstalk server: its jobs come over as they are wanted,\nand by and by"}
}

// behindRateOption is the row of --behind-rate.
func (s *settings) behindRateOption() *option {
	return &option{name: "behind-rate", value: "N", set: s.setBehindRate, initial: strconv.Itoa(defaultBehindRate),
		help: "how many jobs a second come over that nobody waits for, at most; 0 for no limit"}
}

func (s *settings) setBehind(v string) error {
	s.behind = v
	return migrate.Validate(v)
}

func (s *settings) setBehindRate(v string) error {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a number of jobs", v)
	}
	s.behindRate = n
	return nil
}

// bringer is what brings over the jobs of an old server. Its methods may be called on nil: there is
// no old server.
type bringer struct{ *upstream.Front }

// bringer returns the one of --behind.
func (p *program) bringer() *bringer {
	if p.behind == "" {
		return nil
	}
	return &bringer{upstream.New(upstream.Config{Addr: p.behind, Rate: p.behindRate, Log: p.log})}
}

func (f *bringer) wanted() func([]string) {
	if f == nil {
		return nil
	}
	return f.Wanted
}

func (f *bringer) start(q *queue.Queue) {
	if f != nil {
		f.Start(q)
	}
}

func (f *bringer) stop() {
	if f != nil {
		f.Stop()
	}
}
