package fsck

import (
	"context"
)

// membersPerCheck is how many jobs that are members of queues one script checks.
const membersPerCheck = 300

// member is a member of a queue.
type member struct{ queue, name string }

// checkQueues checks the members of the queues that were added.
func (c *checker) checkQueues(ctx context.Context, f *workerPool, p *checkedPartition) {
	queues := p.queues
	p.queues = nil
	f.do(func() error {
		check := &membersCheck{checker: c, partition: p}
		cursors := make([]uint64, len(queues))
		for len(queues) > 0 {
			rest, err := check.next(ctx, queues, cursors)
			if err != nil {
				return err
			}
			queues, cursors = queues[:rest], cursors[:rest]
		}
		return check.flush(ctx)
	})
}

// membersCheck collects members, so that one call checks many.
type membersCheck struct {
	checker   *checker
	partition *checkedPartition
	members   []member
	jobs      int // how many jobs they are, ranges included
}

// next checks some more members of each queue. It moves the queues that have more members to
// the beginning, with their cursors, and returns how many these are.
func (l *membersCheck) next(ctx context.Context, queues []string, cursors []uint64) (rest int, err error) {
	scans := make([][]any, len(queues))
	for i, queue := range queues {
		scans[i] = []any{"zscan", l.partition.prefix + queue, cursors[i], "count", membersPerCheck}
	}
	for i, reply := range l.partition.node.Pipeline(ctx, scans...) {
		found, cursor, err := reply.Scan()
		if err != nil {
			return 0, err
		}
		for k := 0; k < len(found); k += 2 { // each is followed by its score
			if err := l.add(ctx, member{queues[i], found[k]}); err != nil {
				return 0, err
			}
		}
		if cursor != 0 {
			queues[rest], cursors[rest] = queues[i], cursor
			rest++
		}
	}
	return rest, nil
}

// add adds a member.
func (l *membersCheck) add(ctx context.Context, m member) error {
	l.members = append(l.members, m)
	if l.jobs += l.partition.jobsOf(m.name); l.jobs < membersPerCheck {
		return nil
	}
	return l.flush(ctx)
}

// flush checks the members.
func (l *membersCheck) flush(ctx context.Context) error {
	for len(l.members) > 0 {
		about, last := make([]string, 0, 2*len(l.members)), ""
		for _, m := range l.members {
			if m.queue == last {
				m.queue = ""
			} else {
				last = m.queue
			}
			about = append(about, m.queue, m.name)
		}
		n, _, err := l.checker.ask(ctx, l.partition, membersScript, about)
		if err != nil {
			return err
		}
		l.members = l.members[n:]
		l.checker.reportProgress("members of queues", n)
	}
	l.members, l.jobs = nil, 0
	return nil
}
