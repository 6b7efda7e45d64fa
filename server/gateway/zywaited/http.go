package zywaited

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"redstalk/server/access"
	"redstalk/server/gateway"
	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/httpserve"
)

// NewHTTP returns the HTTP API of a service: an error has a status, and no body. As in the
// old program, browsers are told that pages of any origin may use it: see gateway.Sites.
func NewHTTP(s *Service) http.Handler {
	mux := http.NewServeMux()
	for _, o := range []struct {
		pattern, name string
		answer        http.HandlerFunc
	}{
		{"POST /task/add", "add", s.serveAdd},
		{"GET /task/get/{uid}", "get", s.serveGet},
		{"DELETE /task/remove/{uid}", "remove", s.serveRemove},
		{"POST /task/remove/{uid}", "remove", s.serveRemove},
	} {
		mux.HandleFunc(o.pattern, httpserve.Named(o.name, o.answer))
		mux.HandleFunc(o.pattern+"/{$}", httpserve.Named(o.name, withoutSlash))
	}
	return s.traced(withOrigins(mux))
}

// withoutSlash redirects to the path without its trailing slash, as the old program does.
func withoutSlash(w http.ResponseWriter, r *http.Request) {
	to := *r.URL
	to.Path, to.RawPath = strings.TrimSuffix(to.Path, "/"), strings.TrimSuffix(to.RawPath, "/")
	status := http.StatusTemporaryRedirect
	if r.Method == http.MethodGet {
		status = http.StatusMovedPermanently
	}
	http.Redirect(w, r, to.String(), status)
}

// traced logs each request with an id.
func (s *Service) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.config.Log.Enabled(r.Context(), slog.LevelInfo) {
			s.config.Log.Info("request", "gateway", "zywaited", "trace", newTrace(), "method", r.Method, "path", r.URL.Path)
		}
		next.ServeHTTP(w, r)
	})
}

// newTrace returns a random UUID.
func newTrace() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// withOrigins tells browsers that the page of another site which sends a request may read
// the answer.
func withOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			h := w.Header()
			h.Add("Vary", "Origin")
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true")
			if r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Methods", "GET,POST,PUT,DELETE,OPTIONS")
				h.Set("Access-Control-Allow-Headers",
					"Origin,Content-Type,Accept,User-Agent,Cookie,Authorization,X-Auth-Token,X-Requested-With,X-Wechat-Type,X-Platform")
				h.Set("Access-Control-Max-Age", "43200")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Service) serveAdd(w http.ResponseWriter, r *http.Request) {
	body, err := gateway.ReadBody(w, r, gateway.MaxBody(s.queue.MaxJobSize()))
	req := new(pb.AddReq)
	if err != nil || json.NewDecoder(bytes.NewReader(body)).Decode(req) != nil { // anything behind the JSON is ignored
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	added, err := s.Add(r.Context(), req)
	answer(w, r, added, err)
}

func (s *Service) serveGet(w http.ResponseWriter, r *http.Request) {
	task, err := s.Get(r.Context(), &pb.RetrieveReq{Uid: r.PathValue("uid")})
	answer(w, r, task, err)
}

func (s *Service) serveRemove(w http.ResponseWriter, r *http.Request) {
	_, err := s.Remove(r.Context(), &pb.RemoveReq{Uid: r.PathValue("uid")})
	writeStatus(w, err)
}

// answer answers with JSON, or with the status of an error without a body. Members have
// their names in the protocol; zero members are left out, and numbers are numbers.
func answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		writeStatus(w, err)
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	gateway.Answer(w, r, "application/json; charset=utf-8", body)
}

// writeStatus answers with the status of an error, or of success.
func writeStatus(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", access.Challenge)
	}
	w.WriteHeader(status)
}

func statusOf(err error) int {
	switch status.Code(err) {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
