package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

type purchase struct {
	ID    int
	Items map[string]int
}

// A stubborn value panics when it is read.
type stubborn struct{}

func (*stubborn) UnmarshalJSON([]byte) error { panic("stubborn") }

// seen is what a typed handler has got.
type seen struct {
	order    purchase
	typ      string
	typeMeta string
}

// typedMux has a handler for several types, each of which sends what it got to the channel.
func typedMux(got chan<- seen) *worker.Mux {
	mux := worker.NewMux()
	mux.HandleType("orders", "order", worker.Typed(func(ctx context.Context, job *worker.Job, o purchase) error {
		got <- seen{o, job.Type(), job.Meta["content-type"]}
		return nil
	}))
	mux.HandleType("orders", "list", worker.Typed(func(ctx context.Context, job *worker.Job, all *[]purchase) error {
		got <- seen{purchase{ID: len(*all)}, job.Type(), ""}
		return nil
	}))
	mux.HandleType("orders", "channel", worker.Typed(func(context.Context, *worker.Job, chan int) error { return nil }))
	mux.HandleType("orders", "stubborn", worker.Typed(func(context.Context, *worker.Job, stubborn) error { return nil }))
	mux.HandleType("orders", "nan", worker.Reply(func(context.Context, *worker.Job, any) (float64, error) { return math.NaN(), nil }))
	return mux
}

// TestTyped: jobs with a type reach its handler with their data, also on beanstalkd.
func TestTyped(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		got := make(chan seen, 10)
		start(t, c, worker.Config{}, typedMux(got))
		meta := ""
		if on.Leases() {
			meta = "application/json"
		}
		sent := purchase{7, map[string]int{"é\n<": 1}}
		if _, err := c.PutTyped(t.Context(), "orders", "order", sent); err != nil {
			t.Fatal(err)
		}
		if g := receive(t, got, "an order"); g.order.ID != 7 || g.order.Items["é\n<"] != 1 || g.typ != "order" || g.typeMeta != meta {
			t.Errorf("%+v", g)
		}
		large := make([]purchase, 1000)
		if _, err := c.PutTyped(t.Context(), "orders", "list", large); err != nil {
			t.Fatal(err)
		}
		if g := receive(t, got, "a list"); g.order.ID != len(large) {
			t.Errorf("%+v", g)
		}
		if !on.Leases() {
			return
		}
		job := client.TypedJob("orders", "order", sent, client.Meta("content-type", "application/order+json"))
		if _, err := c.PutMany(t.Context(), []client.NewJob{job}); err != nil {
			t.Fatal(err)
		}
		if g := receive(t, got, "an order"); g.typeMeta != "application/order+json" {
			t.Errorf("%+v", g)
		}
	})
}

// TestTypedBodies: what cannot be read is buried for a reason that says what is wrong; what has no data is the zero value.
func TestTypedBodies(t *testing.T) {
	got := make(chan seen, 1)
	c := client.New(testserver.Memory(t).Addr())
	defer c.Close()
	start(t, c, worker.Config{}, typedMux(got))
	untyped := `a job without a type`
	for body, want := range map[string]string{
		`{"type":"order"}`: "", `{"type":"order","data":null,"more":1}`: "", ` {"data":{"ID":0},"type":"order"} `: "",
		`{"type":"other","data":{}}`: `no handler for jobs of the type "other"`, `{"type":"Order"}`: `no handler for jobs of the type "Order"`,
		`{"Type":"order"}`: untyped, `{"type":7}`: untyped, `{"type":null}`: untyped, `{"type":""}`: untyped, `["order"]`: untyped,
		`null`: untyped, `"order"`: untyped, ``: untyped, `{"type":"order"`: untyped, strings.Repeat("[", 20000): untyped, "\x00\xff": untyped,
		`{"type":"order","data":[1]}`:       `of the type "order": json: cannot unmarshal array`,
		`{"type":"order","data":{"ID":""}}`: `of the type "order": json: cannot unmarshal string`,
		`{"type":"channel","data":1}`:       `of the type "channel": json: cannot unmarshal number`,
	} {
		id := put(t, c, "orders", body)
		if want == "" {
			if g := receive(t, got, body); g.order.ID != 0 || g.order.Items != nil {
				t.Errorf("%s: %+v", body, g)
			}
			continue
		}
		if s := awaitState(t, c, id, "buried"); !strings.Contains(s.Reason, want) {
			t.Errorf("%.40q: %q, want %q", body, s.Reason, want)
		}
	}
	for body, want := range map[string]string{`{"type":"stubborn","data":1}`: "panic: stubborn", `{"type":"nan"}`: "the result: json: unsupported value: NaN"} {
		if s := awaitState(t, c, put(t, c, "orders", body), "delayed"); !strings.HasPrefix(s.Reason, want) {
			t.Errorf("%s: %q", body, s.Reason)
		}
	}
	for typ, data := range map[string]any{"": 1, "order": make(chan int)} {
		if _, err := c.PutTyped(t.Context(), "orders", typ, data); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%q, %T: %v", typ, data, err)
		}
	}
}

// TestHandleAndTypes: the handler of a tube gets what has no handler by its type. A handler that could never be called is an error of Run.
func TestHandleAndTypes(t *testing.T) {
	c := client.New(testserver.Memory(t).Addr())
	defer c.Close()
	got := make(chan string, 2)
	mux := typedMux(nil)
	mux.Handle("orders", func(ctx context.Context, job *worker.Job) error {
		got <- string(job.Body)
		return nil
	})
	start(t, c, worker.Config{}, mux)
	for _, body := range []string{"plain", `{"type":"other"}`} {
		if put(t, c, "orders", body); receive(t, got, body) != body {
			t.Error(body)
		}
	}
	for typ, h := range map[string]worker.Handler{"": worker.Typed(func(context.Context, *worker.Job, int) error { return nil }), "x": nil} {
		var mux worker.Mux
		mux.HandleType("orders", typ, h)
		if err := worker.New(c, worker.Config{}).Run(t.Context(), &mux); err == nil || !strings.Contains(err.Error(), "tube orders, type") {
			t.Errorf("type %q: %v", typ, err)
		}
	}
}

// TestTestJob: what a handler does with a job without a server can be read afterwards.
func TestTestJob(t *testing.T) {
	test := worker.NewTestJob(client.TypedJob("orders", "order", purchase{ID: 7}, client.Key("k"), client.Group(`a "b"`), client.Member("b"), client.Meta("request", "é\n"), client.TTR(time.Hour)))
	handler := worker.Reply(func(ctx context.Context, job *worker.Job, o purchase) (int, error) {
		at := 0
		if _, err := job.LastCheckpoint(&at); err != nil {
			return 0, err
		}
		job.SetTimeout(time.Minute)
		job.Progress("1/2")
		job.Progress("2/2")
		if err := job.Checkpoint(ctx, at+1); err != nil {
			return 0, err
		}
		select {
		case <-job.Stopping():
			return 0, worker.ErrNotFinished
		default:
		}
		s, err := job.Info(ctx)
		if err != nil || s != job.Known() || s.Key != "k" || s.Group != `a "b"` || s.Batch != "b" || job.Meta["request"] != "é\n" || job.Meta["content-type"] != "application/json" ||
			job.Token() == "" || time.Until(job.Deadline()) < time.Minute {
			t.Errorf("%+v, %v", s, err)
		}
		return o.ID + at, nil
	})
	for delivery, want := range []string{"7", "8"} {
		if err := handler(t.Context(), test.Job); err != nil || string(test.Result()) != want {
			t.Errorf("delivery %d: %s, %v", delivery, test.Result(), err)
		}
	}
	if string(test.Checkpoint()) != "2" || len(test.Progress()) != 4 || test.Progress()[0] != "1/2" || test.Timeout() != time.Minute {
		t.Errorf("%s, %q, %v", test.Checkpoint(), test.Progress(), test.Timeout())
	}
	if err := test.Job.Checkpoint(t.Context(), json.RawMessage(`"`+strings.Repeat("x", client.MaxCheckpoint)+`"`)); !errors.Is(err, client.ErrTooBig) {
		t.Errorf("a checkpoint that is too long: %v", err)
	}
	lost, lose := context.WithCancelCause(t.Context())
	lose(worker.ErrLeaseLost)
	if err := handler(lost, test.Job); !errors.Is(err, worker.ErrLeaseLost) {
		t.Errorf("a job that is lost: %v", err)
	}
	test.Stop()
	if err := handler(t.Context(), test.Job); !errors.Is(err, worker.ErrNotFinished) {
		t.Errorf("a job that is to stop: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a job that cannot be put")
		}
	}()
	worker.NewTestJob(client.TypedJob("orders", "order", make(chan int)))
}
