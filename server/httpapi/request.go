package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"redstalk/server/httpserve"
)

// This file reads request bodies and writes JSON answers.

// changeHeader is a header that an HTML form of another site cannot send.
const changeHeader = "X-Redstalk"

const (
	jsonType  = "application/json"
	octetType = "application/octet-stream"
)

// contentType returns the media type of a request, in lower case and without parameters. It is
// "" if there is none or if it cannot be parsed.
func contentType(r *http.Request) string {
	value := r.Header.Get("Content-Type")
	if value == jsonType {
		return value
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return kind
}

// initialBuffer is the most memory that is allocated for a body before any of it has arrived,
// in bytes.
const initialBuffer = 64 << 10

// readBody reads a body of at most limit bytes. It uses the memory of buf and grows it as
// needed. Of a longer body it does not read the rest.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, buf []byte) ([]byte, error) {
	tooLong := &http.MaxBytesError{Limit: limit}
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLong
	}
	if want := min(r.ContentLength, initialBuffer); int64(cap(buf)) < want {
		buf = make([]byte, 0, want)
	}
	buf = buf[:0]
	from := http.MaxBytesReader(w, r.Body, limit)
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == r.ContentLength {
				var one [1]byte // usually unused: net/http returns EOF together with the last bytes
				if _, err := from.Read(one[:]); err != nil {
					return endRead(buf, err)
				}
			}
			buf = slices.Grow(buf, growth(len(buf), r.ContentLength))
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return endRead(buf, err)
		}
	}
}

// growth returns by how much a full buffer of have bytes grows. It doubles, or it grows by an
// even part of what is missing of a body of size bytes, so that the last step fits exactly.
func growth(have int, size int64) int {
	missing := size - int64(have)
	if missing <= 0 {
		return max(have, initialBuffer)
	}
	for missing > int64(max(have, initialBuffer)) {
		missing = (missing + 1) / 2
	}
	return int(missing)
}

// endRead returns the body if err is io.EOF, and otherwise the error for the client.
func endRead(buf []byte, err error) ([]byte, error) {
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == io.EOF:
		return buf, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, newProblem(http.StatusBadRequest, codeBadFormat, "the body ends early")
	case tooLong, errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	}
	return nil, newProblem(http.StatusBadRequest, codeBadFormat, "the body cannot be read: its chunked encoding is invalid, or the connection failed")
}

// readRest reads and drops a body. After that net/http notices when the client disconnects.
func readRest(r *http.Request) error {
	err := httpserve.ReadRest(r)
	if err != nil {
		_, err = endRead(nil, err)
	}
	return err
}

// jsonBuffers is a pool of buffers for JSON bodies. Decoded values never point into them.
var jsonBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that goes back to the pool, in bytes.
const maxPooled = 1 << 20

// readJSON reads a JSON body and passes it to decode, which must not retain the memory.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, decode func([]byte) error) error {
	buf := jsonBuffers.Get().(*[]byte)
	defer jsonBuffers.Put(buf)
	text, err := readBody(w, r, limit, *buf)
	if err != nil {
		return err
	}
	if cap(text) <= maxPooled {
		*buf = text[:0]
	}
	return decode(text)
}

// unmarshal decodes JSON strictly: it refuses invalid UTF-8, and unknown or repeated members.
func unmarshal(text []byte, into any) error {
	return jsonProblem(strict.Unmarshal(text, into, strict.RejectUnknownMembers(true)))
}

// jsonProblem returns the problem for an error of the JSON decoder, or nil if err is nil.
func jsonProblem(err error) error {
	if err == nil {
		return nil
	}
	if broken, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return newProblem(http.StatusBadRequest, codeBadFormat, "the body is not JSON: %s", tidy(broken.Error(), "jsontext: "))
	}
	wrong, ok := errors.AsType[*strict.SemanticError](err)
	if !ok {
		return invalid("%s", err.Error())
	}
	at := strings.ReplaceAll(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/", ".")
	if at == "" {
		at = "the body"
	}
	switch {
	case errors.Is(wrong.Err, strict.ErrUnknownName):
		return invalid("%s: unknown field", at)
	case errors.Is(wrong.Err, strconv.ErrSyntax), errors.Is(wrong.Err, strconv.ErrRange):
		return invalid("%s: the number is not an integer, or out of range", at)
	case wrong.Err != nil:
		return invalid("%s: %v", at, wrong.Err)
	}
	return invalid("%s: a %v is not allowed here", at, kindName(wrong.JSONKind))
}

// tidy removes the name of the JSON library from an error text.
func tidy(text, prefix string) string { return strings.TrimPrefix(text, prefix) }

// kindName returns the name of a kind of JSON value.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number of this kind"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value of this kind"
}

var jsonTypes = []string{jsonType}

// writeJSON answers with JSON text.
func writeJSON(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h["Content-Type"] = jsonTypes
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	w.WriteHeader(status)
	w.Write(text)
}
