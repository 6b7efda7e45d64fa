package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"redstalk/protocol/client"
)

// maxGroups is the largest number of groups: their numbers have six digits.
const maxGroups = 1_000_000

// unreachedLimit is a limit of reserved jobs of a group that no load reaches.
const unreachedLimit = 100_000

// grouped is N puts whose jobs are in random groups.
type grouped struct {
	puts   []byte
	digits []int // where in puts the numbers of the groups are
	n      int   // of groups
}

func newGrouped(l *load, body []byte) *grouped {
	const digits = "000000"
	g := &grouped{n: l.Groups}
	for range l.Pipeline {
		put := appendPut(nil, 0, body)
		line, rest, _ := bytes.Cut(put, []byte("\r\n"))
		g.puts = append(g.puts, line...)
		g.puts = append(g.puts, " group:customer-"...)
		g.digits = append(g.digits, len(g.puts))
		g.puts = append(append(append(g.puts, digits...), "\r\n"...), rest...)
	}
	return g
}

// next chooses other groups.
func (g *grouped) next() {
	for _, at := range g.digits {
		n := rand.IntN(g.n)
		for i := 5; i >= 0; i-- {
			g.puts[at+i] = '0' + byte(n%10)
			n /= 10
		}
	}
}

// limitGroups sets a limit for the groups of each tube that no load reaches, or with limit 0 removes
// it.
func (s *fixture) limitGroups(l *load, limit int) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range l.Tubes {
		line := "set-policy " + s.tube(i)
		if limit > 0 {
			line += fmt.Sprintf(" group-concurrency:%d", limit)
		}
		err := c.Ask([]byte(line+"\r\n"), 1, func(reply *client.Reply) error {
			if string(reply.Line) != "SET" {
				return reply.Unexpected()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("setting the policy of %s: %w", s.tube(i), err)
		}
	}
	return nil
}
