package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Redis can go back in time: it restarts from an older snapshot, a replica takes over that
// lacks the last writes, somebody runs FLUSHALL. Then it would assign ids again that clients
// know, and a late delete would hit another job. An instance notices in two ways: the script
// answers LOST, or another process answers than before. From then on it puts jobs with ids
// beyond all that can have been assigned meanwhile.

// maxIDRate is more ids than one partition can assign to all instances in a second.
const maxIDRate = 1_000_000

// errOtherServer: a new connection leads to another Redis process than those before. Nothing
// was sent by it. The next call skips ids.
var errOtherServer = errors.New("another Redis process answers than before")

// servers has the processes that a link has met, by their run ids.
type servers struct {
	cluster bool

	mu      sync.Mutex
	runIDs  map[string]string // run ids by the id of the node, "" outside of a cluster
	changes uint64            // how many times a run id has changed
}

// greet identifies the process to which a new connection leads. It refuses the connection once
// if the process is another one than before. It also refuses it if there is no answer, because
// that might come when the answer to the next command is awaited.
func (s *servers) greet(ctx context.Context, cn *goredis.Conn) error {
	err := s.identify(ctx, cn)
	if errors.Is(err, errOtherServer) || err != nil && codeOf(err) == "" {
		return err
	}
	return nil // if INFO is forbidden, the next command will show what is wrong
}

// identify asks to which process a connection leads. It returns errOtherServer once if that is
// another one than before.
func (s *servers) identify(ctx context.Context, cn *goredis.Conn) error {
	info, err := cn.Info(ctx, "server").Result()
	if err != nil || infoValue(info, "redis_mode") == "sentinel" {
		return err
	}
	node := ""
	if s.cluster {
		if node, err = s.nodeOf(ctx, cn); err != nil {
			return err
		}
	}
	if s.isOther(node, infoValue(info, "run_id")) {
		return errOtherServer
	}
	return nil
}

// nodeOf returns the id of a node of a cluster, which outlives its process.
func (s *servers) nodeOf(ctx context.Context, cn *goredis.Conn) (string, error) {
	cmd := goredis.NewStringCmd(ctx, "cluster", "myid")
	err := cn.Process(ctx, cmd)
	return cmd.Val(), err
}

// isOther records the run id of a node, and returns whether it had another one before.
func (s *servers) isOther(node, runID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.runIDs[node]
	s.runIDs[node] = runID
	if !known || was == runID {
		return false
	}
	s.changes++
	return true
}

// seen returns how many times another process than before was met.
func (s *servers) seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// infoValue returns a field of the text of INFO; "" if it is missing.
func infoValue(info, name string) string {
	_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(text)
}

// serverID identifies the process that a partition calls.
type serverID struct {
	addr    string
	changes uint64 // see servers.seen
}

// ids is the progress of the ids of a partition, as far as this instance knows. It belongs to
// the caller of the partition, except for order.
type ids struct {
	order    *idOrder  // common to all partitions
	of       int       // partitions in all
	server   serverID  // to which the calls go
	counted  time.Time // when the number of assigned ids was last known; zero if never
	skipping bool      // the next job must get an id beyond those that order knows
}

// saw records the last number that had been assigned when a call was sent.
func (i *ids) saw(n uint64, sent time.Time) {
	i.order.saw(n)
	i.counted = sent
}

// mustExceedKnown returns whether the next job must get an id beyond those that order knows.
func (i *ids) mustExceedKnown() bool { return i.of > 1 || i.skipping }

// least is the number that each heartbeat sends to Redis, which continues after it; 0 if that
// is not needed.
func (i *ids) least() uint64 {
	if !i.mustExceedKnown() {
		return 0
	}
	return i.order.last.Load()
}

// meet checks whether the calls go to another process than before. changes is servers.seen.
func (i *ids) meet(addr string, changes uint64, now time.Time) {
	if i.server.addr != "" && (addr != i.server.addr || changes != i.server.changes) {
		i.skip(now)
	}
	i.server = serverID{addr, changes}
}

// skip makes the next jobs get ids beyond all that can have been assigned since this instance
// last knew their number.
func (i *ids) skip(now time.Time) {
	if i.counted.IsZero() {
		return // it knows of no ids
	}
	since := min(max(elapsed(i.counted, now), 0), maxAway) + time.Second
	i.order.skip(now, uint64(since.Seconds()*maxIDRate))
	i.counted, i.skipping = now, true
}

// maxAway limits how long other instances can have put jobs, unknown to this one, of which
// Redis has none any more.
const maxAway = 24 * time.Hour

// elapsed returns the time between two moments, by the clock that has advanced more: the wall
// clock if the machine was suspended, the monotonic clock if the wall clock was set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
