package httpapi

import (
	"errors"
	"io"
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

// This file reads bodies of requests.

// firstPiece is how much memory a body gets before any of it has come, in bytes.
const firstPiece = 64 << 10

// readBody reads a body of at most limit bytes, into buf as far as that has room. The rest
// of one that is longer is not read.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, buf []byte) ([]byte, error) {
	tooLong := &http.MaxBytesError{Limit: limit}
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLong
	}
	if want := min(r.ContentLength, firstPiece); int64(cap(buf)) < want {
		buf = make([]byte, 0, want)
	}
	buf = buf[:0]
	from := http.MaxBytesReader(w, r.Body, limit)
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == r.ContentLength {
				var one [1]byte // net/http says that it is the end with the last bytes, mostly
				if _, err := from.Read(one[:]); err != nil {
					return whole(buf, err)
				}
			}
			buf = slices.Grow(buf, growth(len(buf), r.ContentLength))
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return whole(buf, err)
		}
	}
}

// growth returns how much room a full buffer gets beside what it has: as much again, or what is
// missing of a body of size bytes, so that the last step leaves nothing over.
func growth(have int, size int64) int {
	missing := size - int64(have)
	if missing <= 0 {
		return max(have, firstPiece)
	}
	for missing > int64(max(have, firstPiece)) {
		missing = (missing + 1) / 2
	}
	return int(missing)
}

// whole returns what was read until err.
func whole(buf []byte, err error) ([]byte, error) {
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == io.EOF:
		return buf, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, newProblem(http.StatusBadRequest, wordBadFormat, "the body ends early")
	case tooLong, errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	}
	return nil, newProblem(http.StatusBadRequest, wordBadFormat, "the body cannot be read: its chunks are broken, or the connection is")
}

// readRest reads a body that means nothing, so that the end of its client is noticed.
func readRest(r *http.Request) error {
	err := httpserve.ReadRest(r)
	if err != nil {
		_, err = whole(nil, err)
	}
	return err
}

// jsonBuffers has memory for bodies that are JSON. Nothing that is made of them points
// into it.
var jsonBuffers = sync.Pool{New: func() any { return new([]byte) }}

// mostKept is the largest buffer that is kept for the next request, in bytes.
const mostKept = 1 << 20

// readJSON reads a body of JSON and has decode make something of it, which must not keep
// the memory.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, decode func([]byte) error) error {
	buf := jsonBuffers.Get().(*[]byte)
	defer jsonBuffers.Put(buf)
	text, err := readBody(w, r, limit, *buf)
	if err != nil {
		return err
	}
	if cap(text) <= mostKept {
		*buf = text[:0]
	}
	return decode(text)
}

// unmarshal decodes JSON: strictly UTF-8, without members that are unknown or come twice.
func unmarshal(text []byte, into any) error {
	return jsonProblem(strict.Unmarshal(text, into, strict.RejectUnknownMembers(true)))
}

// jsonProblem says what is wrong with a body, if anything is.
func jsonProblem(err error) error {
	if err == nil {
		return nil
	}
	if broken, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return newProblem(http.StatusBadRequest, wordBadFormat, "the body is not JSON: %s", tidy(broken.Error(), "jsontext: "))
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
		return invalid("%s: there is no such field", at)
	case errors.Is(wrong.Err, strconv.ErrSyntax), errors.Is(wrong.Err, strconv.ErrRange):
		return invalid("%s: the number is not whole, or out of range", at)
	case wrong.Err != nil:
		return invalid("%s: %v", at, wrong.Err)
	}
	return invalid("%s: a %v is not allowed here", at, kindName(wrong.JSONKind))
}

// tidy takes away the name of the library.
func tidy(text, prefix string) string { return strings.TrimPrefix(text, prefix) }

// kindName names a kind of JSON value.
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
