package ouqiang_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/gateway/ouqiang"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// harness is a gateway on a memory engine inside a synctest bubble, with virtual time. Its
// clients call the handler.
type harness struct {
	*testing.T
	queue   *queue.Queue
	handler http.Handler
}

func withHarness(t *testing.T, c ouqiang.Config, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		log := slog.New(slog.DiscardHandler)
		q := queue.New(store, queue.Config{MaxJobSize: 100, Log: log})
		c.Log = log
		test(&harness{t, q, ouqiang.New(q, c)})
		if n := q.Waiters(); n != 0 {
			t.Errorf("%d wait at the end", n)
		}
		if err := q.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		store.Close()
	})
}

// send sends a request and returns the body of the answer, whose status must be 200.
func (w *harness) send(path, body string) string {
	w.Helper()
	return w.sendWith(context.Background(), http.MethodPost, path, body)
}

func (w *harness) sendWith(ctx context.Context, method, path, body string) string {
	w.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		w.Errorf("%s %s answers status %d", path, body, answer.Code)
	}
	return answer.Body.String()
}

// want sends a request and compares the answer.
func (w *harness) want(path, body, answer string) {
	w.Helper()
	if got := w.send(path, body); got != answer {
		w.Errorf("%s %s\nanswers %s\nwant    %s", path, body, got, answer)
	}
}

const (
	pushed = `{"code":0,"message":"添加成功","data":null}`
	done   = `{"code":0,"message":"操作成功","data":null}`
)

// push pushes a job whose body is "body of" and its id.
func (w *harness) push(topic, id string, delay, ttr int) {
	w.Helper()
	body, _ := json.Marshal(map[string]any{"topic": topic, "id": id, "delay": delay, "ttr": ttr, "body": "body of " + id})
	w.want("/push", string(body), pushed)
}

// pop pops from topics, expects an id ("": no job), and returns how long it took.
func (w *harness) pop(topics, id string) time.Duration {
	w.Helper()
	began := time.Now()
	body, _ := json.Marshal(map[string]any{"topic": topics})
	answer := done
	if id != "" {
		data, _ := json.Marshal(struct {
			ID   string `json:"id"`
			Body string `json:"body"`
		}{id, "body of " + id})
		answer = `{"code":0,"message":"操作成功","data":` + string(data) + `}`
	}
	w.want("/pop", string(body), answer)
	return time.Since(began)
}

// wantTook checks how long something took.
func (w *harness) wantTook(took, want time.Duration) {
	w.Helper()
	if took < want || took > want+10*time.Millisecond {
		w.Errorf("took %v, want %v", took, want)
	}
}

func (w *harness) status(path string) int {
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, nil))
	return answer.Code
}

// brokenWriter is a client to which nothing can be written.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// popUnwritten pops from topic t for a client that does not receive the answer.
func (w *harness) popUnwritten() {
	r := httptest.NewRequest(http.MethodPost, "/pop", strings.NewReader(`{"topic":"t"}`))
	w.handler.ServeHTTP(brokenWriter{httptest.NewRecorder()}, r)
}

// wantState checks the state of a job, and how often it was reserved.
func (w *harness) wantState(id string, state tube.State, reserves uint32) {
	w.Helper()
	jobs, err := w.queue.FindKey(context.Background(), id)
	if err != nil || len(jobs) != 1 || jobs[0].State != state || jobs[0].Counters[tube.Reserves] != reserves {
		w.Errorf("job %s is %+v (%v), want it %v and reserved %d times", id, jobs, err, state, reserves)
	}
}
