package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestSites: a request that a browser marks as sent by a page of another site is refused,
// whatever its method, unless the site is allowed. Unmarked requests, which all other
// clients send, are not refused.
func TestSites(t *testing.T) {
	t.Parallel()
	const ops = "https://ops.example"
	for _, c := range []struct {
		allowed, site, origin string
		want                  int
	}{
		{"", "", "", 200},
		{"", "none", "", 200},
		{"", "same-origin", "http://gate:9277", 200},
		{"", "same-origin", "", 200},
		{"", "cross-site", "", 403}, // an <img>, or a link
		{"", "same-site", "", 403},
		{"", "cross-site", "http://evil.example", 403},
		{"", "cross-site", "null", 403},
		{"", "whatever", "", 403},
		{"", "", "http://gate:9277", 200}, // from a browser that sends no Sec-Fetch-Site
		{"", "", "http://gate", 403},
		{"", "", "http://evil.example", 403},
		{"", "", "null", 403},
		{ops, "cross-site", ops, 200},
		{ops, "cross-site", "https://evil.example", 403},
		{ops, "cross-site", "", 403},
		{"http://a, " + ops, "", ops, 200},
		{"*", "cross-site", "", 200},
		{ops + ",*", "same-site", "null", 200},
	} {
		var sites *Sites
		if c.allowed != "" {
			var err error
			if sites, err = ParseSites(c.allowed); err != nil {
				t.Fatal(err)
			}
		}
		h := sites.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE"} {
			r := httptest.NewRequest(method, "http://gate:9277/pop/t", nil)
			for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Origin": c.origin} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			answer := httptest.NewRecorder()
			if h.ServeHTTP(answer, r); answer.Code != c.want {
				t.Errorf("%s %+v: %d", method, c, answer.Code)
			}
		}
	}
	for _, list := range []string{"", ",", "ops.example", "https://ops.example/a", "https://ops.example,", "**"} {
		if s, err := ParseSites(list); err == nil {
			t.Errorf("%q is parsed as %+v", list, s)
		}
	}
}
