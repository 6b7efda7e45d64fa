//go:build chromium

package console_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"redstalk/tools/conformance/child"
)

// behindNginx starts a server that trusts nginx, below whose path /queue it is. The person has signed on; only ann@example.org may come in.
func behindNginx(t *testing.T, person string) *testServer {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users.yml")
	text := "users:\n- {name: ops, people: [\"ann@example.org\"], rights: [{tubes: [\"*\"], may: [put, work, read, admin]}]}\n"
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--access", users, "--trust-proxy", "127.0.0.1")
	at := "127.0.0.1:" + child.FreePort()
	child.Nginx(t, "../../../tools/deploy/proxy/nginx.conf", at, "127.0.0.1:8080", at, "127.0.0.1:11380", strings.TrimPrefix(s.url, "http://"),
		`X-Forwarded-User ""`, fmt.Sprintf("X-Forwarded-User %q", person))
	s.url = "http://" + at + "/queue"
	return s
}

// TestBelowPath: below a path of a proxy the console shows who has signed on there, follows changes, and makes some; the page of
// the API works, too.
func TestBelowPath(t *testing.T) {
	t.Parallel()
	s := behindNginx(t, "ann@example.org")
	b := s.open(t, "")
	b.ready("overview")
	b.awaitText("ann@example.org")
	b.awaitText("live")
	s.put("mails", terms{"body": "one"}, terms{"body": "two"})
	b.awaitCell("mails", "ready", "2")
	b.screenshot("below-path")

	b.goTo("#/put/mails")
	b.ready("put")
	b.fill("textarea[name=body]", "three")
	b.clickAction("put")
	b.awaitMessage("Job 3")
	b.goTo("#/search/three")
	b.ready("search")
	b.awaitText("Bodies 1 job")

	eval[bool](b, `(document.querySelector("nav a[href='#/server']").click(), true)`)
	b.ready("server")
	b.click("a[href=docs]")
	b.await(`location.pathname === "/queue/docs" && document.querySelector("#tubes")`)
	b.click("#tubes summary")
	b.click("#tubes button[type=submit]")
	b.awaitText(`"name":"mails"`)
	b.click("h1 a")
	b.await(`location.pathname === "/queue/" && document.querySelector("nav")`)

	if got, err := http.Get(s.url + "/console/"); err != nil || got.Request.URL.Path != "/queue/" {
		t.Errorf("the directory of files leads to %v, %v", got.Request.URL, err)
	}
}

// TestRefused: somebody who has signed on and may not come in is told so, and offered no pages.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := behindNginx(t, "bob@example.org").blank(t)
	b.ignore("status of 403")
	b.goTo("")
	b.awaitText("signed on as bob@example.org, but no user in the users file has this name among its people")
	if b.has("header nav a, #find") {
		t.Error("pages are offered")
	}
}

// TestNavigation: all pages can be reached in windows of any width, also while a user is signed on.
func TestNavigation(t *testing.T) {
	t.Parallel()
	s := behindNginx(t, "ann@example.org")
	b := s.open(t, "")
	b.ready("overview")
	for _, width := range []int64{390, 721, 800, 1000, 1024, 1100, 1240, 1241, 1280, 1440} {
		if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 800)); err != nil {
			t.Fatal(err)
		}
		b.await(fmt.Sprintf("innerWidth === %d", width))
		hidden := eval[[]string](b, `[...document.querySelectorAll("header nav a, #find input, #user, #keys, #theme")].filter(e => {
			const box = e.getBoundingClientRect(), at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
			return !box.width || box.left < 0 || box.right > innerWidth || !e.contains(at) || e.scrollWidth > e.clientWidth + 1 && e.tagName === "A";
		}).map(e => e.textContent || e.id)`)
		links := eval[int](b, `document.querySelectorAll("header nav a").length`)
		if len(hidden) > 0 || links != 7 {
			t.Errorf("at %d px, %d links; hidden: %q", width, links, hidden)
		}
		b.screenshot(fmt.Sprintf("navigation-%d", width))
	}
}

// TestInvalidFilter: what is wrong with a filter is said beside it.
func TestInvalidFilter(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.put("mails", terms{"body": `{"a":1}`})
	b := s.open(t, "")
	says := func(field, want string) {
		t.Helper()
		b.await(fmt.Sprintf(`(e => document.getElementById(e.getAttribute("aria-describedby")).textContent.includes(%s) && e.ariaInvalid === %s)(document.querySelector(%s))`,
			js(want), map[bool]string{true: `"true"`, false: "null"}[want != ""], js(field)))
	}
	b.awaitCell("mails", "ready", "1")
	b.fill("#filter", "/m(ail/")
	says("#filter", "Unterminated group")
	b.awaitNoText("No tube matches the filter.")
	b.await("help.rows().length === 0")
	b.screenshot("invalid-filter")
	b.fill("#filter", "/m(ail)/")
	says("#filter", "")
	b.awaitTubes("mails")
	b.fill("#filter", "")

	const notJSON = "not valid JSON"
	b.goTo("#/parked")
	b.ready("parked")
	b.fill("#filter", `{"a":`)
	b.keys("\r")
	says("#filter", notJSON)
	b.fill("#filter", `{"a":1}`)
	b.keys("\r")
	says("#filter", "")

	b.goTo("#/tube/mails")
	b.ready("tube")
	b.fill("#search", `{"a":`)
	b.keys("\r")
	says("#search", notJSON)
	b.awaitText("{\"a\":1}")

	b.goTo("#/search/" + `%7B%22a%22%3A`)
	b.ready("search")
	says("#search", notJSON)
	b.awaitText("Bodies 1 job")
	b.ignore("422")
	b.goTo("#/search/" + strings.Repeat("x", 201))
	b.await(`document.querySelector("#search").value.length > 200`)
	says("#search", "200")
	b.screenshot("invalid-search")
}
