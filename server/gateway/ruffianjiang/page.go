package ruffianjiang

import (
	_ "embed"
	"net/http"

	"redstalk/server/gateway"
)

//go:embed page.html
var page []byte

// showPage shows the API, where the old program had its Swagger page.
func showPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	gateway.Answer(w, r, "text/html; charset=utf-8", page)
}
