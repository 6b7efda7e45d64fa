package attack

import (
	"time"

	"redstalk/protocol/client"
)

// moves are the attacks that change the state of many jobs at once, on engines in the
// process.
var moves = []attack{
	{"kick-1m", "1,000,000 buried jobs are kicked", "others at most 50 ms", kickMany},
	{"due-200k", "200,000 delays end together", "others at most 50 ms", dueMany},
	{"deleted-1m", "1,000,000 jobs are put and deleted, then nothing happens for 30 s", "memory comes back without traffic", deletedMany},
}

// inProcess are the engines where an operation on many jobs delays other clients.
var inProcess = []engine{memory, embedded}

func kickMany(r *run) error {
	const n = 1_000_000
	return r.onEach(inProcess, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := putMany(c, "kicked", n, 10, 3600, 60); err != nil {
			return err
		}
		t, err := s.during(at, func() error { _, err := command(c, "kick %d", n); return err })
		r.report("%s: %v", s.engine, t)
		return err
	})
}

func dueMany(r *run) error {
	const n, delay = 200_000, 15
	return r.onEach(inProcess, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		begun := time.Now()
		if err := putMany(c, "held", n, 10, delay, 60); err != nil {
			return err
		}
		time.Sleep(time.Until(begun.Add((delay - 1) * time.Second)))
		t, err := s.during(at, func() error { return awaitReady(at, n) })
		r.report("%s: %v", s.engine, t)
		return err
	})
}

func deletedMany(r *run) error {
	const n = 1_000_000
	return r.onEach(inProcess, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := putMany(c, "gone", n, 10, 0, 60); err != nil {
			return err
		}
		full, _ := at.resident()
		err = bulk(c, n, client.Deleted, func(out []byte, i int) []byte { return client.AppendDelete(out, uint64(i+1)) })
		if err != nil {
			return err
		}
		time.Sleep(30 * time.Second)
		after, err := at.resident()
		r.report("%s: %d MiB, then %d", s.engine, full>>20, after>>20)
		return err
	})
}
