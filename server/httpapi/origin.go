package httpapi

import (
	"net/http"
	"strings"

	"redstalk/server/httpserve"
)

// setOrigins stores the origins of the Config.
func (api *API) setOrigins() {
	api.origins, api.cross = make(map[string]bool), http.NewCrossOriginProtection()
	for _, origin := range api.config.Origins {
		api.origins[origin] = true
		if err := api.cross.AddTrustedOrigin(origin); err != nil {
			api.log.Warn("not a valid origin; it is ignored", "origin", origin, "err", err)
		}
	}
}

// Origin returns an error if origin is not a valid web origin, such as
// https://ops.example.org:8443.
func ValidateOrigin(origin string) error {
	return http.NewCrossOriginProtection().AddTrustedOrigin(origin)
}

// checkOrigin answers CORS preflight requests, and refuses requests that pages of other sites
// may not send. It reports whether the request is to be handled.
func (api *API) checkOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin != "" && api.origins[origin] {
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
	if err := api.cross.Check(r); err != nil {
		newProblem(http.StatusForbidden, codeForbidden, "a page of another site sent this request; --http-origin allows sites").Write(w)
		return false
	}
	return true
}
