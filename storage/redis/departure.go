package redis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// departure gives up the connections of a client's pool when an answer says that another connection
// may do better (meaning.leave): a proxy keeps those that there are on a server that is no primary
// any more. go-redis does so itself with some answers, but not with those that have words of a proxy
// before them. It is a hook of go-redis.
type departure struct {
	at atomic.Int64 // connections dialed until then are given up, ns since the epoch; 0: none
}

// errLeft: a connection was given up.
var errLeft = errors.New("the connection leads to a server that has refused to do it")

// watchAnswers has connections of a client given up when its answers say so.
func watchAnswers(client *goredis.Client) { client.AddHook(&departure{}) }

// concerns returns whether a connection is given up.
func (d *departure) concerns(c *conn) bool { return d != nil && c.dialed.UnixNano() <= d.at.Load() }

// note gives up the connections that were there when a command was sent, if its answer asks for that.
func (d *departure) note(sent time.Time, answered error) {
	if leaves(answered) {
		d.at.Store(sent.UnixNano())
	}
}

// DialHook implements goredis.Hook.
func (d *departure) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err == nil {
			if wire := wireOf(c); wire != nil {
				wire.dialed, wire.departure = time.Now(), d
			}
		}
		return c, err
	}
}

// ProcessHook implements goredis.Hook. A connection that is not let in is closed by go-redis: what
// was wrong with it is said by the answer to the last attempt, AUTH.
func (d *departure) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmd)
		if name := cmd.Name(); name != "hello" && name != "auth" {
			d.note(sent, err)
		}
		return err
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (d *departure) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			d.note(sent, cmd.Err())
		}
		return err
	}
}
