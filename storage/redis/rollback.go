package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Redis can go back in time: it restarts from an older snapshot, a replica takes
// over that lacks the end, somebody runs FLUSHALL. Then it would give out ids once
// more that clients know, and a late delete would hit another job. An instance
// notices in two ways: the script says LOST, or it meets another process than
// before at the other end. From then on it puts jobs with ids beyond all that
// anybody can have been given meanwhile.

// maxIDRate is more ids than all instances together can be given in a second by
// one partition.
const maxIDRate = 1_000_000

// errOtherServer: a new connection leads to another Redis process than those
// before. Nothing was sent by it. The next call goes out with ids in mind.
var errOtherServer = errors.New("another Redis process answers than before")

// servers has the processes that a link has met, by their run ids.
type servers struct {
	cluster bool

	mu      sync.Mutex
	runIDs  map[string]string // run ids by the id of the node, "" outside of a cluster
	changes uint64            // how often there was another one
}

// greet looks which process a new connection leads to, and refuses it once if it
// is another one than before, or says nothing: the answer might come when that to the next
// command is awaited.
func (s *servers) greet(ctx context.Context, cn *goredis.Conn) error {
	err := s.identify(ctx, cn)
	if errors.Is(err, errOtherServer) || err != nil && codeOf(err) == "" {
		return err
	}
	return nil // if it may not be asked, the next command will tell what is wrong
}

// identify asks which process a connection leads to. It returns errOtherServer once if it
// is another one than before.
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

// isOther takes down the run id of a node, and returns whether it had another one
// before.
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

// seen is how often another process than before was met.
func (s *servers) seen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// infoValue returns a field of what INFO says; "" if it is not there.
func infoValue(info, name string) string {
	_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(text)
}

// met is what a partition knows of the process that it calls.
type serverID struct {
	addr    string
	changes uint64 // see servers.seen
}

// ids is how far the ids of a partition are, as far as this instance knows. It belongs
// to the caller of the partition, but for order.
type ids struct {
	order    *idOrder  // common to all partitions
	of       int       // partitions in all
	server   serverID  // which the calls go to
	counted  time.Time // when it was last known how many ids were given out; zero if never
	skipping bool      // the next job has to have an id beyond those that order knows
}

// saw notes up to which number ids were given out when a call was sent.
func (i *ids) saw(n uint64, sent time.Time) {
	i.order.saw(n)
	i.counted = sent
}

// bound returns whether the next job has to have an id beyond those that order knows.
func (i *ids) mustExceedKnown() bool { return i.of > 1 || i.skipping }

// least is the number that Redis is told with each heartbeat to go on from; 0 if it
// needs none.
func (i *ids) least() uint64 {
	if !i.mustExceedKnown() {
		return 0
	}
	return i.order.last.Load()
}

// meet notices that the calls go to another process than before. changes is
// servers.seen.
func (i *ids) meet(addr string, changes uint64, now time.Time) {
	if i.server.addr != "" && (addr != i.server.addr || changes != i.server.changes) {
		i.skip(now)
	}
	i.server = serverID{addr, changes}
}

// skip has the next jobs get ids beyond all that can have been given out since this
// instance last knew how far they are.
func (i *ids) skip(now time.Time) {
	if i.counted.IsZero() {
		return // it knows of none
	}
	since := min(max(elapsed(i.counted, now), 0), maxAway) + time.Second
	i.order.skip(now, uint64(since.Seconds()*maxIDRate))
	i.counted, i.skipping = now, true
}

// maxAway bounds for how long others may have put jobs, of whom this instance knew
// nothing, without Redis having kept any of them.
const maxAway = 24 * time.Hour

// elapsed is the time from one moment to a later one, by the clock that has gone
// further: the one on the wall stands still while nobody sets it, the other one
// while the machine sleeps.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
