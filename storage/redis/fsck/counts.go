package fsck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The second half of a check: counters, lease sets and timers of a partition. The results of
// many scripts are added up here; lua/check/counts.lua describes each step.

const (
	// tubesPerCheck is how many tubes one script checks.
	tubesPerCheck = 150

	// tubesPerRecheck is how many are checked again in one script, while instances run.
	tubesPerRecheck = 20
)

// partitionCounts is what was counted in a partition.
type partitionCounts struct {
	held, inSets int
	tombstones   int
	reserved     map[string]int // jobs by tube
	sums         [4]int         // urgent, ready, delayed, buried

	doubts []doubt
}

// doubt is a fault of a tube, or of all of them if the name is "", provided that nothing has
// changed while it was counted.
type doubt struct{ tube, what string }

// count checks a partition: in one script if it is small, else in many.
func (c *checker) count(ctx context.Context, p *checkedPartition) error {
	if done, err := c.countAtOnce(ctx, p); done || err != nil {
		return err
	}
	before, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	t := &partitionCounts{reserved: make(map[string]int)}
	for _, check := range []func(context.Context, *checkedPartition, *partitionCounts) error{c.countReserved, c.countTubes, c.countSums} {
		if err := check(ctx, p, t); err != nil {
			return err
		}
	}
	after, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	if before != after {
		return c.recheck(ctx, p, t)
	}
	c.foundDoubts(p, t.doubts)
	return nil
}

// step runs a step, and reports the faults. It returns the doubts and the rest of the reply.
func (c *checker) step(ctx context.Context, p *checkedPartition, args ...string) ([]doubt, checkReply, error) {
	reply, err := c.call(ctx, p, countsScript, args)
	if err != nil {
		return nil, nil, err
	}
	c.found(p, reply.texts(0))
	return reply.doubts(1), reply[2:], nil
}

// doubts returns the doubts at a position of a reply.
func (r checkReply) doubts(at int) []doubt {
	var all []doubt
	texts := r.texts(at)
	for i := 0; i < len(texts); i += 2 {
		all = append(all, doubt{texts[i], texts[i+1]})
	}
	return all
}

// foundDoubts reports doubts that are certain now.
func (c *checker) foundDoubts(p *checkedPartition, doubts []doubt) {
	for _, d := range doubts {
		c.found(p, []string{d.what})
	}
}

// countAtOnce checks the partition in one script, if it is small. A repair need not, because
// nothing changes meanwhile.
func (c *checker) countAtOnce(ctx context.Context, p *checkedPartition) (done bool, err error) {
	if c.repair {
		return false, nil
	}
	reply, err := c.call(ctx, p, countsScript, append([]string{"all"}, slices.Sorted(maps.Keys(p.holders))...))
	if err != nil || reply.int(2) == 0 {
		return false, err
	}
	c.found(p, reply.texts(0))
	c.foundDoubts(p, reply.doubts(1))
	return true, nil
}

// changes returns a text that differs after any instance has changed anything.
func (c *checker) changes(ctx context.Context, p *checkedPartition) (string, error) {
	_, reply, err := c.step(ctx, p, "changes")
	if err != nil {
		return "", err
	}
	return fmt.Sprint(reply[0]), nil
}

// countReserved checks the lease sets of all instances, and counts what they have reserved.
func (c *checker) countReserved(ctx context.Context, p *checkedPartition, t *partitionCounts) error {
	names, err := p.node.Do(ctx, "zrange", p.prefix+"instances", 0, -1).Texts()
	if err != nil {
		return err
	}
	for _, name := range names {
		p.holders[name] = true
	}
	if err := c.walk(ctx, p, []string{"reserved", ""}, t.addReserved); err != nil {
		return err
	}
	for _, inst := range slices.Sorted(maps.Keys(p.holders)) {
		for _, args := range [][]string{{"lease-sets", inst, "groups:", "reserved:"}, {"lease-sets", inst, "reserved:", "groups:"}, {"reserved", inst}} {
			if err := c.walk(ctx, p, args, t.addReserved); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk runs a step from the first to the last member of a sorted set, and calls add with each
// reply.
func (c *checker) walk(ctx context.Context, p *checkedPartition, args []string, add func(checkReply)) error {
	for from := 0; from >= 0; {
		_, reply, err := c.step(ctx, p, append(slices.Clone(args), strconv.Itoa(from))...)
		if err != nil {
			return err
		}
		add(reply)
		to := reply.int(0)
		if to > from {
			c.reportProgress("members of "+args[0], to-from)
		}
		from = to
	}
	return nil
}

// addReserved adds the result of the step reserved.
func (t *partitionCounts) addReserved(reply checkReply) {
	if len(reply) < 4 { // the step "lease-sets" counts nothing
		return
	}
	t.held += reply.int(1)
	t.inSets += reply.int(2)
	tubes, _ := reply[3].([]any)
	for i := 0; i < len(tubes); i += 2 {
		n, _ := tubes[i+1].(int64)
		t.reserved[fmt.Sprint(tubes[i])] += int(n)
	}
}

// countTubes checks the tubes, and adds them up.
func (c *checker) countTubes(ctx context.Context, p *checkedPartition, t *partitionCounts) error {
	return c.eachTubes(ctx, p, func(names []string) error {
		for left := names; len(left) > 0; {
			n, err := c.countSome(ctx, p, t, left)
			if err != nil {
				return err
			}
			left = left[n:]
			c.reportProgress("tubes", n)
		}
		return nil
	})
}

// countSome checks some of these tubes, and returns how many.
func (c *checker) countSome(ctx context.Context, p *checkedPartition, t *partitionCounts, names []string) (n int, err error) {
	args := []string{"tubes"}
	for _, name := range names {
		args = append(args, name, strconv.Itoa(t.reserved[name]), "", "", "")
	}
	reply, err := c.addTubes(ctx, p, t, args)
	if err != nil || reply.int(1) == 0 {
		return reply.int(0), err
	}
	n = reply.int(0)
	all, urgent, lone := 0, 0, 0
	err = c.walk(ctx, p, []string{"joined", names[n]}, func(reply checkReply) {
		all += reply.int(1)
		urgent += reply.int(2)
		lone += reply.int(3)
	})
	if err != nil {
		return n, err
	}
	_, err = c.addTubes(ctx, p, t, []string{"tubes", names[n], strconv.Itoa(t.reserved[names[n]]), strconv.Itoa(all), strconv.Itoa(urgent), strconv.Itoa(lone)})
	return n + 1, err
}

// addTubes runs the step tubes, and adds its result.
func (c *checker) addTubes(ctx context.Context, p *checkedPartition, t *partitionCounts, args []string) (checkReply, error) {
	doubts, reply, err := c.step(ctx, p, args...)
	if err != nil {
		return nil, err
	}
	t.doubts = append(t.doubts, doubts...)
	for i := range t.sums {
		t.sums[i] += reply.int(2 + i)
	}
	return reply, nil
}

// countSums checks the counters over all tubes.
func (c *checker) countSums(ctx context.Context, p *checkedPartition, t *partitionCounts) error {
	times, err := p.node.Do(ctx, "zrange", p.prefix+"tombstones", 0, -1).Texts()
	if err != nil {
		return err
	}
	for _, over := range times {
		err := c.walk(ctx, p, []string{"tombstones", over}, func(reply checkReply) { t.tombstones += reply.int(1) })
		if err != nil {
			return err
		}
	}
	args := []string{"sums"}
	for _, n := range append(t.sums[:], t.held, t.inSets, t.tombstones) {
		args = append(args, strconv.Itoa(n))
	}
	doubts, _, err := c.step(ctx, p, args...)
	t.doubts = append(t.doubts, doubts...)
	return err
}

// recheck checks the doubtful tubes once more, each in one script, because instances have
// changed something. That works only where little is reserved.
func (c *checker) recheck(ctx context.Context, p *checkedPartition, t *partitionCounts) error {
	var tubes []string
	for _, d := range t.doubts {
		if d.tube != "" {
			tubes = append(tubes, d.tube)
		}
	}
	slices.Sort(tubes)
	left := 0
	for some := range slices.Chunk(slices.Compact(tubes), tubesPerRecheck) {
		n := len(p.holders)
		args := append([]string{"again", strconv.Itoa(n)}, slices.Sorted(maps.Keys(p.holders))...)
		reply, err := c.call(ctx, p, countsScript, append(args, some...))
		if err != nil {
			return err
		}
		if reply.int(2) == 0 {
			left += len(some)
			continue
		}
		c.foundDoubts(p, reply.doubts(1)) // certain faults were reported the first time
	}
	if left > 0 {
		c.skipped(p, fmt.Sprintf("the counters of %d tubes were not compared: instances are changing them", left))
	}
	c.skipped(p, "the counters over all tubes were not compared: instances are changing them")
	return nil
}
