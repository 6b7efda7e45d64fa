package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The second half of a check: counters, lease sets and timers of a partition. What there is
// to count is added up here, over many looks; lua/check/counts.lua says what each is.

const (
	// checkTubes is how many tubes a script is given to look at.
	checkTubes = 150

	// checkAgain is how many are looked at again at once, while instances run.
	checkAgain = 20
)

// tally is what was counted in a partition.
type tally struct {
	held, inSets int
	reserved     map[string]int // jobs by tube
	sums         [4]int         // urgent, ready, delayed, buried

	doubts []doubt
}

// doubt is what is wrong with a tube, or all of them if its name is "", if nothing
// has changed while it was counted.
type doubt struct{ tube, what string }

// count checks a partition: with one look if that is enough, else with many.
func (c *checker) count(ctx context.Context, p *checked) error {
	if done, err := c.countAtOnce(ctx, p); done || err != nil {
		return err
	}
	before, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	t := &tally{reserved: make(map[string]int)}
	for _, look := range []func(context.Context, *checked, *tally) error{c.countReserved, c.countTubes, c.countSums} {
		if err := look(ctx, p, t); err != nil {
			return err
		}
	}
	after, err := c.changes(ctx, p)
	if err != nil {
		return err
	}
	if before != after {
		return c.lookAgain(ctx, p, t)
	}
	c.foundDoubts(p, t.doubts)
	return nil
}

// step runs a step, and returns what is doubtful and the rest of the reply. What is
// wrong is reported.
func (c *checker) step(ctx context.Context, p *checked, args ...string) ([]doubt, checkReply, error) {
	reply, err := c.call(ctx, p, countsCheck, args)
	if err != nil {
		return nil, nil, err
	}
	c.found(p, reply.texts(0))
	return reply.doubts(1), reply[2:], nil
}

// doubts returns the doubts at a place of a reply.
func (r checkReply) doubts(at int) []doubt {
	var all []doubt
	texts := r.texts(at)
	for i := 0; i < len(texts); i += 2 {
		all = append(all, doubt{texts[i], texts[i+1]})
	}
	return all
}

// foundDoubts reports what is doubtful no more.
func (c *checker) foundDoubts(p *checked, doubts []doubt) {
	for _, d := range doubts {
		c.found(p, []string{d.what})
	}
}

// countAtOnce checks the partition with one look, if it is small. A repair knows that
// nothing changes, and need not.
func (c *checker) countAtOnce(ctx context.Context, p *checked) (done bool, err error) {
	if c.repair {
		return false, nil
	}
	reply, err := c.call(ctx, p, countsCheck, append([]string{"all"}, slices.Sorted(maps.Keys(p.holders))...))
	if err != nil || reply.int(2) == 0 {
		return false, err
	}
	c.found(p, reply.texts(0))
	c.foundDoubts(p, reply.doubts(1))
	return true, nil
}

// changes returns what is another text when an instance has changed anything.
func (c *checker) changes(ctx context.Context, p *checked) (string, error) {
	_, reply, err := c.step(ctx, p, "changes")
	if err != nil {
		return "", err
	}
	return fmt.Sprint(reply[0]), nil
}

// countReserved checks the lease sets of all instances, and counts what they have reserved.
func (c *checker) countReserved(ctx context.Context, p *checked, t *tally) error {
	names, err := p.node.ZRange(ctx, p.prefix+"instances", 0, -1).Result()
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

// walk runs a step from the first member of a ZSET on until it has come to the last
// one, and has what it says of each part added.
func (c *checker) walk(ctx context.Context, p *checked, args []string, add func(checkReply)) error {
	for from := 0; from >= 0; {
		_, reply, err := c.step(ctx, p, append(slices.Clone(args), strconv.Itoa(from))...)
		if err != nil {
			return err
		}
		add(reply)
		to := reply.int(0)
		if to > from {
			c.looked("members of "+args[0], to-from)
		}
		from = to
	}
	return nil
}

// addReserved adds what the step reserved has counted.
func (t *tally) addReserved(reply checkReply) {
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
func (c *checker) countTubes(ctx context.Context, p *checked, t *tally) error {
	return c.eachTubes(ctx, p, func(names []string) error {
		for left := names; len(left) > 0; {
			n, err := c.countSome(ctx, p, t, left)
			if err != nil {
				return err
			}
			left = left[n:]
			c.looked("tubes", n)
		}
		return nil
	})
}

// countSome checks some of these tubes, and returns how many.
func (c *checker) countSome(ctx context.Context, p *checked, t *tally, names []string) (n int, err error) {
	args := []string{"tubes"}
	for _, name := range names {
		args = append(args, name, strconv.Itoa(t.reserved[name]), "", "")
	}
	reply, err := c.addTubes(ctx, p, t, args)
	if err != nil || reply.int(1) == 0 {
		return reply.int(0), err
	}
	n = reply.int(0)
	all, urgent := 0, 0
	err = c.walk(ctx, p, []string{"joined", names[n]}, func(reply checkReply) {
		all += reply.int(1)
		urgent += reply.int(2)
	})
	if err != nil {
		return n, err
	}
	_, err = c.addTubes(ctx, p, t, []string{"tubes", names[n], strconv.Itoa(t.reserved[names[n]]), strconv.Itoa(all), strconv.Itoa(urgent)})
	return n + 1, err
}

// addTubes runs the step tubes, and adds what it has counted.
func (c *checker) addTubes(ctx context.Context, p *checked, t *tally, args []string) (checkReply, error) {
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
func (c *checker) countSums(ctx context.Context, p *checked, t *tally) error {
	args := []string{"sums"}
	for _, n := range append(t.sums[:], t.held, t.inSets) {
		args = append(args, strconv.Itoa(n))
	}
	doubts, _, err := c.step(ctx, p, args...)
	t.doubts = append(t.doubts, doubts...)
	return err
}

// lookAgain looks at what is doubtful once more, each tube with one look, as instances
// have changed something. Only that can be told of which little is reserved.
func (c *checker) lookAgain(ctx context.Context, p *checked, t *tally) error {
	var tubes []string
	for _, d := range t.doubts {
		if d.tube != "" {
			tubes = append(tubes, d.tube)
		}
	}
	slices.Sort(tubes)
	left := 0
	for some := range slices.Chunk(slices.Compact(tubes), checkAgain) {
		n := len(p.holders)
		args := append([]string{"again", strconv.Itoa(n)}, slices.Sorted(maps.Keys(p.holders))...)
		reply, err := c.call(ctx, p, countsCheck, append(args, some...))
		if err != nil {
			return err
		}
		if reply.int(2) == 0 {
			left += len(some)
			continue
		}
		c.foundDoubts(p, reply.doubts(1)) // what is certain was found the first time
	}
	if left > 0 {
		c.skipped(p, fmt.Sprintf("the counters of %d tubes were not compared: instances are changing them", left))
	}
	c.skipped(p, "the counters over all tubes were not compared: instances are changing them")
	return nil
}
