package webhook

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// TestPolicies: a tube pushes as its current policy says, also if another server on the
// store has set it.
func TestPolicies(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	f := func(r *http.Request) (int, string, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.Path)
		return 200, "", nil
	}
	withHarness(t, f, func(w *harness) {
		want := func(what string, paths ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, paths) {
				t.Errorf("%s: called %q, want %q", what, got, paths)
			}
			got = nil
		}
		elsewhere := func(p *tube.Policy) {
			storage.DoWait(w.store, []storage.Op{{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: p}}})
		}
		w.put("t", "x")
		want("without a policy")
		w.push("t", tube.Policy{Push: tube.Push{URL: "http://a/1"}})
		want("with one", "/1")
		w.push("t", tube.Policy{Push: tube.Push{URL: "http://a/2"}})
		w.put("t", "x")
		want("with another one", "/2")
		elsewhere(&tube.Policy{Push: tube.Push{URL: "http://b/3"}})
		w.put("t", "x")
		advance(time.Second)
		want("set elsewhere", "/3")
		elsewhere(nil)
		id := w.put("t", "x")
		advance(time.Second)
		want("removed elsewhere")
		if s := w.job(id); s.State != tube.Ready || s.Counters.Failures() != 0 {
			t.Errorf("a job that is not pushed any more: %+v", s)
		}
		if s := w.Dispatcher.Stats(); s.Pushing != 0 || len(s.Targets) != 0 {
			t.Errorf("what is left: %+v", s)
		}
		elsewhere(&tube.Policy{Push: tube.Push{URL: "http://b/4"}})
		advance(aloneEvery + pollEvery)
		want("set again elsewhere", "/4")
		w.push("t", tube.Policy{Rules: tube.Rules{Max: 3}})
		w.put("t", "x")
		advance(aloneEvery + pollEvery)
		want("a policy without a push")
		if s, err := w.TubeStats(context.Background(), "t"); err != nil || s.Watching != 0 {
			t.Errorf("the tube is watched: %+v, %v", s, err)
		}
	})
}

// TestForbiddenPolicy: a policy with a URL that is not allowed is refused, and not followed.
func TestForbiddenPolicy(t *testing.T) {
	t.Parallel()
	f := func(*http.Request) (int, string, error) { panic("called") }
	withHarness(t, f, func(w *harness) {
		p := &tube.Policy{Push: tube.Push{URL: "http://127.0.0.1/"}}
		if err := w.SetPolicy(context.Background(), "t", p); !errors.Is(err, queue.ErrForbidden) {
			t.Errorf("set-policy: %v", err)
		}
		storage.DoWait(w.store, []storage.Op{{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: p}}})
		w.Dispatcher.PolicyChanged("t")
		id := w.put("t", "x")
		advance(time.Minute)
		if w.job(id).State != tube.Ready || !strings.Contains(strings.Join(w.log.all(), ""), "does not push") {
			t.Errorf("%+v, and the log says %q", w.job(id), w.log.all())
		}
	})
}
