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

// changeHeader is a header that no form of another site can send.
const changeHeader = "X-Redstalk"

// checkPath refuses paths that http.ServeMux would have cleaned, with a redirection that a
// client may take for another request. What is encoded is left alone: tubes may be called
// "." and "a//b".
func checkPath(r *http.Request) *problem {
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		return newProblem(http.StatusBadRequest, wordBadFormat, "the path does not begin with a slash")
	}
	whole := path + "/"
	if strings.Contains(path, "//") || strings.Contains(whole, "/./") || strings.Contains(whole, "/../") {
		return newProblem(http.StatusNotFound, "NOT_FOUND", "the path has an empty part, or one of only dots: in a name, / is written %%2F and . is written %%2E")
	}
	return nil
}

// guard returns what answers the requests of a row: h, if they are in order.
func (d *Door) guard(row *row, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		httpserve.Name(w, row.doc.OperationID)
		if r = d.identify(w, r); r == nil {
			return
		}
		if p := row.check(r); p != nil {
			p.Write(w)
			return
		}
		if d.mayCall(w, r, row) {
			h(w, r)
		}
	}
}

// check refuses a request that is not in order.
func (row *row) check(r *http.Request) *problem {
	if row.Tube == InPath && !protocol.ValidName([]byte(r.PathValue("tube"))) {
		return invalidTube("tube", r.PathValue("tube"))
	}
	if p := row.checkQuery(r); p != nil {
		return p
	}
	return row.checkChange(r)
}

// invalidTube is the problem that a parameter is no name of a tube.
func invalidTube(parameter, name string) *problem {
	return invalid("%s: %q is not a name of a tube: 1 to %d letters, digits and -+/;.$_(), the first one not -", parameter, name, protocol.MaxName)
}

// checkQuery refuses parameters that the operation does not know, and those that come twice
// where they make sense once.
func (row *row) checkQuery(r *http.Request) *problem {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return newProblem(http.StatusBadRequest, wordBadFormat, "the query is broken (%v): write ; as %%3B and %% as %%25", err)
	}
	for name, values := range query {
		switch many, known := row.query[name]; {
		case !known:
			return invalid("%s: there is no such parameter", name)
		case len(values) > 1 && !many:
			return invalid("%s: the parameter is there %d times", name, len(values))
		}
	}
	return nil
}

// checkChange refuses a POST that a form of another site could have sent. Other methods that
// change something are not open to forms.
func (row *row) checkChange(r *http.Request) *problem {
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodPut, len(r.Header[changeHeader]) > 0:
		return nil
	}
	kind := contentType(r)
	switch {
	case kind == jsonType, row.raw && r.Method == http.MethodPost && !slices.Contains(formTypes, kind):
		return nil
	case row.raw:
		return newProblem(http.StatusUnsupportedMediaType, wordUnsupported,
			"a body needs a content type that forms do not have, such as %s or application/octet-stream; or the header %s", jsonType, changeHeader)
	}
	return newProblem(http.StatusUnsupportedMediaType, wordUnsupported, "the request needs the content type %s or the header %s", jsonType, changeHeader)
}

const jsonType = "application/json"

// formTypes are what forms of any site may send.
var formTypes = []string{"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}

// contentType returns the media type of a request, in small letters and without parameters;
// "" if it has none. One that cannot be read counts as none.
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
