package ouqiang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"redstalk/server/gateway"
	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// Config configures the handler. The zero value is useful.
type Config struct {
	// Block is how long pop waits for a job. 0 means DefaultBlock, a negative number no limit,
	// as 0 in the old configuration file.
	Block time.Duration

	// Strict makes pop also answer a lease, and finish refuse a reserved job unless the request
	// has its lease.
	Strict bool

	// MaxWaiting limits the pops that wait; further ones are refused. 0 means
	// gateway.DefaultMaxWaiting.
	MaxWaiting int

	// Log receives messages for operators; nil means slog.Default.
	Log *slog.Logger
}

// DefaultBlock is how long pop waits by default.
const DefaultBlock = 178 * time.Second

// maxTopics limits the topics of one pop.
const maxTopics = 1000

// Messages of the old program, and a few more.
const (
	msgPushed   = "添加成功"
	msgDone     = "操作成功"
	msgNoID     = "job id不能为空"
	msgNoTopic  = "topic 不能为空" // of push
	msgNoTopics = "topic不能为空"  // of pop
	msgDelay    = "delay 取值范围1 - (2^31 - 1)"
	msgTTR      = "ttr 取值范围1 - 86400"
	msgUnread   = "读取request body失败"
	msgNoJSON   = "解析json失败"
	unwritable  = `{"code":"1", "message": "生成响应body异常", "data":[]}`
	maxDelay    = 1 << 31 // seconds; the message says one less
	maxTTR      = 86400
	msgTooMany  = "too many topics"
	msgHeld     = "the job is taken: finish needs its lease"
	msgLease    = "lease is not one that pop has answered"
	codeDone    = 0
	codeFailed  = 1
	answerType  = "text/plain; charset=utf-8" // as net/http detected it for the old program's answers
)

// handler answers requests.
type handler struct {
	queue  *queue.Queue
	jobs   *gateway.Jobs
	config Config
	failed telemetry.Throttle
}

// New returns a handler for the clients of ouqiang/delay-queue.
func New(q *queue.Queue, c Config) http.Handler {
	switch {
	case c.Block == 0:
		c.Block = DefaultBlock
	case c.Block < 0:
		c.Block = storage.Forever
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	h := &handler{queue: q, jobs: gateway.NewJobs(q, c.MaxWaiting), config: c}
	mux := http.NewServeMux()
	mux.HandleFunc("/push", httpserve.Named("push", h.push))
	mux.HandleFunc("/pop", httpserve.Named("pop", h.pop))
	mux.HandleFunc("/delete", httpserve.Named("delete", h.delete))
	mux.HandleFunc("/finish", httpserve.Named("finish", h.finish))
	mux.HandleFunc("/get", httpserve.Named("get", h.get))
	return mux
}

// job is a job in requests and answers.
type job struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Delay int64  `json:"delay"` // seconds from now; in answers, since the Unix epoch
	TTR   int64  `json:"ttr"`   // seconds
	Body  string `json:"body"`
}

// fault returns what is wrong with a job that is to be put, or "".
func (j *job) fault() string {
	switch {
	case j.ID == "":
		return msgNoID
	case j.Topic == "":
		return msgNoTopic
	case j.Delay <= 0 || j.Delay > maxDelay:
		return msgDelay
	case j.TTR <= 0 || j.TTR > maxTTR:
		return msgTTR
	}
	return ""
}

func (h *handler) push(w http.ResponseWriter, r *http.Request) {
	var j job
	if !h.read(w, r, &j) {
		return
	}
	j.ID, j.Topic, j.Body = strings.TrimSpace(j.ID), strings.TrimSpace(j.Topic), strings.TrimSpace(j.Body)
	if fault := j.fault(); fault != "" {
		h.fail(w, r, fault)
		return
	}
	err := h.jobs.Put(r.Context(), gateway.New{
		Topic: j.Topic, ID: j.ID, Delay: uint32(j.Delay), TTR: uint32(j.TTR), Body: []byte(j.Body),
	})
	h.answerOutcome(w, r, msgPushed, err)
}

// popped is a job in the answer to pop.
type popped struct {
	ID    string `json:"id"`
	Body  string `json:"body"`
	Lease string `json:"lease,omitempty"` // Config.Strict
}

func (h *handler) pop(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Topic string `json:"topic"`
	}
	if !h.read(w, r, &req) {
		return
	}
	topic := strings.TrimSpace(req.Topic)
	if topic == "" {
		h.fail(w, r, msgNoTopics)
		return
	}
	topics := strings.Split(topic, ",")
	if len(topics) > maxTopics {
		h.fail(w, r, msgTooMany)
		return
	}
	ctx, cancel := gateway.UntilEnding(r)
	defer cancel()
	jobs, err := h.jobs.Take(ctx, topics, 1, h.config.Block)
	switch {
	case err == nil:
		h.deliver(w, r, jobs[0])
	case errors.Is(err, queue.ErrTimedOut), errors.Is(err, context.Canceled), errors.Is(err, queue.ErrClosed):
		h.answer(w, r, codeDone, msgDone, nil)
	default:
		h.answerOutcome(w, r, "", err)
	}
}

// deliver answers with a job, or gives it back if the client has left.
func (h *handler) deliver(w http.ResponseWriter, r *http.Request, job *gateway.Job) {
	data := popped{ID: job.ID, Body: string(job.Body)}
	if h.config.Strict {
		data.Lease = fmt.Sprintf("%020d", job.Lease)
	}
	if err := h.answer(w, r, codeDone, msgDone, data); err != nil {
		h.jobs.GiveBack(job)
	}
}

// named is a request about one job.
type named struct {
	ID    string `json:"id"`
	Lease string `json:"lease"` // for finish, with Config.Strict
}

// readID reads a request about one job. If it returns false, it has answered the request.
func (h *handler) readID(w http.ResponseWriter, r *http.Request) (n named, ok bool) {
	if !h.read(w, r, &n) {
		return n, false
	}
	if n.ID = strings.TrimSpace(n.ID); n.ID == "" {
		h.fail(w, r, msgNoID)
		return n, false
	}
	return n, true
}

func (h *handler) delete(w http.ResponseWriter, r *http.Request) {
	if n, ok := h.readID(w, r); ok {
		h.answerOutcome(w, r, msgDone, h.jobs.Remove(r.Context(), n.ID))
	}
}

func (h *handler) finish(w http.ResponseWriter, r *http.Request) {
	if !h.config.Strict {
		h.delete(w, r)
		return
	}
	n, ok := h.readID(w, r)
	if !ok {
		return
	}
	lease := uint64(0)
	if n.Lease != "" {
		var err error
		if lease, err = strconv.ParseUint(n.Lease, 10, 64); err != nil {
			h.fail(w, r, msgLease)
			return
		}
	}
	err := h.jobs.Finish(r.Context(), n.ID, lease)
	if errors.Is(err, gateway.ErrHeld) {
		h.fail(w, r, msgHeld)
		return
	}
	h.answerOutcome(w, r, msgDone, err)
}

func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	n, ok := h.readID(w, r)
	if !ok {
		return
	}
	found, err := h.jobs.Get(r.Context(), n.ID)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		h.answer(w, r, codeDone, msgDone, nil)
	case err != nil:
		h.answerOutcome(w, r, "", err)
	default:
		h.answer(w, r, codeDone, msgDone, job{
			Topic: found.Topic, ID: found.ID, Delay: gateway.Due(found.Stats).Unix(), TTR: int64(found.Stats.TTR), Body: string(found.Body),
		})
	}
}

// read parses the JSON of a request into v. If it returns false, it has answered the
// request.
func (h *handler) read(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := gateway.ReadBody(w, r, gateway.MaxBody(h.queue.MaxJobSize()))
	if err != nil {
		h.fail(w, r, msgUnread)
		return false
	}
	if json.Unmarshal(body, v) != nil {
		h.fail(w, r, msgNoJSON)
		return false
	}
	return true
}

// answerOutcome answers done, or the word of an error.
func (h *handler) answerOutcome(w http.ResponseWriter, r *http.Request, done string, err error) {
	if err == nil {
		h.answer(w, r, codeDone, done, nil)
		return
	}
	if gateway.Refuse(w, r, err) {
		return
	}
	if !gateway.Expected(err) {
		h.failed.Warn(h.config.Log, "a request has failed", "gateway", "ouqiang", "path", r.URL.Path, "err", err)
	}
	h.fail(w, r, gateway.Word(err))
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, message string) {
	h.answer(w, r, codeFailed, message, nil)
}

// answer writes an answer. It returns an error if the client is known not to receive it.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, code int, message string, data any) error {
	body, err := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{code, message, data})
	if err != nil {
		body = []byte(unwritable)
	}
	return gateway.Answer(w, r, answerType, body)
}
