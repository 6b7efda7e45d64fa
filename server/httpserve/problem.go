package httpserve

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is an error as a problem document, RFC 9457. Its type is about:blank: Title is the
// phrase of the status, and Code says which error it is.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// Code is the word of the beanstalk protocol, such as NOT_FOUND; where the protocol has
	// none, one in the same style.
	Code string `json:"code"`

	// RetryAfter, in seconds, is sent as the Retry-After header if it is not 0.
	RetryAfter int `json:"-"`
}

// NewProblem returns a Problem with the standard title of the status.
func NewProblem(status int, code, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// Error returns the detail: a Problem can be returned as an error.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Write answers a request with p.
func (p *Problem) Write(w http.ResponseWriter) { p.WriteWith(w, p) }

// WriteWith is Write with another document, of a type that embeds a Problem.
func (p *Problem) WriteWith(w http.ResponseWriter, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		text = []byte(`{"code":"INTERNAL_ERROR"}`) // cannot happen: strings and numbers can be encoded
	}
	h := w.Header()
	h.Set("Content-Type", ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	w.Write(text)
}
