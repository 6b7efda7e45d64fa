package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
	"unicode/utf8"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// FuzzJob: the description of a job is either a job within the limits, or refused with a status of the client's
// fault and a detail.
func FuzzJob(f *testing.F) {
	for _, seed := range []string{
		`{"body":"x"}`, `{"body":{"a":[1,null]},"priority":5,"delay":"90s","ttr":120}`, `{"body_base64":"AAE=","at":1795425227670}`,
		`{"body":"\u00e9\ud83d\ude00","key":"k","on_duplicate":"replace","key_ttl":"1h","retry":["2m",5],"max":3,"dead":"morgue"}`,
		`{"body":"x","group":"a b"}`, `{"body":"x","group":""}`, `{"body":"x","group":"\u0000"}`, `{"body":"x","ttr":0}`, `{"body":"x","retry":[]}`, `{"body":"\ud800"}`, `{"body":"x","body":"y"}`, `{"body":1e400}`, `{"delay":null,"body":null}`,
		`{"body":"x","delay":18446744073709551616}`, "{\"body\":\"\xff\"}", `[`, `{"body":"x"} x`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		op, err := parseJob("t", text)
		if !bytes.Equal(text, before) {
			t.Error("the text was changed")
		}
		if err != nil {
			p := problemOf(err)
			if p.Status != http.StatusBadRequest && p.Status != http.StatusUnprocessableEntity || p.Detail == "" || !utf8.ValidString(p.Detail) {
				t.Errorf("%q is refused with %d: %q", text, p.Status, p.Detail)
			}
			return
		}
		clear(text) // the buffer is reused
		if op.Kind != storage.Put || op.TTR < 1 || op.Body == nil {
			t.Errorf("%q is %+v", before, op)
		}
		checkTags(t, &op)
	})
}

// checkTags checks the assumptions of the store.
func checkTags(t *testing.T, op *storage.Op) {
	t.Helper()
	if op.Args == nil {
		return
	}
	tags := op.Args.Tags
	if tags.HasDelay && tags.HasAt || tags.Delay < 0 || tags.At < 0 || tags.Key != "" && !protocol.ValidKey([]byte(tags.Key)) || tags.KeyTTL < 0 || tags.Group != "" && !protocol.ValidGroup(tags.Group) ||
		len(tags.Retry) > 32 || tags.Max > 1_000_000 || tags.Delay%time.Millisecond != 0 {
		t.Errorf("%+v", tags)
	}
}

// FuzzQuery: for any query, the answers to a put and a reserve have a documented status, and a refused put puts
// nothing.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "group=a%20b", "group=", "ttr=5m&priority=10&retry=1m,5m", "delay=5&at=5", "key=a&on_duplicate=fail", "max=0", "dead=-", "ttr=5&ttr=6", "tube=a&tube=b&n=5",
		"tube=a;b", "tube=%zz", "tube=a%2Fb", "n=-1", "n=99999999999999999999", "wait=1ms", "wait=2h", "x=1", "&&&", "=", "at=9223372036854", "retry=,",
	} {
		f.Add(seed)
	}
	store := embedded.NewMemory()
	q := queue.New(store, queue.Config{})
	api := New(q, Config{})
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/v1/tubes/t/jobs", "/v1/reserve"} {
			if values, err := url.ParseQuery(query); err == nil && path == "/v1/reserve" && values.Has("wait") {
				continue // it can take an hour
			}
			before, err := q.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest("POST", path, bytes.NewReader([]byte("x")))
			r.URL.RawQuery = query
			r.Header.Set(changeHeader, "1")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			after, err := q.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := expected(path, w.Code, after.Jobs-before.Jobs); err != nil {
				t.Errorf("%s?%s: %v: %d %s", path, query, err, w.Code, w.Body)
			}
		}
	})
}

// expected returns an error if the status is unexpected, or if it does not fit the number of jobs put.
func expected(path string, status int, put uint64) error {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusConflict, http.StatusOK, http.StatusNoContent:
		if put > 0 {
			return errors.New("a job was put")
		}
	case http.StatusCreated:
		if path == "/v1/reserve" {
			return errors.New("a reserve puts nothing")
		}
	default:
		return errors.New("the status is not one of these")
	}
	return nil
}
