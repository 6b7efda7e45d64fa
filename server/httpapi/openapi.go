package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	strict "github.com/go-json-experiment/json"
)

// newHuma returns the huma API, which writes the OpenAPI document and serves the rows that are
// not direct.
func newHuma(version string, mux adapter) huma.API {
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			return enc.Encode(v)
		},
		Unmarshal: func(data []byte, v any) error { return jsonProblem(strict.Unmarshal(data, v)) },
	}
	return huma.NewAPI(huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "redstalk", Version: version,
				Description: "Work queues (tubes) over HTTP. A POST needs the content type application/json or the header X-Redstalk " +
					"with any value. A duration is a whole number with a unit (ms, s, m, h, d); without a unit it is in seconds. " +
					"Errors are problem documents (RFC 9457); their code is the error word of the beanstalk protocol.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		Formats:       map[string]huma.Format{jsonType: format, "json": format},
		DefaultFormat: jsonType,
	}, mux)
}

// adapter registers huma's operations on a mux. The guard checks their requests first.
type adapter struct {
	svc  *service
	rows []*row
	mux  *http.ServeMux
}

// Handle implements huma.Adapter.
func (a adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	row := a.rowOf(op)
	h := row.direct
	if h == nil {
		h = func(w http.ResponseWriter, r *http.Request) {
			handler(humago.NewContext(op, r.WithContext(context.WithValue(r.Context(), clientKey{}, a.svc.clientOf(r))), w))
		}
	}
	a.mux.HandleFunc(op.Method+" "+op.Path, a.svc.guard(row, h))
}

// ServeHTTP implements huma.Adapter.
func (a adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// rowOf returns the row of an operation.
func (a adapter) rowOf(op *huma.Operation) *row {
	for _, row := range a.rows {
		if row.Method == op.Method && row.Path == op.Path {
			return row
		}
	}
	panic("httpapi: an operation without a row: " + op.Method + " " + op.Path)
}

// serveOpenAPI returns a handler that serves the OpenAPI document.
func serveOpenAPI(api huma.API, log *slog.Logger) http.HandlerFunc {
	text := sync.OnceValue(func() []byte {
		text, err := json.Marshal(api.OpenAPI())
		if err != nil {
			log.Error("the OpenAPI document cannot be encoded", "err", err)
		}
		return text
	})
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.Write(text())
	}
}

//go:embed docs.html
var docsPage []byte

// serveDocs serves a page that shows the OpenAPI document. The page loads nothing from other
// hosts.
func serveDocs(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(docsPage)
}
