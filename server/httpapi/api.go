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

// newAPI returns what makes the document, and serves the rows that are not direct.
func (d *Door) newAPI() huma.API {
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
				Title: "redstalk", Version: d.config.Version,
				Description: "Jobs in tubes over HTTP. A POST needs the content type application/json or the header X-Redstalk, " +
					"whatever its value. Durations are whole numbers with a unit (ms, s, m, h, d), or else of seconds. " +
					"Errors are problem documents (RFC 9457), whose code is the word of the beanstalk protocol.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		Formats:       map[string]huma.Format{jsonType: format, "json": format},
		DefaultFormat: jsonType,
	}, adapter{d})
}

// adapter has huma's operations served by the mux of the door, behind its guard.
type adapter struct{ door *Door }

// Handle implements huma.Adapter.
func (a adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	row := a.door.rowOf(op)
	h := row.direct
	if h == nil {
		h = func(w http.ResponseWriter, r *http.Request) {
			handler(humago.NewContext(op, r.WithContext(context.WithValue(r.Context(), clientKey{}, a.door.clientOf(r))), w))
		}
	}
	a.door.mux.HandleFunc(op.Method+" "+op.Path, a.door.guard(row, h))
}

// ServeHTTP implements huma.Adapter.
func (a adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.door.ServeHTTP(w, r) }

// rowOf returns the row of an operation.
func (d *Door) rowOf(op *huma.Operation) *row {
	for _, row := range d.rows {
		if row.Method == op.Method && row.Path == op.Path {
			return row
		}
	}
	panic("web: an operation without a row: " + op.Method + " " + op.Path)
}

// operationOf returns a row as the document has it.
func operationOf(api huma.API, row *row) *huma.Operation {
	item := api.OpenAPI().Paths[row.Path]
	return map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete}[row.Method]
}

// openAPI serves the document.
func (d *Door) openAPI() http.HandlerFunc {
	text := sync.OnceValue(func() []byte {
		text, err := json.Marshal(d.api.OpenAPI())
		if err != nil {
			d.log.Error("the OpenAPI document cannot be written", "err", err)
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

// docs serves a page that shows the document. It needs nothing from elsewhere.
func (d *Door) docs(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(docsPage)
}
