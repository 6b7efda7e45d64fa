package attack

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol/client"
)

// costs measure the cost of jobs with tags, and without.
var costs = []attack{
	memoryOfTags(memory), memoryOfTags(embedded), memoryOfTags(redis),
	{"time-of-tags", "100,000 jobs of 64 bytes, each kind, are put, reserved and deleted in packets", "none; without tags, see make bench before and after a change", tagsTime},
}

// memoryOfTags is the attack that measures the memory of jobs on an engine.
func memoryOfTags(e engine) attack {
	return attack{
		"tags-" + string(e), "200,000 jobs of 64 bytes: without tags, with a key of 32 bytes, with more tags",
		"a key costs at most 200 bytes, itself included", func(r *run) error { return tagsMemory(r, e) },
	}
}

// A kind is a kind of jobs whose cost is measured.
type kind struct {
	name string
	tags func(i int) string
}

// keyOf is a key of 32 bytes.
func keyOf(i int) string { return fmt.Sprintf("key:order-%026d", i) }

var kinds = []kind{
	{"plain", func(int) string { return "" }},
	{"key", func(i int) string { return " " + keyOf(i) }},
	{"retry", func(int) string { return " retry:2m,10m,10m,1h,2h,6h,15h" }},
	{"key, retry, max, dead", func(i int) string { return " " + keyOf(i) + " retry:1m,2m max:9 dead:failed" }},
}

// put puts n jobs of the kind into the tube default.
func (k *kind) put(c *client.Conn, n int) error {
	body := bytes.Repeat([]byte("x"), 64)
	return bulk(c, n, client.Inserted, func(out []byte, i int) []byte {
		return fmt.Appendf(out, "put 1 0 600 %d%s\r\n%s\r\n", len(body), k.tags(i), body)
	})
}

// settled is the longest time that an idle engine in the process takes to give back memory that it
// does not need.
const settled = 26 * time.Second

func tagsMemory(r *run, e engine) error {
	const n = 200_000
	var plain float64
	for i, k := range kinds {
		each, err := r.memoryOf(e, &k, n)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		if i == 0 {
			plain = each
			r.report("%s: %.0f bytes a job", k.name, each)
		} else {
			r.report("%s: %.0f bytes a job, %.0f more", k.name, each, each-plain)
		}
	}
	return nil
}

// memoryOf is the memory per job of n jobs of a kind, in bytes: of the server, or of Redis.
func (r *run) memoryOf(e engine, k *kind, n int) (each float64, err error) {
	err = r.on(e, 1, nil, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		before, err := s.memory()
		if err != nil {
			return err
		}
		if err := k.put(c, n); err != nil {
			return err
		}
		if s.redis == nil {
			time.Sleep(settled)
		}
		after, err := s.memory()
		each = float64(after-before) / float64(n)
		return err
	})
	return each, err
}

// memory is the memory of the process that stores the jobs, in bytes.
func (s *cluster) memory() (int64, error) {
	if s.redis == nil {
		return s.instances[0].resident()
	}
	return s.redis.memory()
}

// memory is the memory that Redis has allocated, in bytes.
func (r *redisServer) memory() (int64, error) {
	out, err := r.ask("INFO", "memory")
	if err != nil {
		return 0, fmt.Errorf("asking Redis: %w", err)
	}
	_, rest, found := strings.Cut(string(out), "used_memory:")
	digits := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if !found || digits <= 0 {
		return 0, fmt.Errorf("redis-server says nothing of its memory: %.100q", out)
	}
	return strconv.ParseInt(rest[:digits], 10, 64)
}

func tagsTime(r *run) error {
	const n = 100_000
	for _, e := range engines {
		for _, k := range kinds {
			err := r.on(e, 1, nil, func(s *cluster) error {
				puts, rest, err := s.timeOf(&k, n)
				r.report("%s, %s: %s of processor time to put a job, %s to reserve and delete it", e, k.name, puts, rest)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", e, k.name, err)
			}
		}
	}
	return nil
}

// timeOf is the processor time per job of the server and of Redis.
func (s *cluster) timeOf(k *kind, n int) (put, rest time.Duration, err error) {
	c, err := dial(s.instances[0].addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	begun, err := s.used()
	if err != nil {
		return 0, 0, err
	}
	if err := k.put(c, n); err != nil {
		return 0, 0, err
	}
	between, err := s.used()
	if err != nil {
		return 0, 0, err
	}
	for done := 0; done < n; done += perPacket {
		ids, err := reserveMany(c, "default", min(perPacket, n-done))
		if err != nil {
			return 0, 0, err
		}
		err = bulk(c, len(ids), client.Deleted, func(out []byte, i int) []byte { return client.AppendDelete(out, ids[i]) })
		if err != nil {
			return 0, 0, err
		}
	}
	ended, err := s.used()
	each := func(d time.Duration) time.Duration { return (d / time.Duration(n)).Round(10 * time.Nanosecond) }
	return each(between - begun), each(ended - between), err
}

// used is the processor time of all servers of the cluster.
func (s *cluster) used() (all time.Duration, err error) {
	pids := []int{s.instances[0].Pid()}
	if s.redis != nil {
		pids = append(pids, s.redis.Pid())
	}
	for _, pid := range pids {
		d, err := used(pid)
		if err != nil {
			return 0, err
		}
		all += d
	}
	return all, nil
}
