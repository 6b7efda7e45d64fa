package ruffianjiang

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"redstalk/server/gateway"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Config configures the handler. The zero value is useful.
type Config struct {
	// Zone is the time zone of dates that name none; nil means DefaultZone.
	Zone *time.Location

	// MaxWaiting limits the pops that wait; further ones are refused. 0 means
	// gateway.DefaultMaxWaiting.
	MaxWaiting int

	// Log receives messages for operators; nil means slog.Default.
	Log *slog.Logger
}

// redissonTopic is the queue of the old program's module delay-queue-redisson, and
// redissonTTR the TTR of its jobs in seconds: they had none.
const (
	redissonTopic = "redisson_delay_Queue"
	redissonTTR   = 60
)

// handler answers requests.
type handler struct {
	queue  *queue.Queue
	jobs   *gateway.Jobs
	config Config
	failed telemetry.Throttle
}

// New returns a handler for the clients of Ruffianjiang/delay-queue.
func New(q *queue.Queue, c Config) http.Handler {
	if c.Zone == nil {
		c.Zone, _ = ParseZone(DefaultZone)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	h := &handler{queue: q, jobs: gateway.NewJobs(q, c.MaxWaiting), config: c}
	mux := http.NewServeMux()
	for _, o := range []struct {
		path, name, method string
		answer             func(http.ResponseWriter, *http.Request, *params)
	}{
		{"/push", "push", http.MethodPost, h.push},
		{"/pop/{topic}", "pop", http.MethodGet, h.pop},
		{"/finish", "finish", http.MethodPost, h.finish},
		{"/delete", "delete", http.MethodPost, h.finish},
		{"/get", "get", http.MethodGet, h.get},
		{"/rest/test/push", "pushRedisson", http.MethodGet, h.pushRedisson},
	} {
		f := httpserve.Named(o.name, h.withMethod(o.method, o.answer))
		mux.HandleFunc(o.path, f)
		mux.HandleFunc(o.path+"/{$}", f) // as in the old program
	}
	mux.HandleFunc("/swagger-ui.html", showPage)
	return mux
}

// withMethod makes f answer requests with this method, and refuses others, as in the old
// program. OPTIONS is answered with the methods, also as there.
func (h *handler) withMethod(method string, f func(http.ResponseWriter, *http.Request, *params)) http.HandlerFunc {
	allow := map[string]string{http.MethodGet: "GET,HEAD,OPTIONS", http.MethodPost: "POST,OPTIONS"}[method]
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			w.Header().Set("Allow", allow)
			return
		}
		if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
			fail(w, r, "Request method '"+r.Method+"' not supported")
			return
		}
		p, err := readParams(w, r, gateway.MaxBody(h.queue.MaxJobSize()))
		if err != nil {
			fail(w, r, err.Error())
			return
		}
		f(w, r, p)
	}
}

func (h *handler) push(w http.ResponseWriter, r *http.Request, p *params) {
	u, err := readPush(p, h.config.Zone)
	if err != nil {
		fail(w, r, err.Error())
		return
	}
	put, err := h.put(r.Context(), u)
	switch {
	case err != nil:
		h.failStore(w, r, err)
	case put.Result == tube.PutDuplicate:
		fail(w, r, "DUPLICATE "+strconv.FormatUint(put.ID, 10))
	default:
		answer(w, r, withID{done, strconv.FormatUint(put.ID, 10)})
	}
}

// put puts a job that is due at a point in time.
func (h *handler) put(ctx context.Context, u *push) (tube.PutAnswer, error) {
	name, key, body := gateway.Pack(u.topic, u.key, []byte(u.message))
	u.tags.Key, u.tags.HasAt, u.tags.At = key, true, tube.Instant(u.due)*tube.Instant(time.Millisecond)
	if key == "" {
		u.tags.Key = dueKey(u.due)
	}
	if err := gateway.CheckPut(ctx, name, u.tags.Dead, len(body)); err != nil {
		return tube.PutAnswer{}, err
	}
	job := queue.NewJob{
		Tube: name, Pri: gateway.Priority(time.UnixMilli(u.due)), TTR: u.ttr,
		Body: body, Envelope: gateway.Envelope(body, len(u.message)),
	}
	return h.queue.PutTagged(ctx, job, &u.tags)
}

// duePrefix is the prefix of a key that says when its job is due. No key that package
// gateway makes of an id has it.
const duePrefix = "%="

// dueKey returns a key for a job that is due at that time.
func dueKey(ms int64) string { return duePrefix + strconv.FormatInt(ms, 10) + "." + rand.Text() }

// dueOf returns when a job was due according to its push, in milliseconds since the Unix
// epoch.
func dueOf(s *tube.JobStats) int64 {
	if s.Metadata != nil {
		if rest, ok := strings.CutPrefix(s.Metadata.Key, duePrefix); ok {
			digits, _, _ := strings.Cut(rest, ".")
			if ms, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return ms
			}
		}
	}
	return gateway.Due(s).UnixMilli()
}

func (h *handler) pop(w http.ResponseWriter, r *http.Request, p *params) {
	n, wait, err := readPop(p)
	if err != nil {
		fail(w, r, err.Error())
		return
	}
	if r.Method == http.MethodHead {
		answer(w, r, withData{done, nil})
		return
	}
	jobs, err := h.take(r, max(n, 1), wait)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	shown := make([]job, len(jobs))
	for i, j := range jobs {
		shown[i] = newJob(j)
	}
	var data any = shown
	switch {
	case n == 0 && len(jobs) == 0:
		data = nil
	case n == 0:
		data = shown[0]
	}
	if err := answer(w, r, withData{done, data}); err != nil {
		h.jobs.GiveBack(jobs...)
	}
}

// take takes up to n jobs of the request's topic, and waits for the first one.
func (h *handler) take(r *http.Request, n int, wait time.Duration) ([]*gateway.Job, error) {
	ctx, cancel := gateway.UntilEnding(r)
	defer cancel()
	topics := []string{strings.ToValidUTF8(r.PathValue("topic"), "\uFFFD")}
	jobs, err := h.jobs.Take(ctx, topics, n, wait)
	if errors.Is(err, queue.ErrTimedOut) || errors.Is(err, context.Canceled) || errors.Is(err, queue.ErrClosed) {
		return nil, nil
	}
	return jobs, err
}

// finish removes a job, as delete does, whatever its state. It is no error if there is none.
func (h *handler) finish(w http.ResponseWriter, r *http.Request, p *params) {
	id, err := p.number("id")
	if err != nil {
		fail(w, r, err.Error())
		return
	}
	if id > 0 {
		if err := h.jobs.RemoveNumber(r.Context(), uint64(id)); err != nil {
			h.failStore(w, r, err)
			return
		}
	}
	answer(w, r, done)
}

func (h *handler) get(w http.ResponseWriter, r *http.Request, p *params) {
	id, err := p.number("id")
	if err != nil {
		fail(w, r, err.Error())
		return
	}
	j, err := h.jobs.Number(r.Context(), uint64(max(id, 0)))
	switch {
	case errors.Is(err, queue.ErrNotFound):
		answer(w, r, withData{done, nil})
	case err != nil:
		h.failStore(w, r, err)
	default:
		answer(w, r, withData{done, newJob(j)})
	}
}

// pushRedisson is the one path of the module delay-queue-redisson: ttrTime is the delay.
func (h *handler) pushRedisson(w http.ResponseWriter, r *http.Request, p *params) {
	seconds, err := p.number("ttrTime")
	if err != nil {
		fail(w, r, err.Error())
		return
	}
	message, err := p.text("message")
	if err == nil && (seconds < 0 || seconds > 1<<32-1) {
		err = errors.New("ttrTime is from 0 to 4294967295 seconds")
	}
	if err != nil {
		fail(w, r, err.Error())
		return
	}
	pri := gateway.Priority(time.Now().Add(time.Duration(seconds) * time.Second))
	job := queue.NewJob{Tube: redissonTopic, Pri: pri, Delay: uint32(seconds), TTR: redissonTTR, Body: []byte(message)}
	if err = gateway.CheckPut(r.Context(), job.Tube, "", len(job.Body)); err == nil {
		_, err = h.queue.Put(r.Context(), job)
	}
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	gateway.Answer(w, r, "text/plain;charset=UTF-8", []byte("success"))
}

// failStore answers with an error of the store, or a lack of rights.
func (h *handler) failStore(w http.ResponseWriter, r *http.Request, err error) {
	if gateway.Refuse(w, r, err) {
		return
	}
	if !gateway.Expected(err) {
		h.failed.Warn(h.config.Log, "a request has failed", "gateway", "ruffianjiang", "path", r.URL.Path, "err", err)
	}
	fail(w, r, gateway.Word(err))
}
