package httpapi

import (
	"slices"
	"strings"
	"testing"
)

// TestPreflight: CORS preflight requests and requests are accepted from the origins in --http-origin, and refused
// from others.
func TestPreflight(t *testing.T) {
	t.Parallel()
	const known = "https://ops.example.org"
	a := start(t, Config{Origins: []string{known}})
	for origin, may := range map[string]bool{
		known: true, "https://evil.example": false, "http://ops.example.org": false, "https://ops.example.org:8443": false, "null": false,
	} {
		for method, path := range map[string]string{"POST": "/v1/tubes/t/jobs", "PUT": "/v1/tubes/t/policy", "DELETE": "/v1/jobs/1"} {
			got := a.call("OPTIONS", path, "", "Origin: "+origin, "Access-Control-Request-Method: "+method,
				"Access-Control-Request-Headers: content-type,x-redstalk", "Sec-Fetch-Site: cross-site", "Content-Type: ")
			h := got.header
			if allowed := h.Get("Access-Control-Allow-Origin"); (allowed != "") != may || may && (allowed != origin || got.status != 204) || !may && got.status != 405 {
				t.Errorf("%s from %s: %d, allowed is %q", method, origin, got.status, allowed)
			}
			if h.Get("Access-Control-Allow-Credentials") != "" || !may && h.Get("Access-Control-Allow-Methods") != "" {
				t.Errorf("%s from %s: %v", method, origin, h)
			}
			lists := func(header, what string) bool {
				return slices.Contains(strings.Split(strings.ToLower(h.Get(header)), ", "), strings.ToLower(what))
			}
			if may && (!lists("Access-Control-Allow-Methods", method) || !lists("Access-Control-Allow-Headers", "Content-Type") ||
				!lists("Access-Control-Allow-Headers", changeHeader) || !lists("Access-Control-Allow-Headers", "Authorization") || !lists("Vary", "Origin")) {
				t.Errorf("%s from %s: %v", method, origin, h)
			}
		}
		want := map[bool]int{true: 201, false: 403}[may]
		got := a.want(want, "POST", "/v1/tubes/t/jobs", `{"body":"x"}`, "Origin: "+origin, "Sec-Fetch-Site: cross-site")
		if allowed := got.header.Get("Access-Control-Allow-Origin"); (allowed == origin) != may {
			t.Errorf("the request from %s: allowed is %q", origin, allowed)
		}
	}
	if got := a.call("OPTIONS", "/v1/server", "", "Origin: "+known, "Content-Type: "); got.status != 405 {
		t.Errorf("OPTIONS that is not a preflight: %d", got.status)
	}
}
