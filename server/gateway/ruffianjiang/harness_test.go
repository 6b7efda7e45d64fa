package ruffianjiang_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"redstalk/server/gateway/ruffianjiang"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// harness is a gateway on a memory engine inside a synctest bubble, with virtual time. Its
// clients call the handler.
type harness struct {
	*testing.T
	store   *embedded.Engine
	queue   *queue.Queue
	handler http.Handler
}

func withHarness(t *testing.T, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		log := slog.New(slog.DiscardHandler)
		q := queue.New(store, queue.Config{MaxJobSize: 1000, Log: log})
		test(&harness{t, store, q, ruffianjiang.New(q, ruffianjiang.Config{Log: log})})
		if err := q.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		store.Close()
	})
}

// do sends a request and returns the body of the answer, whose status must be 200. A body is
// a form.
func (w *harness) do(method, path, body string) string {
	w.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.answer(r)
}

func (w *harness) answer(r *http.Request) string {
	w.Helper()
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		w.Errorf("%s %s answers status %d", r.Method, r.URL, answer.Code)
	}
	return answer.Body.String()
}

func (w *harness) want(method, path, body, answer string) {
	w.Helper()
	if got := w.do(method, path, body); got != answer {
		w.Errorf("%s %s %s\nanswers %s\nwant    %s", method, path, body, got, answer)
	}
}

const done = `{"msg":"操作成功！","code":0}`

// refused returns the answer to a failed request.
func refused(what string) string {
	quoted, _ := json.Marshal(what)
	return `{"msg":"系统异常，请联系管理员","exception":` + string(quoted) + `,"code":1}`
}

// job is a job in the answer to pop.
type job struct {
	ID        string
	Topic     string
	DelayTime int64
	TTRTime   int64
	Message   string
	Retry     []int64
	N         uint32
}

// push pushes a job by name-value pairs, and returns its id.
func (w *harness) push(pairs ...string) string {
	w.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	var answer struct {
		Code int
		ID   string
	}
	text := w.do(http.MethodPost, "/push", form.Encode())
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Code != 0 || answer.ID == "" {
		w.Errorf("push of %v answers %s", pairs, text)
	}
	return answer.ID
}

// pop returns the jobs of a pop: none, one, or with n a list.
func (w *harness) pop(path string) (jobs []job) {
	w.Helper()
	var answer struct{ Data json.RawMessage }
	text := w.do(http.MethodGet, path, "")
	err := json.Unmarshal([]byte(text), &answer)
	switch {
	case err != nil:
	case strings.HasPrefix(string(answer.Data), "["):
		err = json.Unmarshal(answer.Data, &jobs)
	case string(answer.Data) != "null":
		jobs = make([]job, 1)
		err = json.Unmarshal(answer.Data, &jobs[0])
	}
	if err != nil {
		w.Errorf("%s answers %s: %v", path, text, err)
	}
	return jobs
}

// wantPop pops and compares the messages.
func (w *harness) wantPop(path string, messages ...string) []job {
	w.Helper()
	jobs := w.pop(path)
	var got []string
	for _, j := range jobs {
		got = append(got, j.Message)
	}
	if strings.Join(got, " ") != strings.Join(messages, " ") {
		w.Errorf("%s answers %v, want %v", path, got, messages)
	}
	return jobs
}
