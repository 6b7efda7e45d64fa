package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"redstalk/server/httpserve"
)

// Sites are the other sites whose pages may use a gateway from a browser. nil is none.
type Sites struct {
	any   bool
	cross http.CrossOriginProtection
}

// ParseSites parses a comma-separated list of origins, such as https://ops.example.org; * is
// every site.
func ParseSites(list string) (*Sites, error) {
	s := new(Sites)
	for origin := range strings.SplitSeq(list, ",") {
		if origin = strings.TrimSpace(origin); origin == "*" {
			s.any = true
		} else if s.cross.AddTrustedOrigin(origin) != nil {
			return nil, fmt.Errorf("%q is neither an origin, such as https://ops.example.org, nor *", origin)
		}
	}
	return s, nil
}

// Protect returns a handler that refuses requests which a browser marks as sent by a page of
// another site. It checks all methods, since a GET can take a job.
func (s *Sites) Protect(h http.Handler) http.Handler {
	if s == nil {
		s = new(Sites)
	}
	if s.any {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asPost := *r
		asPost.Method = http.MethodPost // Check lets GET through
		if s.cross.Check(&asPost) != nil {
			httpserve.Name(w, "foreign")
			http.Error(w, "a page of another site has sent this; --gateway-origin allows sites", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
