package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Node is one server of a pool. Nodes of the same server are equal.
type Node struct{ client *goredis.Client }

// Addr returns the address of the server.
func (n Node) Addr() string { return n.client.Options().Addr }

// Do sends a command and waits for the reply.
func (n Node) Do(ctx context.Context, words ...any) Reply { return n.Pipeline(ctx, words)[0] }

// Pipeline sends commands together and waits for the reply to each.
func (n Node) Pipeline(ctx context.Context, commands ...[]any) []Reply {
	cmds := make([]*goredis.Cmd, len(commands))
	if len(commands) == 1 {
		cmds[0] = goredis.NewCmd(ctx, commands[0]...)
		n.client.Process(ctx, cmds[0]) // it has the error
	} else {
		pipe := n.client.Pipeline()
		for i, words := range commands {
			cmds[i] = pipe.Do(ctx, words...)
		}
		pipe.Exec(ctx) // its error is that of one of them
	}
	replies := make([]Reply, len(cmds))
	for i, cmd := range cmds {
		if value, err := cmd.Result(); !errors.Is(err, goredis.Nil) {
			replies[i] = Reply{value, err}
		}
	}
	return replies
}

// Pop waits for the first element of a list, and removes it; false if there is none in time.
func (n Node) Pop(ctx context.Context, key string, timeout time.Duration) (string, bool, error) {
	got, err := n.client.BLPop(ctx, timeout, key).Result()
	if errors.Is(err, goredis.Nil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return got[1], true, nil
}

// Reply is the reply to a command: nil, a string, an int64, or an []any of these; or an error.
type Reply struct {
	Value any
	Err   error
}

// errReply: a reply has another type than the command should have.
var errReply = errors.New("unexpected type of a reply of Redis")

// Text returns a reply that is a text; "" for none.
func (r Reply) Text() (string, error) {
	text, ok := r.Value.(string)
	if r.Err == nil && r.Value != nil && !ok {
		return "", fmt.Errorf("%w: %T", errReply, r.Value)
	}
	return text, r.Err
}

// Texts returns a reply that is a list of texts.
func (r Reply) Texts() ([]string, error) {
	all, ok := r.Value.([]any)
	if r.Err == nil && !ok {
		return nil, fmt.Errorf("%w: %T", errReply, r.Value)
	}
	texts := make([]string, len(all))
	for i, value := range all {
		if texts[i], ok = value.(string); !ok {
			return nil, fmt.Errorf("%w: %T in a list", errReply, value)
		}
	}
	return texts, r.Err
}

// Pairs returns a reply that is a list of names, each followed by its value.
func (r Reply) Pairs() (map[string]string, error) {
	texts, err := r.Texts()
	pairs := make(map[string]string)
	for ; len(texts) > 1; texts = texts[2:] {
		pairs[texts[0]] = texts[1]
	}
	return pairs, err
}

// Scan returns a reply of SCAN and its like: some names, and the cursor for the next ones, 0
// after the last.
func (r Reply) Scan() (names []string, next uint64, err error) {
	parts, _ := r.Value.([]any)
	if r.Err != nil || len(parts) != 2 {
		return nil, 0, cmp.Or(r.Err, fmt.Errorf("%w: %T", errReply, r.Value))
	}
	cursor, err := Reply{Value: parts[0]}.Text()
	if err == nil {
		next, err = strconv.ParseUint(cursor, 10, 64)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errReply, err)
	}
	names, err = Reply{Value: parts[1]}.Texts()
	return names, next, err
}

// Scored is a member of a sorted set with its score.
type Scored struct {
	Member string
	Score  float64
}

// Scored returns a reply that is a list of members, each followed by its score.
func (r Reply) Scored() ([]Scored, error) {
	texts, err := r.Texts()
	var all []Scored
	for ; len(texts) > 1 && err == nil; texts = texts[2:] {
		m := Scored{Member: texts[0]}
		if m.Score, err = strconv.ParseFloat(texts[1], 64); err != nil {
			err = fmt.Errorf("%w: %w", errReply, err)
		}
		all = append(all, m)
	}
	return all, err
}

// Time asks a server for its time.
func (n Node) Time(ctx context.Context) (time.Time, error) {
	texts, err := n.Do(ctx, "time").Texts()
	if err != nil {
		return time.Time{}, err
	}
	var parts [2]int64
	for i := range min(len(texts), 2) {
		if parts[i], err = strconv.ParseInt(texts[i], 10, 64); err != nil {
			return time.Time{}, fmt.Errorf("%w: %w", errReply, err)
		}
	}
	return time.Unix(parts[0], parts[1]*1000), nil
}

// Script is a script with its hash.
type Script struct{ script *goredis.Script }

// NewScript returns a script with this source.
func NewScript(text string) *Script { return &Script{goredis.NewScript(text)} }

// Hash returns the hash by which Redis knows the script.
func (s *Script) Hash() string { return s.script.Hash() }

// Run runs a script, with its source if the server does not know it yet.
func (n Node) Run(ctx context.Context, s *Script, keys []string, args ...any) Reply {
	value, err := s.script.Run(ctx, n.client, keys, args...).Result()
	if errors.Is(err, goredis.Nil) {
		return Reply{}
	}
	return Reply{value, err}
}
