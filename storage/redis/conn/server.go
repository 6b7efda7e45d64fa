package conn

import (
	"context"
	"errors"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// servers has the processes that a pool has met, by their run ids.
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
	if changes, ok := ctx.Value(changesKey{}).(uint64); ok && err == nil && changes != s.seen() {
		return ErrOtherServer // another caller has met it since the caller of this command has asked
	}
	if errors.Is(err, ErrOtherServer) || err != nil && CodeOf(err) == "" {
		return err
	}
	return nil // if INFO is forbidden, the next command will show what is wrong
}

// changesKey is the key of a context whose commands may only open a connection if no other
// process was met since servers.seen returned the value.
type changesKey struct{}

func withChanges(ctx context.Context, changes uint64) context.Context {
	return context.WithValue(ctx, changesKey{}, changes)
}

// identify asks to which process a connection leads. It returns ErrOtherServer once if that is
// another one than before.
func (s *servers) identify(ctx context.Context, cn *goredis.Conn) error {
	info, err := cn.Info(ctx, "server").Result()
	if err != nil || InfoValue(info, "redis_mode") == "sentinel" {
		return err
	}
	node := ""
	if s.cluster {
		if node, err = s.nodeOf(ctx, cn); err != nil {
			return err
		}
	}
	if s.isOther(node, InfoValue(info, "run_id")) {
		return ErrOtherServer
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

// InfoValue returns a field of the text of INFO; "" if it is missing.
func InfoValue(info, name string) string {
	_, rest, _ := strings.Cut("\n"+info, "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(text)
}
