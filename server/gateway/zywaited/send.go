package zywaited

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// sendHTTP calls by HTTP or HTTPS. As in the old program redirects are followed and the last
// answer counts; but only 2xx is a success, since a 3xx without a target has called nobody.
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
		var text []byte
		if answer.Body != nil {
			text, _ = io.ReadAll(answer.Body)
		}
		return &answerError{answer.StatusCode, string(text)}
	}
	return nil
}

// answerError is an errAnswer with the beginning of the answer's body.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string { return fmt.Sprintf("%v: status %d", errAnswer, e.status) }
func (e *answerError) Unwrap() error { return errAnswer }

// errAnswer reports a callback that was answered with a status other than 2xx.
var errAnswer = errors.New("the callback did not succeed")

// sendGRPC calls Callback.Send, or the full method that the task names. Any answer without
// an error is a success.
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
	connIdle   = 5 * time.Minute // after which an unused connection is closed
	connSweep  = time.Minute     // how often unused connections are looked for
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
	dropped bool // it is no longer in conns, and its last user closes it

	forbidden atomic.Bool // the address is not allowed
}

// get returns the connection to an address, which connects when it is used, and a function
// that must be called with the result of the call.
//
// A connection that failed, or on which no answer came in time, is not used by later calls.
// It may be dead, and it would wait for minutes before it tries to connect again.
func (c *conns) get(n network, address string) (*conn, func(error), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(time.Now())
	shared := c.all[address]
	if shared == nil {
		shared = new(conn)
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			connected, err := n.Dial(ctx, "tcp", address)
			shared.forbidden.Store(errors.Is(err, webhook.ErrForbidden))
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
		shared.ClientConn = client
		c.all[address] = shared
	}
	shared.users++
	return shared, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		shared.users--
		shared.used = time.Now()
		if (isBroken(err) || shared.forbidden.Load()) && c.all[address] == shared {
			delete(c.all, address)
			shared.dropped = true
		}
		if shared.dropped && shared.users == 0 {
			go shared.Close()
		}
	}, nil
}

// isBroken reports whether after this error of a gRPC call its connection may be broken.
func isBroken(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// resultOf classifies the error of a failed callback.
func resultOf(err error) webhook.Result {
	if errors.Is(err, errAnswer) {
		return webhook.Failed
	}
	st, ok := status.FromError(err)
	switch {
	case !ok: // from HTTP
		return webhook.ResultOf(err)
	case st.Code() == codes.DeadlineExceeded:
		return webhook.TimedOut
	case isBroken(err), st.Code() == codes.Canceled:
		return webhook.Broken
	}
	return webhook.Failed
}

// sweep closes connections that have not been used for long. mu is held.
func (c *conns) sweep(now time.Time) {
	if now.Sub(c.swept) < connSweep {
		return
	}
	c.swept = now
	closed := 0
	for address, shared := range c.all {
		if shared.users == 0 && now.Sub(shared.used) > connIdle && closed < sweepAtOne {
			delete(c.all, address)
			go shared.Close()
			closed++
		}
	}
}

// close closes all connections.
func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, shared := range c.all {
		shared.Close()
	}
	c.all = nil
}
