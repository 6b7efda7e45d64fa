package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	strict "github.com/go-json-experiment/json"
)

// newHuma returns the huma API, which writes the OpenAPI document and serves the rows that
// are not direct.
func (api *API) newHuma() huma.API {
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			return enc.Encode(v)
		},
		Unmarshal: func(data []byte, v any) error { return strict.Unmarshal(data, v) },
	}
	return huma.NewAPI(huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "redstalk", Version: api.config.Version,
				Description: "Work queues (tubes) over HTTP. A POST needs the content type application/json or the header X-Redstalk " +
					"with any value. A duration is a whole number with a unit (ms, s, m, h, d); without a unit it is in seconds. " +
					"Errors are problem documents (RFC 9457); their code is the error word of the beanstalk protocol.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		Formats:       map[string]huma.Format{jsonType: format, "json": format},
		DefaultFormat: jsonType,
	}, adapter{api})
}

// adapter registers huma's operations on the mux of an API, behind its guard.
type adapter struct{ api *API }

// Handle implements huma.Adapter.
func (a adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	row := a.api.rowOf(op)
	h := row.direct
	if h == nil {
		h = func(w http.ResponseWriter, r *http.Request) {
			handler(humago.NewContext(op, r.WithContext(context.WithValue(r.Context(), clientKey{}, a.api.clientOf(r))), w))
		}
	}
	a.api.mux.HandleFunc(op.Method+" "+op.Path, a.api.guard(row, h))
}

// ServeHTTP implements huma.Adapter.
func (a adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.api.ServeHTTP(w, r) }

// rowOf returns the row of an operation.
func (api *API) rowOf(op *huma.Operation) *row {
	for _, row := range api.rows {
		if row.Method == op.Method && row.Path == op.Path {
			return row
		}
	}
	panic("httpapi: an operation without a row: " + op.Method + " " + op.Path)
}

// operationOf returns the entry of a row in the OpenAPI document.
func operationOf(api huma.API, row *row) *huma.Operation {
	item := api.OpenAPI().Paths[row.Path]
	return map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete}[row.Method]
}

// openAPI serves the OpenAPI document.
func (api *API) openAPI() http.HandlerFunc {
	text := sync.OnceValue(func() []byte {
		text, err := json.Marshal(api.huma.OpenAPI())
		if err != nil {
			api.log.Error("the OpenAPI document cannot be encoded", "err", err)
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

// docs serves a page that shows the OpenAPI document. The page loads nothing from other hosts.
func (api *API) docs(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(docsPage)
}
