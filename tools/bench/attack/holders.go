package attack

import (
	"fmt"
	"strconv"
	"time"

	"redstalk/protocol/client"
)

// holders are the attacks by clients that hold many jobs and disconnect.
var holders = []attack{
	{"dead-60k", "an instance dies that holds 60,000 jobs", "all ready within 8 s of the kill, others below 50 ms", deadWithJobs},
	{"dead-100k-tubes", "an instance dies whose connections watch 100,000 tubes", "no call above 20 ms", deadWithTubes},
	{"close-100k", "a connection closes that holds 100,000 jobs", "others at most 50 ms", closeWithJobs},
	{"close-10k-tubes", "a connection closes that watches 10,000 tubes", "others at most 50 ms", closeWithTubes},
	{"holder-polls", "who holds 100,000 jobs polls an empty tube", "as without", holderPolls},
}

// hold puts n jobs and reserves them all on a connection, which it returns.
func hold(at *instance, n int) (*client.Conn, error) {
	c, err := dial(at.addr)
	if err != nil {
		return nil, err
	}
	if err := putMany(c, "held", n, 10, 0, 3600); err != nil {
		return nil, err
	}
	_, err = reserveMany(c, "held", n)
	return c, err
}

// awaitReady waits until n jobs of the tube that hold uses are ready.
func awaitReady(at *instance, n int) error {
	c, err := dial(at.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := command(c, "use held"); err != nil { // there may be no job in it yet
		return err
	}
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(20 * time.Millisecond) {
		page, err := c.Page("stats-tube held")
		if err != nil {
			return err
		}
		value, _ := page.Value("current-jobs-ready")
		if now, err := strconv.Atoi(value); err != nil || now >= n {
			return err
		}
	}
	return fmt.Errorf("%d jobs are not ready after %v", n, patience)
}

func deadWithJobs(r *run) error {
	const n = 60_000
	return r.on(redis, 2, nil, func(s *cluster) error {
		dies, lives := s.instances[0], s.instances[1]
		c, err := hold(dies, n)
		if err != nil {
			return err
		}
		defer c.Close()
		t, err := s.during(lives, func() error { dies.Kill(); return awaitReady(lives, n) })
		r.report("%v", t)
		return err
	})
}

func deadWithTubes(r *run) error {
	return r.on(redis, 2, nil, func(s *cluster) error {
		dies, lives := s.instances[0], s.instances[1]
		for i := range 10 {
			c, err := dial(dies.addr)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := watchMany(c, 10_000, 10_000*i); err != nil {
				return err
			}
		}
		t, err := s.during(lives, func() error { dies.Kill(); return awaitNoTubes(lives) })
		r.report("%v", t)
		return err
	})
}

// awaitNoTubes waits until the tubes that nobody watches any more are gone.
func awaitNoTubes(at *instance) error {
	c, err := dial(at.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := command(c, "use held"); err != nil { // there may be no job in it yet
		return err
	}
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(20 * time.Millisecond) {
		page, err := c.Page("stats")
		if err != nil {
			return err
		}
		value, _ := page.Value("current-tubes")
		if now, err := strconv.Atoi(value); err != nil || now < 10 {
			return err
		}
	}
	return fmt.Errorf("the tubes are not gone after %v", patience)
}

func closeWithJobs(r *run) error {
	const n = 100_000
	return r.onEach(engines, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := hold(at, n)
		if err != nil {
			return err
		}
		t, err := s.during(at, func() error { c.Close(); return awaitReady(at, n) })
		r.report("%s: %v", s.engine, t)
		return err
	})
}

func closeWithTubes(r *run) error {
	return r.onEach(engines, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		if err := watchMany(c, 10_000, 0); err != nil {
			return err
		}
		t, err := s.during(at, func() error { return closeAndWait(c, at) })
		r.report("%s: %v", s.engine, t)
		return err
	})
}

func holderPolls(r *run) error {
	return r.on(redis, 1, nil, func(s *cluster) error {
		c, err := hold(s.instances[0], 100_000)
		if err != nil {
			return err
		}
		defer c.Close()
		const polls = 1000
		begun := time.Now()
		for range polls {
			if _, err := command(c, "reserve-with-timeout 0"); err != nil {
				return err
			}
		}
		r.report("a poll: %s", format(time.Since(begun)/polls))
		return nil
	})
}
