package zywaited

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"redstalk/server/gateway/zywaited/pb"
)

// sendHTTP calls by HTTP or HTTPS: a status below 400 is well.
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
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the answer has status %d", answer.StatusCode)
	}
	return nil
}

// sendGRPC calls Callback.Send, or the full method that the task names. Whatever is
// answered, without an error it is well.
func (c *caller) sendGRPC(ctx context.Context, t *task, req *pb.CallBackReq) error {
	conn, release, err := c.conns.get(c.network, strings.TrimSpace(t.Address))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer release()
	method := pb.Callback_Send_FullMethodName
	if t.Path != "" {
		method = "/" + strings.TrimLeft(t.Path, "/")
	}
	return conn.Invoke(ctx, method, req, new(emptypb.Empty))
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
	users int
	used  time.Time
}

// get returns the connection to an address, which connects when it is used, and what is to be
// called when that is over.
func (c *conns) get(n network, address string) (*grpc.ClientConn, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(time.Now())
	one := c.all[address]
	if one == nil {
		client, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithNoProxy(),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return n.Dial(ctx, "tcp", address) }),
		)
		if err != nil {
			return nil, nil, err
		}
		if c.all == nil {
			c.all = make(map[string]*conn)
		}
		one = &conn{ClientConn: client}
		c.all[address] = one
	}
	one.users++
	return one.ClientConn, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.users--
		one.used = time.Now()
	}, nil
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
