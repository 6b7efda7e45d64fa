package ruffianjiang

import (
	"encoding/json"
	"net/http"
	"strconv"

	"redstalk/server/gateway"
)

// Messages of the old program.
const (
	msgDone   = "操作成功！"
	msgFailed = "系统异常，请联系管理员"

	answerType = "application/json;charset=UTF-8"
)

// result is the answer to pop and, without data, to most requests.
type result struct {
	Msg  string `json:"msg"`
	Code int    `json:"code"`
}

type withData struct {
	result
	Data any `json:"data"` // null if there is no job
}

type withID struct {
	result
	ID string `json:"id"`
}

// failure is the answer to a failed request.
type failure struct {
	Msg       string `json:"msg"`
	Exception string `json:"exception"`
	Code      int    `json:"code"`
}

var done = result{Msg: msgDone}

// job is a job in answers.
type job struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	DelayTime int64  `json:"delayTime"` // milliseconds since the Unix epoch
	TTRTime   int64  `json:"ttrTime"`   // seconds
	Message   string `json:"message"`

	// For a job with a retry list or a limit of deliveries: the waits after its failures in
	// milliseconds, and the number of this delivery, from 1.
	Retry []int64 `json:"retry,omitempty"`
	N     uint32  `json:"n,omitempty"`
}

func newJob(j *gateway.Job) job {
	s := j.Stats
	of := job{
		ID: strconv.FormatUint(s.ID, 10), Topic: j.Topic, DelayTime: dueOf(s), TTRTime: int64(s.TTR), Message: string(j.Body),
	}
	if len(s.Rules.Retry) > 0 || s.Rules.Max > 0 {
		for _, d := range s.Rules.Retry {
			of.Retry = append(of.Retry, d.Milliseconds())
		}
		of.N = s.Metadata.Deliveries(&s.Counters)
	}
	return of
}

// answer writes an answer. It returns an error if the client is known not to receive it.
func answer(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err // cannot happen: there are only texts and numbers
	}
	return gateway.Answer(w, r, answerType, body)
}

// fail answers that a request has failed.
func fail(w http.ResponseWriter, r *http.Request, what string) {
	answer(w, r, failure{msgFailed, what, 1})
}
