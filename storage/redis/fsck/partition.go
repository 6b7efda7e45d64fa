package fsck

import (
	"fmt"
	"strconv"
	"strings"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
)

// checkedPartition is what a check has seen of a partition.
type checkedPartition struct {
	number  int
	node    conn.Node
	prefix  string
	jobs    []string        // ids to be checked
	queues  []string        // keys after the prefix, to be checked
	reports []string        // likewise
	chunks  []string        // of records of ended jobs, to be checked
	ended   endedCount      // guarded by checker.mu
	holders map[string]bool // instances that have reserved jobs
	bodies  bodies          // guarded by checker.mu
	members members         // guarded by checker.mu
	before  string          // what changes has returned before the jobs were checked
}

// jobsOf returns how many jobs a member of a queue is: more than one for a range.
func (p *checkedPartition) jobsOf(member string) int {
	if at := len(p.prefix) + schema.IDLen + 1; len(member) > at {
		many, _, _ := strings.Cut(member[at:], ";")
		if n, err := strconv.Atoi(many); err == nil {
			return n
		}
	}
	return 1
}

// bodies is how many bytes the bodies and checkpoints of a partition have, by tube, as far as counted. The
// owner must ensure that one goroutine at a time uses it.
type bodies struct {
	counted map[string]bool   // ids, because a scan can return a job twice
	bytes   map[string]int    // by tube
	marks   map[string]string // by tube, from before anything was counted; none for a repair

	checkpoints, checkpointBytes int // of all tubes
}

// add adds the sizes that the check of jobs returns for these ids.
func (b *bodies) add(ids []string, sizes []any) {
	for i := 0; i+2 < len(sizes) && i/3 < len(ids); i += 3 {
		name, id := fmt.Sprint(sizes[i]), ids[i/3]
		body, _ := sizes[i+1].(int64)
		checkpoint, _ := sizes[i+2].(int64)
		if name == "" || b.counted[id] {
			continue
		}
		b.counted[id] = true
		b.bytes[name] += int(body + checkpoint)
		b.checkpointBytes += int(checkpoint)
		if checkpoint > 0 {
			b.checkpoints++
		}
	}
}
