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

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// What a server allows is looked at before the first call, and again whenever it may have become
// another one: when another process answers, when a call has failed, and once a minute. So nobody
// finds out half way through a script that a command is forbidden, and no job is put where it would
// be deleted.

const (
	// inspectEvery is how often settings are looked at that are changed while Redis runs.
	inspectEvery = time.Minute

	// doubtEvery is how often calls that fail have their server inspected.
	reinspectEvery = time.Second

	// usualBulk and usualBuffer are what proto-max-bulk-len and client-query-buffer-limit are unless
	// somebody has set them. They are believed where CONFIG may not be asked.
	defaultBulk   = 512 << 20
	defaultBuffer = 1 << 30

	// besides is how many bytes there may be in the buffer of Redis beside the record that it
	// reads, and besideBody in a record beside the body.
	bufferReserve  = 64 << 10
	recordOverhead = 4 << 10
)

// condition is what a server allows, as far as it can be asked. It is not changed.
type capabilities struct {
	missing []string // commands that are forbidden or renamed
	policy  string   // maxmemory-policy; "" if that is not known
	record  int      // bytes of the largest record that it takes
	known   bool     // record is what it says, and not what is usual
	refusal error    // of all new jobs; nil if there is none
}

// staging are the commands that are needed by staged records only.
var staging = []string{"PERSIST", "RENAME"}

// unfit returns an error if the engine cannot work there.
func (c *capabilities) unusable() error {
	needed := slices.DeleteFunc(slices.Clone(c.missing), func(name string) bool { return slices.Contains(staging, name) })
	if len(needed) == 0 {
		return nil
	}
	return fmt.Errorf("these commands are renamed, or forbidden to the user of Redis: %s", strings.Join(needed, ", "))
}

// stagesNothing returns whether the server may not be sent staged records.
func (c *capabilities) cannotStage() bool {
	return slices.ContainsFunc(c.missing, func(name string) bool { return slices.Contains(staging, name) })
}

// evicts returns whether the server deletes jobs when its memory is full.
func (c *capabilities) evicts() bool { return strings.HasPrefix(c.policy, "allkeys") }

// body is how many bytes a body may have.
func (c *capabilities) body() int { return c.record - recordOverhead }

// inspect looks at the server that has the keys with this prefix, by the commands of the script, too,
// if they are to be tried.
func inspect(ctx context.Context, node *goredis.Client, prefix string, o *Options, try bool) (*capabilities, error) {
	c := &capabilities{}
	pipe := node.Pipeline()
	info := pipe.Info(ctx)
	bulk, buffer := pipe.ConfigGet(ctx, "proto-max-bulk-len"), pipe.ConfigGet(ctx, "client-query-buffer-limit")
	var tried []*goredis.Cmd
	if try {
		tried = tryDirectly(ctx, pipe, prefix, o)
	}
	pipe.Exec(ctx) // each has its own error
	if err := info.Err(); err != nil && !forbids(err, "info") {
		return nil, err
	}
	c.policy = infoValue(info.Val(), "maxmemory_policy")
	if c.evicts() && !o.AllowEviction {
		c.refusal = fmt.Errorf("%w: the maxmemory-policy of Redis is %s, by which it deletes jobs", storage.ErrNoSpace, c.policy)
	}
	most, isMost := setting(bulk, defaultBulk)
	room, isRoom := setting(buffer, defaultBuffer)
	c.record, c.known = min(most, room-bufferReserve), isMost && isRoom
	if !try {
		return c, nil
	}
	return c, c.readTried(ctx, node, prefix, tried)
}

// tryDirectly tries commands that are used outside of scripts only.
func tryDirectly(ctx context.Context, pipe goredis.Pipeliner, prefix string, o *Options) []*goredis.Cmd {
	tried := []*goredis.Cmd{
		pipe.Do(ctx, "evalsha", strings.Repeat("0", 40), 1, prefix),
		pipe.Do(ctx, "blpop", prefix+"none", "-"), // refused for its timeout; a short one takes 100 ms
	}
	if o.WaitReplicas > 0 {
		tried = append(tried, pipe.Do(ctx, "wait", 0, 1))
	}
	return tried
}

// readTried takes down which commands may not be used, of those that were tried and those of the
// scripts.
func (c *capabilities) readTried(ctx context.Context, node *goredis.Client, prefix string, tried []*goredis.Cmd) error {
	for _, cmd := range tried {
		switch err := cmd.Err(); {
		case forbids(err, cmd.Name()):
			c.missing = append(c.missing, strings.ToUpper(cmd.Name()))
		case codeOf(err) == "" && err != nil && !errors.Is(err, goredis.Nil):
			return err
		}
	}
	failed, err := node.Eval(ctx, permissionsScript, []string{prefix}).StringSlice()
	if forbids(err, "eval") {
		c.missing = append(c.missing, "EVAL")
		return nil
	}
	for ; len(failed) > 1; failed = failed[2:] {
		if name := failed[0]; isForbidden(answeredError(failed[1])) && !slices.Contains(c.missing, name) {
			c.missing = append(c.missing, name)
		}
	}
	return err
}

// setting reads a number that CONFIG has been asked for; false if that is what is usual.
func setting(answer *goredis.MapStringStringCmd, usual int) (int, bool) {
	for _, text := range answer.Val() {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n, true
		}
	}
	return usual, false
}

// fitness is what a partition knows of its server.
type serverCheck struct {
	capabilities atomic.Pointer[capabilities] // when it was last inspected; never nil
	complaints   *telemetry.Log               // common to all partitions
	mu           sync.Mutex                   // is held while condition is changed

	// The rest belongs to the caller of the partition.
	inspected serverID  // the process that was inspected; zero: that which there was at the start
	at        time.Time // when it was
	failed    bool      // a call has failed since
	forbidden bool      // because of a command that is forbidden
}

// isDue returns whether the process is to be inspected before it gets a call.
func (f *serverCheck) isDue(current serverID) bool {
	other := f.inspected != current && (f.inspected != serverID{} || current.changes > 0)
	return other || f.forbidden || f.capabilities.Load().unusable() != nil || f.failed && time.Since(f.at) >= reinspectEvery
}

// doubt notes that a call has failed. If a command was forbidden the next one may not fail half way
// as well.
func (f *serverCheck) noteFailure(err error) {
	what := reactionTo(err)
	f.failed = f.failed || what == hold || what == giveUp
	f.forbidden = f.forbidden || isForbidden(err)
}

// unsent is the error of a call that was not sent, for what its server allows.
type unsent struct {
	error
	reaction reaction
}

func (e unsent) Unwrap() error { return e.error }

// mayGo returns an error if a call is not to be sent to the server as it is.
func (p *partition) checkCapabilities(c *call, node *goredis.Client) error {
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
	// errTooLarge: Redis takes no record of that size.
	errTooLarge = fmt.Errorf("%w: larger than Redis takes it (proto-max-bulk-len, client-query-buffer-limit)", storage.ErrTooBig)

	// errStaging: a call wants to stage records, where that is forbidden.
	errStaging = errors.New("the commands that staged records need are forbidden")
)

// noteCondition takes down what the server is like, and tells the operator what is wrong with it.
func (p *partition) setCapabilities(caps *capabilities) {
	f := &p.server
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.capabilities.Load()
	if !caps.known && !was.known {
		caps.record = min(caps.record, was.record) // it may have been learned, see tooLarge
	}
	f.capabilities.Store(caps)
	if err := caps.unusable(); err != nil {
		f.complaints.Error(p.log, "Redis cannot be used as it is", "err", err)
	}
	switch {
	case caps.refusal != nil:
		f.complaints.Error(p.log, "Redis deletes jobs when its memory is full, so no jobs are put", "maxmemory-policy", caps.policy)
	case was.refusal != nil:
		p.log.Info("jobs are put again", "maxmemory-policy", caps.policy)
	}
	if caps.cannotStage() && !was.cannotStage() {
		warnOfStaging(p.log)
	}
	if caps.record != was.record {
		p.warnOfSize(caps)
	}
}

// warnOfSize warns if Redis does not take all jobs that the server does.
func (p *partition) warnOfSize(caps *capabilities) {
	if caps.body() < p.options.MaxJobSize {
		p.log.Warn("Redis takes no larger jobs: see proto-max-bulk-len and client-query-buffer-limit", "bytes", caps.body(), "max-job-size", p.options.MaxJobSize)
	}
}

// warnOfStaging says what it costs to do without staged records.
func warnOfStaging(log *slog.Logger) {
	log.Warn("these commands are renamed, or forbidden to the user of Redis: large jobs cost Redis more without them", "commands", strings.Join(staging, ", "))
}

// tooLarge notes that Redis has not taken the largest record of a call, whatever it says of its
// settings.
func (p *partition) tooLarge(c *call) {
	f := &p.server
	f.mu.Lock()
	defer f.mu.Unlock()
	if caps := *f.capabilities.Load(); caps.record >= c.most {
		caps.record = c.most - 1
		f.capabilities.Store(&caps)
	}
}

// watch inspects the servers of all partitions every so often, until the context ends.
func (s *Store) inspectPeriodically(ctx context.Context) {
	defer close(s.watched)
	ticker := time.NewTicker(s.parts[0].options.inspectEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, p := range s.parts {
			p.recheck(ctx)
		}
	}
}

// lookAgain inspects the settings of the server. Commands that are forbidden show when they are used.
func (p *partition) recheck(ctx context.Context) {
	node, err := p.link.node(ctx, p.prefix)
	if err != nil {
		return // calls fail as well, and say so
	}
	caps, err := inspect(ctx, node, p.prefix, &p.options, false)
	if err != nil {
		return
	}
	caps.missing = p.server.capabilities.Load().missing
	p.setCapabilities(caps)
}
