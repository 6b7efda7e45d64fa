package redis

import (
	"log/slog"
	"strconv"
	"strings"

	"redstalk/storage/redis/conn"
)

// evictions are the keys that each server has evicted, as far as that was logged, by the address of the server.
type evictions map[string]evicted

// evicted is how many keys a server has evicted since it began, and under which policy.
type evicted struct {
	run    string // which process it is
	keys   uint64
	policy string
}

// evictedOf reads it from the INFO of the server; without any, nothing is known.
func evictedOf(info string) evicted {
	keys, _ := strconv.ParseUint(conn.InfoValue(info, "evicted_keys"), 10, 64)
	return evicted{conn.InfoValue(info, "run_id"), keys, conn.InfoValue(info, "maxmemory_policy")}
}

// onlyVolatile returns whether a policy evicts only keys with an expiry, which jobs do not have.
func (e evicted) onlyVolatile() bool { return strings.HasPrefix(e.policy, "volatile") }

// note records what a server has evicted, and logs it if that can be jobs. Before the first call the keys can have been
// those of others: but who evicts them evicts jobs too.
func (e evictions) note(log *slog.Logger, addr string, now evicted) {
	before := e[addr]
	e[addr] = now
	if before.run != now.run {
		before = evicted{policy: now.policy}
	}
	if now.keys <= before.keys || before.onlyVolatile() && now.onlyVolatile() {
		return
	}
	log.Error("Redis has evicted keys, and jobs are lost if some were of redstalk: 'redstalkd fsck' finds what does not fit together now, and with --repair mends it",
		"keys", now.keys-before.keys, "since_its_start", now.keys, "maxmemory-policy", now.policy)
}
