package payments

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/inspect"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

// merchant confirms the payment a with the third notification, and b never.
func merchant(t *testing.T) (url string, calls func() map[string]int) {
	var mu sync.Mutex
	n := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n[r.URL.Path]++; r.URL.Path == "/a" && n["/a"] == 3 {
			fmt.Fprintln(w, "success")
		} else {
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return map[string]int{"a": n["/a"], "b": n["/b"]}
	}
}

func TestPayments(t *testing.T) {
	t.Parallel()
	c := redstalktest.Run(t)
	url, calls := merchant(t)
	quick := make([]time.Duration, len(Intervals))
	for i, d := range Intervals {
		quick[i] = min(d/7200, 200*time.Millisecond)
	}
	for _, id := range []string{"a", "b", "a"} {
		if err := Notify(t.Context(), c, Payment{ID: id, URL: url + "/" + id, Amount: 999, Currency: "EUR"}, quick); err != nil {
			t.Fatal(err)
		}
	}
	mux := worker.NewMux()
	Handle(mux)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	go func() {
		for ctx.Err() == nil {
			if dead, err := inspect.New(c).Tube(ctx, failed); err == nil && dead.Ready == 1 {
				stop()
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if err := worker.New(c, worker.Config{Signals: []os.Signal{}}).Run(ctx, mux); err != nil {
		t.Error(err)
	}
	if n := calls(); n["a"] != 3 || n["b"] != 8 {
		t.Errorf("notifications %v, want 3 and 8", n)
	}
}

// TestIntervals: the server has the intervals that providers promise.
func TestIntervals(t *testing.T) {
	t.Parallel()
	c := redstalktest.Run(t)
	if err := Notify(t.Context(), c, Payment{ID: "p"}, Intervals); err != nil {
		t.Fatal(err)
	}
	id, _, err := c.Find(t.Context(), tube, "p")
	if err != nil {
		t.Fatal(err)
	}
	var s *client.Stats
	if s, err = c.JobStats(t.Context(), id); err != nil || s.Retry != "2m,10m,10m,1h,2h,6h,15h" {
		t.Errorf("%+v, %v", s, err)
	}
}
