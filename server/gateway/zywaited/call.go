package zywaited

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/webhook"
)

// sendHTTP calls by HTTP or HTTPS. As by the old program redirects are followed and the last
// answer counts; but only 2xx is well, since a 3xx that leads nowhere has called nobody.
func (c *caller) sendHTTP(ctx context.Context, req *pb.CallBackReq) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encoding the callback: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, req.Url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making the callback: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.network.Do(r)
	if err != nil {
		return err
	}
	if answer.StatusCode < 200 || answer.StatusCode >= 300 {
		return fmt.Errorf("%w: status %d", errAnswer, answer.StatusCode)
	}
	return nil
}

// errAnswer: the callback was answered, but not well.
var errAnswer = errors.New("the answer is no success")

// sendGRPC calls Callback.Send, or the full method that the task names. Whatever is
// answered, without an error it is well.
func (c *caller) sendGRPC(ctx context.Context, t *task, req *pb.CallBackReq) (err error) {
	conn, release, err := c.conns.get(c.network, strings.TrimSpace(t.Address))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { release(err) }()
	method := pb.Callback_Send_FullMethodName
	if t.Path != "" {
		method = "/" + strings.TrimLeft(t.Path, "/")
	}
	err = conn.Invoke(ctx, method, req, new(emptypb.Empty))
	if status.Code(err) == codes.Unavailable && conn.forbidden.Load() {
		return fmt.Errorf("connecting: %w", webhook.ErrForbidden)
	}
	return err
}

const (
	connIdle   = 5 * time.Minute // after that a connection that nobody uses is closed
	connSweep  = time.Minute     // how often it is looked for those
	sweepAtOne = 50              // how many are closed at a time
)

// conns are connections to callback servers, by address.
type conns struct {
	mu    sync.Mutex
	all   map[string]*conn
	swept time.Time
}

type conn struct {
	*grpc.ClientConn
	users   int
	used    time.Time
	dropped bool // it is in conns no more, and closed by its last user

	forbidden atomic.Bool // it would lead where nothing may be sent
}

// get returns the connection to an address, which connects when it is used, and what is to be
// called with the result of the call.
//
// A connection that was not there, or on which no answer came in time, is not used by later calls.
// It might lead nowhere any more, and it would wait for minutes before it tries to connect again.
func (c *conns) get(n network, address string) (*conn, func(error), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(time.Now())
	one := c.all[address]
	if one == nil {
		one = new(conn)
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			connected, err := n.Dial(ctx, "tcp", address)
			one.forbidden.Store(errors.Is(err, webhook.ErrForbidden))
			return connected, err
		}
		client, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithNoProxy(),
			grpc.WithContextDialer(dial),
		)
		if err != nil {
			return nil, nil, err
		}
		if c.all == nil {
			c.all = make(map[string]*conn)
		}
		one.ClientConn = client
		c.all[address] = one
	}
	one.users++
	return one, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.users--
		one.used = time.Now()
		if (isBroken(err) || one.forbidden.Load()) && c.all[address] == one {
			delete(c.all, address)
			one.dropped = true
		}
		if one.dropped && one.users == 0 {
			go one.Close()
		}
	}, nil
}

// isBroken reports whether a call by gRPC has failed in such a way that its connection may be broken.
func isBroken(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// resultOf says how a callback has ended that has failed.
func resultOf(err error) webhook.Result {
	if errors.Is(err, errAnswer) {
		return webhook.Failed
	}
	its, ok := status.FromError(err)
	switch {
	case !ok: // of HTTP
		return webhook.ResultOf(err)
	case its.Code() == codes.DeadlineExceeded:
		return webhook.TimedOut
	case isBroken(err), its.Code() == codes.Canceled:
		return webhook.Broken
	}
	return webhook.Failed
}

// sweep closes connections that were not used for long. mu is held.
func (c *conns) sweep(now time.Time) {
	if now.Sub(c.swept) < connSweep {
		return
	}
	c.swept = now
	closed := 0
	for address, one := range c.all {
		if one.users == 0 && now.Sub(one.used) > connIdle && closed < sweepAtOne {
			delete(c.all, address)
			go one.Close()
			closed++
		}
	}
}

// close closes all connections.
func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		one.Close()
	}
	c.all = nil
}
