package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/inspect"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

func TestFanOut(t *testing.T) {
	c := redstalktest.Run(t)
	got := make(chan string, 100)
	var busy atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusGone)
		case r.URL.Path == "/busy" && busy.Add(1) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			got <- r.URL.Path + " " + r.Header.Get("Idempotency-Key")
		}
	}))
	defer s.Close()
	var all []Subscriber
	for i := range 20 {
		all = append(all, Subscriber{fmt.Sprint(i), fmt.Sprintf("%s/%d", s.URL, i)})
	}
	all = append(all, Subscriber{"gone", s.URL + "/gone"}, Subscriber{"busy", s.URL + "/busy"})
	event := Event{ID: "e1", Type: "created", Data: []byte(`{"order":7}`)}
	for range 2 { // the second time changes nothing
		if err := Publish(t.Context(), c, event, all); err != nil {
			t.Fatal(err)
		}
	}
	mux := worker.NewMux()
	Handle(mux)
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(3*time.Second, stop)
	if err := worker.New(c, worker.Config{Concurrency: 30, Signals: []os.Signal{}}).Run(ctx, mux); err != nil {
		t.Error(err)
	}
	calls := map[string]int{}
	for range len(got) {
		calls[<-got]++
	}
	if len(calls) != 21 || calls["/busy e1"] != 1 || calls["/7 e1"] != 1 {
		t.Errorf("calls %v", calls)
	}
	if tube, err := inspect.New(c).Tube(t.Context(), tube); err != nil || tube.Buried != 1 || tube.Ready+tube.Delayed+tube.Reserved != 0 {
		t.Errorf("%+v, %v", tube, err)
	}
}

// TestTurns: a subscriber with one event does not wait for all those of another one.
func TestTurns(t *testing.T) {
	c := redstalktest.Run(t)
	var calls []string
	ctx, stop := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if calls = append(calls, r.URL.Path); len(calls) == 31 {
			stop()
		}
	}))
	defer s.Close()
	for i := range 30 {
		if err := Publish(t.Context(), c, Event{ID: fmt.Sprint(i)}, []Subscriber{{"many", s.URL + "/many"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := Publish(t.Context(), c, Event{ID: "30"}, []Subscriber{{"few", s.URL + "/few"}}); err != nil {
		t.Fatal(err)
	}
	mux := worker.NewMux()
	Handle(mux)
	if err := worker.New(c, worker.Config{Concurrency: 1, Signals: []os.Signal{}}).Run(ctx, mux); err != nil {
		t.Error(err)
	}
	if at := slices.Index(calls, "/few"); len(calls) != 31 || at < 0 || at > 10 {
		t.Errorf("%d calls, that of few after %d", len(calls), at)
	}
}
