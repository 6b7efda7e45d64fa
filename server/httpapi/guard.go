package httpapi

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"redstalk/protocol"
	"redstalk/server/httpserve"
)

// changeHeader is a header that an HTML form of another site cannot send.
const changeHeader = "X-Redstalk"

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

// guard returns a handler that checks the user, the request and the rights, and then calls h.
func (api *API) guard(row *row, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		httpserve.Name(w, row.doc.OperationID)
		if r = api.authenticate(w, r); r == nil {
			return
		}
		if p := row.check(r); p != nil {
			p.Write(w)
			return
		}
		if api.authorize(w, r, row) {
			h(w, r)
		}
	}
}

// check refuses a malformed request, and one that another site could have sent.
func (row *row) check(r *http.Request) *problem {
	if row.Tube == InPath && !protocol.ValidName([]byte(r.PathValue("tube"))) {
		return invalidTube("tube", r.PathValue("tube"))
	}
	if p := row.checkQuery(r); p != nil {
		return p
	}
	return row.checkChange(r)
}

// invalidTube returns the problem for a parameter that is not a tube name.
func invalidTube(parameter, name string) *problem {
	return invalid("%s: %q is not a tube name: 1 to %d letters, digits and -+/;.$_(), not starting with -", parameter, name, protocol.MaxName)
}

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
	case kind == jsonType, row.anyBody && r.Method == http.MethodPost && !slices.Contains(formTypes, kind):
		return nil
	case row.anyBody:
		return newProblem(http.StatusUnsupportedMediaType, codeUnsupported,
			"the body needs a content type that HTML forms cannot send, such as %s or application/octet-stream, or the header %s", jsonType, changeHeader)
	}
	return newProblem(http.StatusUnsupportedMediaType, codeUnsupported, "the request needs the content type %s or the header %s", jsonType, changeHeader)
}

const jsonType = "application/json"

// formTypes are the content types that an HTML form of any site can send.
var formTypes = []string{"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}

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
