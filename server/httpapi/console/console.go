package console

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed assets
var assets embed.FS

// Patterns are the http.ServeMux patterns of the console: the page, and its files.
var Patterns = []string{"GET /{$}", "GET /console/"}

// Policy is the content security policy of the console.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the console: the page at /, and all other files below /console/.
func Handler() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // impossible: the directory is embedded
	}
	server := http.StripPrefix("/console", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		switch r.URL.Path {
		case "/":
			http.ServeFileFS(w, r, files, "page.html")
		case "/console/": // instead of a directory listing
			h.Set("Location", "../") // not http.Redirect, which makes it a path of this server, and a proxy can have another one
			w.WriteHeader(http.StatusFound)
		default:
			server.ServeHTTP(w, r)
		}
	})
}
