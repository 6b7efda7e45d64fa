package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"redstalk/protocol"
	"redstalk/server/httpserve"
)

// origins are the web origins whose pages may call the API.
type origins struct {
	allowed map[string]bool
	cross   *http.CrossOriginProtection
}

func newOrigins(allowed []string, log *slog.Logger) *origins {
	o := &origins{make(map[string]bool), http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		o.allowed[origin] = true
		if err := o.cross.AddTrustedOrigin(origin); err != nil {
			log.Warn("not a valid origin; it is ignored", "origin", origin, "err", err)
		}
	}
	return o
}

// ValidateOrigin returns an error if origin is not a valid web origin, such as
// https://ops.example.org:8443.
func ValidateOrigin(origin string) error {
	return http.NewCrossOriginProtection().AddTrustedOrigin(origin)
}

// check answers CORS preflight requests, and refuses requests that pages of other sites
// may not send. It reports whether the request is to be handled.
func (o *origins) check(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin != "" && o.allowed[origin] {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", "Retry-After")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
			h.Set("Access-Control-Allow-Headers", strings.Join([]string{"Content-Type", "Authorization", changeHeader}, ", "))
			h.Set("Access-Control-Max-Age", "600")
			httpserve.Name(w, "preflight")
			w.WriteHeader(http.StatusNoContent)
			return false
		}
	}
	if err := o.cross.Check(r); err != nil {
		newProblem(http.StatusForbidden, codeForbidden, "a page of another site sent this request; --http-origin allows sites").Write(w)
		return false
	}
	return true
}

// checkPath refuses paths that http.ServeMux would clean and redirect, because a client could
// follow the redirect to a different operation. Encoded characters are left alone: tubes can be
// called "." and "a//b".
func checkPath(r *http.Request) *problem {
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		return newProblem(http.StatusBadRequest, codeBadFormat, "the path does not start with a slash")
	}
	whole := path + "/"
	if strings.Contains(path, "//") || strings.Contains(whole, "/./") || strings.Contains(whole, "/../") {
		return newProblem(http.StatusNotFound, "NOT_FOUND", "the path has an empty segment, or one of dots only: in a name, write / as %%2F and . as %%2E")
	}
	return nil
}

var noStore = []string{"no-store"}

// guard returns a handler that checks the user, the request and the rights, and then calls h.
func (svc *service) guard(row *row, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		httpserve.Name(w, row.doc.OperationID)
		w.Header()["Cache-Control"] = noStore // jobs are nobody else's business
		if r = svc.authenticate(w, r); r == nil {
			return
		}
		w, r, logged := svc.beginAct(w, r, row)
		defer logged()
		if p := row.check(r); p != nil {
			p.Write(w)
			return
		}
		if svc.authorize(w, r, row) {
			h(w, r)
		}
	}
}

// check refuses a malformed request, and one that another site could have sent.
func (row *row) check(r *http.Request) *problem {
	valid := protocol.ValidName
	if row.policy() {
		valid = protocol.ValidScope
	}
	if row.Tube == InPath && !valid([]byte(r.PathValue("tube"))) {
		return invalidTube("tube", r.PathValue("tube"))
	}
	if p := row.checkQuery(r); p != nil {
		return p
	}
	return row.checkChange(r)
}

// policy reports whether the operation is about a policy, which can be that of a pattern.
func (row *row) policy() bool { return strings.HasSuffix(row.Path, "/policy") }

// checkQuery refuses unknown parameters, and repeated ones that cannot be repeated.
func (row *row) checkQuery(r *http.Request) *problem {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return newProblem(http.StatusBadRequest, codeBadFormat, "the query cannot be parsed (%v): write ; as %%3B and %% as %%25", err)
	}
	for name, values := range query {
		switch many, known := row.query[name]; {
		case !known:
			return invalid("%s: unknown parameter", name)
		case len(values) > 1 && !many:
			return invalid("%s: the parameter appears %d times", name, len(values))
		}
	}
	return nil
}

// checkChange refuses a POST or PUT that an HTML form of another site could have sent. Forms
// cannot send other methods that change data.
func (row *row) checkChange(r *http.Request) *problem {
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodPut, len(r.Header[changeHeader]) > 0:
		return nil
	}
	kind := contentType(r)
	switch {
	case kind == jsonType, row.anyBody && !slices.Contains(formTypes, kind):
		return nil
	case row.anyBody:
		return newProblem(http.StatusUnsupportedMediaType, codeUnsupported,
			"the body needs a content type that HTML forms cannot send, such as %s or application/octet-stream, or the header %s", jsonType, changeHeader)
	}
	return newProblem(http.StatusUnsupportedMediaType, codeUnsupported, "the request needs the content type %s or the header %s", jsonType, changeHeader)
}

// formTypes are the content types that an HTML form of any site can send.
var formTypes = []string{"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
