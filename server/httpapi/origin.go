package httpapi

import (
	"net/http"
	"strings"

	"redstalk/server/httpserve"
)

// allowOrigins takes down which other sites may use the API.
func (d *Door) allowOrigins() {
	d.origins, d.cross = make(map[string]bool), http.NewCrossOriginProtection()
	for _, origin := range d.config.Origins {
		d.origins[origin] = true
		if err := d.cross.AddTrustedOrigin(origin); err != nil {
			d.log.Warn("not an origin, so no page has it", "origin", origin, "err", err)
		}
	}
}

// Origin returns an error if this is not an origin, such as https://ops.example.org:8443.
func Origin(origin string) error { return http.NewCrossOriginProtection().AddTrustedOrigin(origin) }

// admitOrigin answers requests of browsers whether a page of another site may send a
// request, and refuses those that may not. It returns whether to go on.
func (d *Door) admitOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin != "" && d.origins[origin] {
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
	if err := d.cross.Check(r); err != nil {
		newProblem(http.StatusForbidden, wordForbidden, "a page of another site has sent this; --http-origin allows sites").Write(w)
		return false
	}
	return true
}
