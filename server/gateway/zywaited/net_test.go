package zywaited_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/x509"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"redstalk/server/gateway/zywaited"
	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/server/webhook"
	"redstalk/storage/embedded"
)

// waitTimeout limits every wait of these tests; none is expected to come near.
const waitTimeout = time.Minute

// start serves tasks by gRPC on a free port, and calls them, until the end of the test.
func start(t *testing.T, cas *x509.CertPool) pb.DelayQueueClient {
	t.Helper()
	return startWith(t, cas, waitTimeout)
}

// startWith is start with a timeout for each try.
func startWith(t *testing.T, cas *x509.CertPool, timeout time.Duration) pb.DelayQueueClient {
	t.Helper()
	log, store := slog.New(slog.DiscardHandler), embedded.NewMemory()
	q := queue.New(store, queue.Config{Log: log})
	allow, err := webhook.ParseAllow("localhost")
	if err != nil {
		t.Fatal(err)
	}
	d := webhook.New(q, webhook.Config{Allow: allow, CAs: cas, Log: log})
	s := zywaited.NewService(q, zywaited.Config{Allowed: allow.Target, Log: log, Calls: zywaited.Calls{Timeout: timeout, Pause: time.Millisecond}})
	remove, err := s.Serve(d)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	server := httpserve.New(zywaited.NewGRPC(s), httpserve.Config{HTTP2: true, Log: log})
	go server.Serve(l)
	client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		remove()
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		for _, end := range []func(context.Context) error{server.Shutdown, d.Close, q.Close} {
			if err := end(ctx); err != nil {
				t.Error(err)
			}
		}
		store.Close()
	})
	t.Run("beside", func(t *testing.T) { checkHealthAndReflection(t, client) })
	return pb.NewDelayQueueClient(client)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// checkHealthAndReflection checks the health service and reflection.
func checkHealthAndReflection(t *testing.T, client *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	health, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "pb.DelayQueue"})
	if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health is %v (%v)", health, err)
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(client).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := &grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "pb.DelayQueue"},
	}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection answers %v (%v)", answer, err)
	}
}

// callbacks is a callback server that records its calls.
type callbacks struct {
	pb.UnimplementedCallbackServer
	calls chan string
}

func (c *callbacks) Send(_ context.Context, r *pb.CallBackReq) (*emptypb.Empty, error) {
	c.calls <- fmt.Sprintf("Send %s %s %s", r.Name, r.Url, r.Args)
	return &emptypb.Empty{}, nil
}

// other answers the full method /other.Service/Call with a message that is not empty.
func (c *callbacks) other(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var r pb.CallBackReq
	if err := decode(&r); err != nil {
		return nil, err
	}
	c.calls <- fmt.Sprintf("Call %s %s %s", r.Name, r.Url, r.Args)
	return &pb.AddResp{Uid: r.Uid}, nil
}

// serveCallbacks serves callbacks by gRPC, and returns the address.
func serveCallbacks(t *testing.T, c *callbacks) string {
	t.Helper()
	g, l := grpc.NewServer(), listen(t)
	pb.RegisterCallbackServer(g, c)
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "other.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: c.other}},
	}, c)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// TestCallbacks: tasks that were added by gRPC are called by HTTP, HTTPS and gRPC, and are
// then gone. A call that fails at first is tried again.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	c := &callbacks{calls: make(chan string, 10)}
	var once sync.Once
	receive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct{ UID, Name, URL, Args string }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &req); err != nil || len(req.UID) != 32 || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("called with %s (%v)", body, err)
		}
		failed := false
		once.Do(func() {
			failed = true
			w.WriteHeader(http.StatusInternalServerError)
		})
		if !failed {
			c.calls <- fmt.Sprintf("%s %s %s %s", r.Method, req.Name, req.URL, req.Args)
			io.WriteString(w, "ignored")
		}
	})
	plain, encrypted := httptest.NewServer(receive), httptest.NewTLSServer(receive)
	defer plain.Close()
	defer encrypted.Close()
	cas := x509.NewCertPool()
	cas.AddCert(encrypted.Certificate())
	client, byGRPC := start(t, cas), serveCallbacks(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	address := func(url string) string { return url[strings.LastIndex(url, "/")+1:] }
	for _, one := range []struct {
		callback *pb.CallbackInfo
		want     string
	}{
		{&pb.CallbackInfo{Schema: "http", Address: address(plain.URL), Path: "a/b?c=d"}, "POST n http://" + address(plain.URL) + "/a/b?c=d args"},
		{&pb.CallbackInfo{Schema: " HTTPS ", Address: address(encrypted.URL), Path: "/a"}, "POST n https://" + address(encrypted.URL) + "/a args"},
		{&pb.CallbackInfo{Schema: "grpc", Address: byGRPC}, "Send n grpc://" + byGRPC + "/ args"},
		{&pb.CallbackInfo{Schema: "GRPC", Address: byGRPC, Path: "other.Service/Call"}, "Call n grpc://" + byGRPC + "/other.Service/Call args"},
	} {
		added, err := client.Add(ctx, &pb.AddReq{Name: "n", Callback: one.callback, Args: "args"})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-c.calls:
			if got != one.want {
				t.Errorf("called %s, want %s", got, one.want)
			}
		case <-ctx.Done():
			t.Fatalf("%v is not called", one.callback)
		}
		awaitGone(ctx, t, client, added.Uid)
	}
}

// awaitGone waits until a task is gone.
func awaitGone(ctx context.Context, t *testing.T, client pb.DelayQueueClient, uid string) {
	t.Helper()
	for {
		_, err := client.Get(ctx, &pb.RetrieveReq{Uid: uid})
		if isNotFound(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// TestGRPC: the service from outside, with the codes of its errors.
func TestGRPC(t *testing.T) {
	t.Parallel()
	client := start(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	req := &pb.AddReq{Name: "n", Time: &pb.ExecTime{Duration: 3_600_000, Relative: true}, Callback: &pb.CallbackInfo{Schema: "http", Address: "localhost:1"}}
	added, err := client.Add(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	task, err := client.Get(ctx, &pb.RetrieveReq{Uid: added.Uid})
	if err != nil || task.Type != pb.TaskType_TaskDelay || task.Name != "n" || task.Schema != "http" {
		t.Errorf("the task is %v (%v)", task, err)
	}
	if _, err := client.Remove(ctx, &pb.RemoveReq{Uid: added.Uid}); err != nil {
		t.Error(err)
	}
	_, gone := client.Get(ctx, &pb.RetrieveReq{Uid: added.Uid})
	_, nameless := client.Add(ctx, &pb.AddReq{Callback: req.Callback})
	_, forbidden := client.Add(ctx, &pb.AddReq{Name: "n", Callback: &pb.CallbackInfo{Schema: "http", Address: "10.0.0.1:1"}})
	for want, err := range map[string]error{"NotFound": gone, "InvalidArgument": nameless, "InvalidArgument ": forbidden} {
		if status.Code(err).String() != strings.TrimSpace(want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// silenceableProxy forwards connections to an address. On request, all existing ones go
// dead.
type silenceableProxy struct {
	to       string
	mu       sync.Mutex
	silenced chan struct{} // closed: earlier connections forward nothing
}

func (f *silenceableProxy) serve(t *testing.T) (address string) {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	f.silenced = make(chan struct{})
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", f.to)
			if err != nil {
				from.Close()
				continue
			}
			t.Cleanup(func() {
				from.Close()
				to.Close()
			})
			f.mu.Lock()
			silenced := f.silenced
			f.mu.Unlock()
			go forward(to, from, silenced)
			go forward(from, to, silenced)
		}
	}()
	return l.Addr().String()
}

// forward copies until silenced is closed; after that it only reads.
func forward(to io.Writer, from io.Reader, silenced <-chan struct{}) {
	for piece := make([]byte, 4096); ; {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		select {
		case <-silenced:
		default:
			to.Write(piece[:n])
		}
	}
}

// goSilent makes the existing connections dead.
func (f *silenceableProxy) goSilent() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.silenced)
	f.silenced = make(chan struct{})
}

// TestSilentConnection: a dead gRPC connection, on which neither an answer nor its end
// arrives, does not delay later calls.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	c := &callbacks{calls: make(chan string, 10)}
	between := &silenceableProxy{to: serveCallbacks(t, c)}
	address := between.serve(t)
	client := startWith(t, nil, time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	for _, name := range []string{"first", "second"} {
		added, err := client.Add(ctx, &pb.AddReq{Name: name, Callback: &pb.CallbackInfo{Schema: "grpc", Address: address}})
		if err != nil {
			t.Fatal(err)
		}
		for got := ""; !strings.HasPrefix(got, "Send "+name); { // on a slow machine the first one may be called twice
			select {
			case got = <-c.calls:
			case <-ctx.Done():
				t.Fatalf("the %s task is not called", name)
			}
		}
		awaitGone(ctx, t, client, added.Uid)
		between.goSilent()
	}
}
