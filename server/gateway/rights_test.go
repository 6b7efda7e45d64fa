package gateway_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"redstalk/server/access"
	"redstalk/server/gateway/ouqiang"
	"redstalk/server/gateway/ruffianjiang"
	"redstalk/server/gateway/zywaited"
	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/server/sight"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tools/engines"
	"redstalk/tube"
)

// guarded has the gateways on one queue, with users. The secret of each user is its name.
type guarded struct {
	*testing.T
	queue    *queue.Queue
	users    *access.Access
	path     string
	handlers map[string]http.Handler
	tasks    pb.DelayQueueClient // zywaited, by gRPC
}

// guardedOn starts the gateways on a store. Each user is NAME TUBES RIGHT.
func guardedOn(t *testing.T, store storage.Store, users ...string) *guarded {
	t.Helper()
	return guardedHiding(t, store, nil, users...)
}

// guardedHiding is guardedOn with values that are hidden.
func guardedHiding(t *testing.T, store storage.Store, hides *sight.Redaction, users ...string) *guarded {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{Log: log})
	g := &guarded{T: t, queue: q, path: filepath.Join(t.TempDir(), "users.yml")}
	g.write(users...)
	var err error
	if g.users, err = access.Open(g.path, hides, log); err != nil {
		t.Fatal(err)
	}
	s := zywaited.NewService(q, zywaited.Config{Log: log})
	g.handlers = map[string]http.Handler{
		"ouqiang":      ouqiang.New(q, ouqiang.Config{Log: log, Block: 10 * time.Millisecond}),
		"strict":       ouqiang.New(q, ouqiang.Config{Log: log, Block: time.Minute, Strict: true}),
		"ruffianjiang": ruffianjiang.New(q, ruffianjiang.Config{Log: log}),
		"zywaited":     zywaited.NewHTTP(s),
	}
	for name, h := range g.handlers {
		g.handlers[name] = g.users.Protect(h, access.Nothing)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpserve.New(g.users.Protect(zywaited.NewGRPC(s), access.Nothing), httpserve.Config{HTTP2: true, Log: log})
	go server.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	g.tasks = pb.NewDelayQueueClient(conn)
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		server.Shutdown(ctx)
		g.users.Close()
		q.Close(ctx)
		store.Close()
	})
	return g
}

// write writes the file of users. The user anonymous has no secret.
func (g *guarded) write(users ...string) {
	g.Helper()
	text := "users:\n"
	for _, user := range users {
		f := strings.Fields(user)
		hash, err := access.HashBcrypt(f[0], 4)
		if err != nil {
			g.Fatal(err)
		}
		secrets := fmt.Sprintf("secrets: [%q], ", hash)
		if f[0] == "anonymous" {
			secrets = ""
		}
		text += fmt.Sprintf("- {name: %s, %srights: [{tubes: [%q], may: [%s]}]}\n", f[0], secrets, f[1], f[2])
	}
	if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
}

// credentials returns the Authorization header of a user whose secret is its name. That of
// the user wrong is malformed, so that no delay for wrong secrets applies.
func credentials(user string) string {
	if user == "wrong" {
		return "Basic !"
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+user))
}

// ask sends a request to a gateway. A body that is not JSON is a form.
func (g *guarded) ask(gateway, user, method, path, body string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
	if !strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if user != "" {
		r.Header.Set("Authorization", credentials(user))
	}
	g.handlers[gateway].ServeHTTP(w, r)
	return w
}

// testTube is the tube of all tasks of zywaited, and the topic of all other requests.
const testTube = zywaited.Tube

// newTaskReq returns a request for a task that can be added.
func newTaskReq() *pb.AddReq {
	return &pb.AddReq{Name: "n", Time: &pb.ExecTime{Duration: 3_600_000, Relative: true}, Callback: &pb.CallbackInfo{Schema: "http", Address: "localhost:1"}}
}

// requests are all requests of all gateways, with the operation in the table of package
// access. They are about the job {id}, whose key is k, or the task {uid}. unseenStatus is
// the status if the job is in a tube that the user may not know of.
var requests = []struct {
	gateway, method, path, body string
	operation                   string
	unseenStatus                int
}{
	{"ouqiang", "POST", "/push", `{"topic":"zywaited","id":"k","delay":1,"ttr":60,"body":"x"}`, "put", 403},
	{"ouqiang", "POST", "/pop", `{"topic":"zywaited"}`, "reserve-lease", 403},
	{"ouqiang", "POST", "/get", `{"id":"k"}`, "peek", 200},
	{"ouqiang", "POST", "/delete", `{"id":"k"}`, "delete", 200},
	{"ouqiang", "POST", "/finish", `{"id":"k"}`, "delete", 200},
	{"strict", "POST", "/finish", `{"id":"k"}`, "delete-lease", 200},
	{"ruffianjiang", "POST", "/push", "topic=zywaited&message=x&ttrTime=60&delayTime=1", "put", 403},
	{"ruffianjiang", "GET", "/pop/zywaited", "", "reserve-lease", 403},
	{"ruffianjiang", "GET", "/get?id={id}", "", "peek", 200},
	{"ruffianjiang", "POST", "/delete", "id={id}", "delete", 200},
	{"ruffianjiang", "POST", "/finish", "id={id}", "delete", 200},
	{"zywaited", "POST", "/task/add", `{"name":"n","time":{"duration":3600000,"relative":true},"callback":{"schema":"http","address":"localhost:1"}}`, "put", 403},
	{"zywaited", "GET", "/task/get/{uid}", "", "find", 403},
	{"zywaited", "POST", "/task/remove/{uid}", "", "delete-key", 403},
	{"zywaited", "DELETE", "/task/remove/{uid}", "", "delete-key", 403},
}

// operations maps the methods of the gRPC service to operations in the table of package
// access.
var operations = map[string]string{"Add": "put", "Get": "find", "Remove": "delete-key"}

// TestEveryRequestWithEveryRight makes every request of every gateway as users with one
// right on the tube, on another one, and on all, unauthenticated, and with a wrong secret,
// on each engine. The expected answer follows from the table.
func TestEveryRequestWithEveryRight(t *testing.T) {
	t.Parallel()
	engines.Each(t, engines.All, func(t *testing.T, store storage.Store) {
		var users []string
		for _, right := range []string{"put", "work", "read", "admin"} {
			users = append(users, right+"-on "+testTube+" "+right, right+"-other other "+right, right+"-all * "+right)
		}
		g := guardedOn(t, store, users...)
		for _, user := range users {
			f := strings.Fields(user)
			g.tryAll(f[0], f[1], f[2])
		}
		g.tryAll("", "", "")
		g.tryAll("wrong", "", "")
	})
}

// tryAll makes all requests as a user who has a right on some tubes. Without a right it is
// unauthenticated.
func (g *guarded) tryAll(user, tubes, right string) {
	g.Helper()
	allowed := func(operation string) bool {
		need, known := access.NeedOf(operation)
		if !known {
			g.Errorf("%s is not in the table", operation)
		}
		return tubes != "other" && need.One.String() == right
	}
	for _, r := range requests {
		id, uid := g.fresh()
		fill := strings.NewReplacer("{id}", id, "{uid}", uid)
		want := 200
		switch {
		case allowed(r.operation):
		case right == "":
			want = 401
		case tubes == "other":
			want = r.unseenStatus
		default:
			want = 403
		}
		got := g.ask(r.gateway, user, r.method, fill.Replace(r.path), fill.Replace(r.body))
		if got.Code != want || (want == 401) != (got.Header().Get("WWW-Authenticate") != "") {
			g.Errorf("%s %s %s as %q: %d %s, want %d", r.gateway, r.method, r.path, user, got.Code, got.Body, want)
		}
		if text := got.Body.String(); !allowed(r.operation) && strings.Contains(text, "localhost") {
			g.Errorf("%s %s %s as %q shows %s", r.gateway, r.method, r.path, user, text)
		}
		g.checkJob(r.operation, id, want == 200 && (tubes == testTube || tubes == "*"))
	}
	for _, method := range pb.DelayQueue_ServiceDesc.Methods {
		operation, known := operations[method.MethodName]
		if !known {
			g.Errorf("%s has no operation of the table", method.MethodName)
		}
		want := codes.PermissionDenied
		switch {
		case right == "":
			want = codes.Unauthenticated
		case allowed(operation):
			want = codes.OK
		}
		if err := g.call(method.MethodName, user); status.Code(err) != want {
			g.Errorf("%s as %q: %v, want %v", method.MethodName, user, err, want)
		}
	}
}

// call calls a method of the gRPC service.
func (g *guarded) call(method, user string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if user != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", credentials(user))
	}
	_, uid := g.fresh()
	switch method {
	case "Add":
		_, err = g.tasks.Add(ctx, newTaskReq())
	case "Get":
		_, err = g.tasks.Get(ctx, &pb.RetrieveReq{Uid: uid})
	case "Remove":
		_, err = g.tasks.Remove(ctx, &pb.RemoveReq{Uid: uid})
	}
	return err
}

// fresh leaves one ready job in the tube, with the key k, which is also the uid of a task.
func (g *guarded) fresh() (id, uid string) {
	g.Helper()
	ctx := context.Background()
	g.queue.Flush(ctx, testTube, tube.Gone)
	g.queue.Flush(ctx, testTube, tube.Reserved)
	body := []byte(`{"name":"n","schema":"http","address":"localhost:1"}`)
	put, err := g.queue.PutTagged(ctx, queue.NewJob{Tube: testTube, TTR: 60, Body: body}, &tube.Tags{Key: "k"})
	if err != nil {
		g.Fatal(err)
	}
	return fmt.Sprint(put.ID), "k"
}

// checkJob checks that a deleted job is gone, and that no other is.
func (g *guarded) checkJob(operation, id string, done bool) {
	g.Helper()
	var n uint64
	fmt.Sscan(id, &n)
	_, err := g.queue.JobStats(context.Background(), n)
	gone := done && strings.HasPrefix(operation, "delete")
	if replaced := done && operation == "put"; !replaced && (err != nil) != gone {
		g.Errorf("after %s that was done (%v) the job is there (%v)", operation, done, err)
	}
}

// TestOthersIDs: a put replaces jobs with its id only where the user may put.
func TestOthersIDs(t *testing.T) {
	t.Parallel()
	g := guardedOn(t, embedded.NewMemory(), "few a put,work,read", "root * put,work,read")
	push := func(user, topic string) {
		t.Helper()
		if got := g.ask("ouqiang", user, "POST", "/push", `{"topic":"`+topic+`","id":"i","delay":1,"ttr":60,"body":"of `+user+`"}`); got.Code != 200 {
			t.Errorf("push: %d %s", got.Code, got.Body)
		}
	}
	count := func() int {
		jobs, _ := g.queue.FindKey(t.Context(), "i")
		return len(jobs)
	}
	push("root", "secret")
	push("few", "a")
	if n := count(); n != 2 {
		t.Errorf("%d jobs have the id, want that of another tube as well", n)
	}
	if got := g.ask("ouqiang", "few", "POST", "/get", `{"id":"i"}`).Body.String(); !strings.Contains(got, "of few") {
		t.Errorf("get: %s", got)
	}
	// A job that the user may not know of is neither shown nor does it hide another, even if it
	// is newer, and its number cannot be told from an unused one.
	if _, err := g.queue.PutTagged(t.Context(), queue.NewJob{Tube: "hidden", TTR: 60, Body: []byte("newest")}, &tube.Tags{Key: "i"}); err != nil {
		t.Fatal(err)
	}
	if got := g.ask("ouqiang", "few", "POST", "/get", `{"id":"i"}`).Body.String(); !strings.Contains(got, "of few") {
		t.Errorf("get: %s", got)
	}
	bare, err := g.queue.Put(t.Context(), queue.NewJob{Tube: "secret", TTR: 60})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/get", "/delete", "/finish"} {
		there := g.ask("strict", "few", "POST", path, fmt.Sprintf(`{"id":"job:%d"}`, bare))
		if none := g.ask("strict", "few", "POST", path, `{"id":"job:99999"}`); there.Code != none.Code || there.Body.String() != none.Body.String() {
			t.Errorf("%s of a secret job: %d %s, of none: %d %s", path, there.Code, there.Body, none.Code, none.Body)
		}
	}
	if got := g.ask("strict", "few", "POST", "/finish", `{"id":"i"}`); got.Code != 200 {
		t.Errorf("finish: %d %s", got.Code, got.Body)
	}
	if got := g.ask("ouqiang", "few", "POST", "/get", `{"id":"i"}`).Body.String(); strings.Contains(got, "of") || count() != 2 {
		t.Errorf("get shows %s, and %d jobs are left", got, count())
	}
	push("root", "a")
	if n := count(); n != 1 {
		t.Errorf("%d jobs have the id", n)
	}
	for dead, want := range map[string]int{"a": 200, "secret": 403} {
		if got := g.ask("ruffianjiang", "few", "POST", "/push", "topic=a&message=x&ttrTime=60&delayTime=1&max=1&dead="+dead); got.Code != want {
			t.Errorf("a push whose dead jobs go to %s: %d %s, want %d", dead, got.Code, got.Body, want)
		}
	}
}

// TestNothingLeaks: the answers that show a job to who may only read have no value that is hidden from all but administrators. Those
// to workers have.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	hides, err := sight.ParseRedaction("/path,/secret")
	if err != nil {
		t.Fatal(err)
	}
	g := guardedHiding(t, embedded.NewMemory(), hides, "reader * read", "root * put,work,read,admin", "worker * read,work")
	const canary = "C4N4RY"
	body := []byte(`{"name":"n","path":"` + canary + `","secret":"` + canary + `","schema":"http","address":"localhost:1"}`)
	put, err := g.queue.PutTagged(t.Context(), queue.NewJob{Tube: testTube, TTR: 60, Body: body}, &tube.Tags{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	shows := func(user, gateway, method, path, sent string) bool {
		got := g.ask(gateway, user, method, path, sent)
		if got.Code != 200 || !strings.Contains(got.Body.String(), "localhost") {
			t.Errorf("%s %s as %s: %d %s", method, path, user, got.Code, got.Body)
		}
		return strings.Contains(got.Body.String(), canary)
	}
	for _, r := range requests {
		if r.operation != "peek" && r.operation != "find" {
			continue
		}
		path := strings.NewReplacer("{id}", fmt.Sprint(put.ID), "{uid}", "k").Replace(r.path)
		for user, want := range map[string]bool{"reader": false, "worker": false, "root": true} {
			if got := shows(user, r.gateway, r.method, path, r.body); got != want {
				t.Errorf("%s of %s as %s shows the value: %v", path, r.gateway, user, got)
			}
		}
	}
	if !shows("worker", "ruffianjiang", "GET", "/pop/zywaited", "") {
		t.Error("a worker does not get the value")
	}
}

// TestGatewayChange: a waiting pop is answered when the file of users changes, and a removed
// user is refused from then on. Puts count against the user's limits.
func TestGatewayChange(t *testing.T) {
	t.Parallel()
	g := guardedOn(t, embedded.NewMemory(), "app a put,work")
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- g.ask("strict", "app", "POST", "/pop", `{"topic":"a"}`) }()
	for limit := time.Now().Add(time.Minute); g.queue.Waiters() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody waits")
		}
	}
	g.write("other a work")
	begun := time.Now()
	if err := g.users.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got.Code != 200 || !strings.Contains(got.Body.String(), `"data":null`) || time.Since(begun) > 30*time.Second {
		t.Errorf("%d %s after %v", got.Code, got.Body, time.Since(begun))
	}
	if got := g.ask("strict", "app", "POST", "/pop", `{"topic":"a"}`); got.Code != 401 {
		t.Errorf("a removed user gets %d", got.Code)
	}
	g.write("app * put")
	text, err := os.ReadFile(g.path)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(g.path, []byte(strings.ReplaceAll(string(text), "rights:", "limits: {bytes-per-second: 1}, rights:")), 0o600)
	if err := g.users.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{200, 429} {
		if got := g.ask("ruffianjiang", "app", "POST", "/push", "topic=a&message=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx&ttrTime=60&delayTime=1"); got.Code != want {
			t.Errorf("%d %s, want %d", got.Code, got.Body, want)
		}
	}
	if got := g.ask("ouqiang", "app", "POST", "/push", `{"topic":"a","id":"i","delay":1,"ttr":60,"body":"x"}`); got.Code != 429 {
		t.Errorf("ouqiang: %d %s", got.Code, got.Body)
	}
	if err := g.call("Add", "app"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC: %v", err)
	}
}
