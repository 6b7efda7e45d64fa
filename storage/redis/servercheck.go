package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/storage/telemetry"
)

// What a server allows is inspected before the first call, and again whenever that may have
// changed: when another process answers, when a call has failed, and every two seconds. So no
// script fails halfway because a command is forbidden, and no job is put for long where it would
// be deleted.

const (
	// inspectEvery is how often the settings are read, which can change while Redis runs, and how
	// many keys it has evicted.
	inspectEvery = 2 * time.Second

	// reinspectEvery is how often failing calls cause an inspection of their server.
	reinspectEvery = time.Second

	// defaultBulk and defaultBuffer are the defaults of proto-max-bulk-len and
	// client-query-buffer-limit. They are assumed where CONFIG is forbidden.
	defaultBulk   = 512 << 20
	defaultBuffer = 1 << 30

	// bufferReserve is how many bytes the query buffer of Redis can hold in addition to a
	// record, and recordOverhead how many a record can have in addition to the body.
	bufferReserve  = 64 << 10
	recordOverhead = 4 << 10
)

// capabilities is what a server allows, as far as known. It is immutable.
type capabilities struct {
	missing []string // commands that are forbidden or renamed
	evicted evicted  // its policy is the maxmemory-policy; "" if unknown
	record  int      // size of the largest record, in bytes
	known   bool     // record is the server's setting, and not the default
	refusal error    // the error for all new jobs; nil if they are accepted
}

// staging are the commands that only staged records need.
var staging = []string{"PERSIST", "RENAME"}

// unusable returns an error if the engine cannot work there.
func (c *capabilities) unusable() error {
	needed := slices.DeleteFunc(slices.Clone(c.missing), func(name string) bool { return slices.Contains(staging, name) })
	if len(needed) == 0 {
		return nil
	}
	return fmt.Errorf("these commands are renamed, or forbidden to the user of Redis: %s", strings.Join(needed, ", "))
}

// cannotStage returns whether the server does not allow staged records.
func (c *capabilities) cannotStage() bool {
	return slices.ContainsFunc(c.missing, func(name string) bool { return slices.Contains(staging, name) })
}

// evicts returns whether the server deletes jobs when its memory is full.
func (c *capabilities) evicts() bool { return strings.HasPrefix(c.evicted.policy, "allkeys") }

// body returns the size of the largest body, in bytes.
func (c *capabilities) body() int { return c.record - recordOverhead }

// inspect inspects the server that has the keys with this prefix. With try it also tries the
// commands of the script.
func inspect(ctx context.Context, node conn.Node, prefix string, o *Options, try bool) (*capabilities, error) {
	c := &capabilities{}
	asked := [][]any{{"info"}, {"config", "get", "proto-max-bulk-len"}, {"config", "get", "client-query-buffer-limit"}}
	var tried [][]any
	if try {
		tried = triedDirectly(prefix, o)
	}
	replies := node.Pipeline(ctx, slices.Concat(asked, tried)...)
	info, err := replies[0].Text()
	if err != nil && !conn.Forbids(err, "info") {
		return nil, err
	}
	c.evicted = evictedOf(info)
	if c.evicts() && !o.AllowEviction {
		c.refusal = fmt.Errorf("%w: the maxmemory-policy of Redis is %s, by which it deletes jobs", storage.ErrNoSpace, c.evicted.policy)
	}
	most, isMost := setting(replies[1], defaultBulk)
	room, isRoom := setting(replies[2], defaultBuffer)
	c.record, c.known = min(most, room-bufferReserve), isMost && isRoom
	if !try {
		return c, nil
	}
	return c, c.readTried(ctx, node, prefix, tried, replies[len(asked):])
}

// triedDirectly returns commands that are used only outside of scripts, to be tried.
func triedDirectly(prefix string, o *Options) [][]any {
	tried := [][]any{
		{"evalsha", strings.Repeat("0", 40), 1, prefix},
		{"blpop", prefix + "none", "-"}, // refused for its timeout; a short timeout takes 100 ms
	}
	if o.WaitReplicas > 0 {
		tried = append(tried, []any{"wait", 0, 1})
	}
	return tried
}

// readTried records which commands are forbidden, of those that were tried directly and those
// of the scripts.
func (c *capabilities) readTried(ctx context.Context, node conn.Node, prefix string, tried [][]any, replies []conn.Reply) error {
	for i, reply := range replies {
		name := tried[i][0].(string)
		switch err := reply.Err; {
		case conn.Forbids(err, name):
			c.missing = append(c.missing, strings.ToUpper(name))
		case conn.CodeOf(err) == "" && err != nil:
			return err
		}
	}
	failed, err := node.Do(ctx, "eval", lua.Permissions, 1, prefix).Texts()
	if conn.Forbids(err, "eval") {
		c.missing = append(c.missing, "EVAL")
		return nil
	}
	for ; len(failed) > 1; failed = failed[2:] {
		if name := failed[0]; conn.IsForbidden(conn.ServerError(failed[1])) && !slices.Contains(c.missing, name) {
			c.missing = append(c.missing, name)
		}
	}
	return err
}

// setting reads a number from CONFIG GET; false if it is the default.
func setting(answer conn.Reply, usual int) (int, bool) {
	all, _ := answer.Pairs()
	for _, text := range all {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n, true
		}
	}
	return usual, false
}

// serverCheck is what a partition knows of its server.
type serverCheck struct { // from the last inspection; never nil
	capabilities atomic.Pointer[capabilities] // when it was last inspected; never nil
	complaints   *telemetry.Throttle          // common to all partitions
	mu           sync.Mutex                   // held while capabilities changes

	// The rest belongs to the caller of the partition.
	inspected serverID  // the process that was inspected; zero: the one at the start
	at        time.Time // when it was
	failed    bool      // a call has failed since
	forbidden bool      // a command was forbidden
}

// isDue returns whether the process must be inspected before it gets a call.
func (f *serverCheck) isDue(current serverID) bool {
	other := f.inspected != current && (f.inspected != serverID{} || current.changes > 0)
	return other || f.forbidden || f.capabilities.Load().unusable() != nil || f.failed && time.Since(f.at) >= reinspectEvery
}

// noteFailure records that a call has failed. If a command was forbidden, the next call must
// not fail halfway too.
func (f *serverCheck) noteFailure(err error) {
	what := reactionTo(err)
	f.failed = f.failed || what == hold || what == giveUp
	f.forbidden = f.forbidden || conn.IsForbidden(err)
}

// checkCapabilities returns an error if a call must not be sent to the server in its present
// form.
func (p *partition) checkCapabilities(c *call, node conn.Node) error {
	f := &p.server
	if f.isDue(p.ids.server) {
		caps, err := inspect(context.Background(), node, p.prefix, &p.options, true)
		if err != nil {
			p.noteFailure()
			return err
		}
		f.at, f.failed, f.forbidden = time.Now(), false, false
		p.setCapabilities(caps)
	}
	f.inspected = p.ids.server
	caps := f.capabilities.Load()
	switch err := caps.unusable(); {
	case err != nil:
		return unsent{err, hold}
	case c.kind != work:
	case c.most > caps.record:
		return unsent{errTooLarge, shrink}
	case c.sentAs == c.number: // it may have been carried out
	case len(c.staged) > 0 && caps.cannotStage():
		return unsent{errStaging, restage}
	case c.puts > 0 && caps.refusal != nil && c.noMemory == nil:
		return unsent{caps.refusal, withhold}
	}
	return nil
}

var (
	// errTooLarge: the record is too large for Redis.
	errTooLarge = fmt.Errorf("%w: larger than Redis takes it (proto-max-bulk-len, client-query-buffer-limit)", storage.ErrTooBig)

	// errStaging: a call has staged records, but they are forbidden.
	errStaging = errors.New("the commands that staged records need are forbidden")
)

// setCapabilities records what the server allows, and logs what is wrong with it.
func (p *partition) setCapabilities(caps *capabilities) {
	f := &p.server
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.capabilities.Load()
	if !caps.known && !was.known {
		caps.record = min(caps.record, was.record) // it can be learned, see tooLarge
	}
	f.capabilities.Store(caps)
	if err := caps.unusable(); err != nil {
		f.complaints.Error(p.log, "Redis cannot be used as it is", "err", err)
	}
	switch {
	case caps.refusal != nil:
		f.complaints.Error(p.log, "Redis deletes jobs when its memory is full, so no jobs are put", "maxmemory-policy", caps.evicted.policy)
	case was.refusal != nil:
		p.log.Info("jobs are put again", "maxmemory-policy", caps.evicted.policy)
	}
	if caps.cannotStage() && !was.cannotStage() {
		warnOfStaging(p.log)
	}
	if caps.record != was.record {
		p.warnOfSize(caps)
	}
}

// warnOfSize warns if Redis does not accept all jobs that the server does.
func (p *partition) warnOfSize(caps *capabilities) {
	if caps.body() < p.options.MaxJobSize {
		p.log.Warn("Redis does not accept larger jobs: see proto-max-bulk-len and client-query-buffer-limit", "bytes", caps.body(), "max-job-size", p.options.MaxJobSize)
	}
}

// warnOfStaging logs the cost of working without staged records.
func warnOfStaging(log *slog.Logger) {
	log.Warn("these commands are renamed, or forbidden to the user of Redis: large jobs cost Redis more without them", "commands", strings.Join(staging, ", "))
}

// tooLarge records that Redis has refused the largest record of a call, whatever its settings
// say.
func (p *partition) tooLarge(c *call) {
	f := &p.server
	f.mu.Lock()
	defer f.mu.Unlock()
	if caps := *f.capabilities.Load(); caps.record >= c.most {
		caps.record = c.most - 1
		f.capabilities.Store(&caps)
	}
}

// inspectPeriodically inspects the servers of all partitions until the context ends.
func (s *Store) inspectPeriodically(ctx context.Context) {
	defer close(s.watched)
	ticker := time.NewTicker(s.parts[0].options.inspectEvery)
	defer ticker.Stop()
	noted := evictions{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.recheck(ctx, noted)
	}
}

// recheck inspects the settings of the servers, each once and all at the same time, and notes what they have evicted. Forbidden
// commands show when they are used.
func (s *Store) recheck(ctx context.Context, noted evictions) {
	parts := make(map[conn.Node][]*partition)
	for _, p := range s.parts {
		if node, err := p.pool.Node(ctx, p.prefix); err == nil { // else calls fail as well, and log it
			parts[node] = append(parts[node], p)
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for node, of := range parts {
		all.Go(func() {
			caps, err := inspect(ctx, node, of[0].prefix, &of[0].options, false)
			if err != nil {
				return
			}
			for _, p := range of {
				own := *caps
				own.missing = p.server.capabilities.Load().missing
				p.setCapabilities(&own)
			}
			mu.Lock()
			defer mu.Unlock()
			noted.note(s.log, node.Addr(), caps.evicted)
		})
	}
	all.Wait()
}

// refusal returns why Redis gets no new jobs at present; nil if it does.
func (s *Store) refusal() error {
	for _, p := range s.parts {
		if err := p.server.capabilities.Load().refusal; err != nil {
			return err
		}
	}
	return nil
}
