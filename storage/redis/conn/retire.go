package conn

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// retirer gives up the connections of a client's pool when an error says that another
// connection can do better (meaning.closeConnection): a proxy keeps existing connections to a
// server that is no longer the primary. go-redis does that itself for some errors, but not if a
// proxy has put words before them. It is a hook of go-redis.
type retirer struct {
	at  atomic.Int64           // connections dialed until then are retired, ns since the epoch; 0: none
	why atomic.Pointer[string] // what that server has answered
}

// errRetired is the error of a connection that was given up. It does not wrap the answer that is the reason, since
// it means something else: a new connection may be accepted.
type errRetired struct{ why string }

func (e errRetired) Error() string {
	return "the connection leads to a server that has refused to do it: " + e.why
}

// retiredError returns the error of connections that are given up.
func (d *retirer) retiredError() error { return errRetired{*d.why.Load()} } // why is set before at

// retireOnRefusal retires connections of a client when errors of Redis demand it.
func retireOnRefusal(client *goredis.Client) { client.AddHook(&retirer{}) }

// retired returns whether a connection is given up.
func (d *retirer) retired(c *conn) bool { return d != nil && c.dialed.UnixNano() <= d.at.Load() }

// retireIf retires the connections that existed when a command was sent, if its error demands
// it.
func (d *retirer) retireIf(sent time.Time, answered error) {
	if closesConnection(answered) {
		why := answerOf(answered)
		d.why.Store(&why)
		d.at.Store(sent.UnixNano())
	}
}

// DialHook implements goredis.Hook.
func (d *retirer) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err == nil {
			if wire := rawConnOf(c); wire != nil {
				wire.dialed, wire.retirer = time.Now(), d
			}
		}
		return c, err
	}
}

// ProcessHook implements goredis.Hook. A connection that is refused at its start is closed by
// go-redis; the error is that of the last attempt, AUTH.
func (d *retirer) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmd)
		if name := cmd.Name(); name != "hello" && name != "auth" {
			d.retireIf(sent, err)
		}
		return err
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (d *retirer) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		sent := time.Now()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			d.retireIf(sent, cmd.Err())
		}
		return err
	}
}
