package attack

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"redstalk/protocol/client"
)

// tubes are the attacks with many tubes.
var tubes = []attack{
	{"watch-100k", "one connection watches 100,000 tubes, polls, and closes", "others at most 20 ms", watch100k},
	{"poll-20k", "200 polls in a packet over 20,000 tubes", "others at most 20 ms", poll20k},
	{"paused-10k", "reserves with 10,000 tubes paused, on Redis", "as without", paused10k},
	{"list-100k", "list-tubes of 100,000 tubes with a job each", "no call above 20 ms", list100k},
}

func watch100k(r *run) error {
	return r.onEach(engines, nil, func(s *cluster) error {
		const n = 100_000
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		before, _ := at.resident()
		t, err := s.during(at, func() error { return watchMany(c, n, 0) })
		after, _ := at.resident()
		r.report("%s: watch: %v; %d bytes of memory each", s.engine, t, (after-before)/n)
		if err != nil {
			return err
		}
		t, err = s.during(at, func() error { return closeAndWait(c, at) })
		r.report("%s: close: %v", s.engine, t)
		return err
	})
}

// closeAndWait closes a connection, and waits until the server has noticed.
func closeAndWait(c *client.Conn, at *instance) error {
	asker, err := dial(at.addr)
	if err != nil {
		return err
	}
	defer asker.Close()
	connections := func() (int, error) {
		page, err := asker.Page("stats")
		if err != nil {
			return 0, err
		}
		value, _ := page.Value("current-connections")
		return strconv.Atoi(value)
	}
	before, err := connections()
	if err != nil {
		return err
	}
	c.Close()
	for {
		if now, err := connections(); err != nil || now < before {
			return err
		}
	}
}

func poll20k(r *run) error {
	return r.onEach(engines, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := watchMany(c, 20_000, 0); err != nil {
			return err
		}
		t, err := s.during(at, func() error {
			return c.Ask(bytes.Repeat([]byte("reserve-with-timeout 0\r\n"), 200), 200, client.Expect(client.TimedOut))
		})
		r.report("%s: %v", s.engine, t)
		return err
	})
}

func paused10k(r *run) error {
	return r.on(redis, 1, nil, func(s *cluster) error {
		const n = 10_000
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		before, err := roundTime(at)
		if err != nil {
			return err
		}
		if err := watchMany(c, n, 0); err != nil {
			return err
		}
		err = bulk(c, n, client.Other, func(out []byte, i int) []byte { return fmt.Appendf(out, "pause-tube t%d 600\r\n", i) })
		if err != nil {
			return err
		}
		after, err := roundTime(at)
		r.report("a round of put, reserve, delete: %s (%s before)", format(after), format(before))
		return err
	})
}

// roundTime is the duration of a put, a reserve and a delete, one after the other.
func roundTime(at *instance) (time.Duration, error) {
	c, err := dial(at.addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.UseOnly("others"); err != nil {
		return 0, err
	}
	const rounds = 1000
	var o bystander
	begun := time.Now()
	for range rounds {
		if err := o.round(c); err != nil {
			return 0, err
		}
	}
	return time.Since(begun) / rounds, nil
}

func list100k(r *run) error {
	return r.onEach([]engine{embedded, redis}, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := spread(c, 100_000, 1); err != nil {
			return err
		}
		t, err := s.during(at, func() error { _, err := c.Page("list-tubes"); return err })
		r.report("%s: %v", s.engine, t)
		return err
	})
}
