//go:build chromium

package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// attack is a text that runs a script if it is ever interpreted as HTML.
const attack = `"'><script>hacked=1</script><img src=x onerror=hacked=1><svg/onload=hacked=1>{{7*7}}</pre></textarea>`

// TestHostileBodies: bodies, keys and tags are shown as text.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	bodies := []string{
		attack, fmt.Sprintf(`{%q: %q, "__proto__": {"constructor": %q}, "toString": 1}`, attack, attack, attack),
		fmt.Sprintf(`O:%d:"%s":1:{s:9:"__proto__";s:%d:"%s";}`, len(attack), attack, len(attack), attack),
		"\u202egnp.exe\u202c \x00\x01\x1b[31m", deep, `{"a":` + deep + `}`, `a:1000000000:{`, "O:1:\"a\":99999:{}", strings.Repeat("x", 60_000), `s:-1:"";`, `[1e999, -0, 12345678901234567890]`,
	}
	var jobs []terms
	for _, body := range bodies {
		jobs = append(jobs, terms{"body": body})
	}
	jobs[0]["key"] = `<img/src=x/onerror=hacked=1>`
	ids := s.put("work", jobs...)
	b := s.open(t, "#/tube/work")
	b.awaitText("<img/src=x/onerror=hacked=1>")
	for _, id := range ids {
		b.openJob(id)
		for _, form := range []string{"text", "json", "php", "base64", "hex"} {
			b.click("[data-form=" + form + "]")
			b.checkNotHTML()
		}
		b.closeJob()
	}
	b.fill("#search", "onerror=")
	b.enter()
	b.awaitRows(3)
	b.checkNotHTML()
}

// checkNotHTML fails the test if text was interpreted as HTML.
func (b *tab) checkNotHTML() {
	b.t.Helper()
	if eval[bool](b, `"hacked" in window || !!document.querySelector("main img, main script, main svg[onload], dialog img, dialog script, dialog svg, #notes img")`) {
		b.t.Errorf("text was interpreted as HTML:\n%s", b.text())
	}
}

// TestHostileNames: tube names that look like paths, commands, and properties of JavaScript objects work. The
// names . and .. are not tested, because browsers never send them as path segments, however they are encoded.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	names := []string{"...", "a//b", "../../etc/passwd", "$(reboot)", "a;b", "__proto__", "constructor", "a+b", "a/x", strings.Repeat("long", 50)}
	for _, name := range names {
		s.put(name, manyJobs(2)...)
	}
	b := s.open(t, "")
	for _, name := range names {
		b.awaitCell(name, "ready", "2")
	}
	for _, name := range names {
		b.click(fmt.Sprintf(".row[data-id=%q] a", name))
		b.counts("ready", 2)
		b.awaitText("Tubes / " + name)
		b.awaitColumn("priority", "1,024", "1,024")
		b.keys("t")
		b.ready("overview")
	}
}

// TestWrongAddresses: an invalid address leads to a page that says so.
func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := s.open(t, "#/nothing")
	b.awaitText("There is no such page.")
	for _, page := range []string{"#/constructor", "#/__proto__", "#/toString/x"} {
		b.goTo("?" + url.QueryEscape(page) + page)
		b.awaitText("There is no such page.")
	}
	b.ignore("status of 4")
	for _, page := range []string{"#/tube/%zz", "#/tube/" + url.PathEscape(attack), "#/tube/-wrong", "#/put/%E0%A4%A", "#/tube/"} {
		b.goTo("?" + url.QueryEscape(page) + page)
		b.find("header a[href='#/parked']")
		b.await(`document.querySelector("main").innerText.length > 10`)
		b.checkNotHTML()
	}
}

// TestManyPages: pages that were left hold no connections. A browser has only six per server.
func TestManyPages(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	putShopJobs(s)
	b := s.blank(t)
	for i := range 10 {
		b.goTo(fmt.Sprintf("?%d", i))
		b.awaitCell("invoices", "ready", "12")
	}
	eval[bool](b, "(history.back(), true)")
	b.await(`location.search === "?8"`)
	s.put("invoices", manyJobs(1)...)
	b.awaitCell("invoices", "ready", "13")
}

// TestPolicyHolds: the content security policy blocks injected scripts and styles, and requests to other
// hosts. So when other tests report no violation, the page tried nothing forbidden.
func TestPolicyHolds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := s.open(t, "")
	b.ready("overview")
	b.ignore("Content Security Policy|violates|Refused|ERR_BLOCKED_BY_CSP|status of 404")
	eval[bool](b, `(document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='hacked=1'><p style='color:red' id=styled>x</p>"), true)`)
	eval[bool](b, `(() => { const e = document.createElement("script"); e.textContent = "hacked=1"; document.body.append(e); return true; })()`)
	b.await(`document.querySelector("img[src=x]").complete`) // so that its onerror would have run
	if eval[bool](b, `"hacked" in window`) {
		t.Error("a script in the page ran")
	}
	if eval[bool](b, `getComputedStyle(document.getElementById("styled")).color === "rgb(255, 0, 0)"`) {
		t.Error("an inline style in the page was applied")
	}
	other := startServer(t) // another origin
	eval[bool](b, `(() => {
		window.refused = [];
		addEventListener("securitypolicyviolation", e => refused.push(e.effectiveDirective + " " + e.blockedURI));
		return true;
	})()`)
	eval[bool](b, fmt.Sprintf(`fetch("%s/v1/health", { mode: "no-cors" }).then(() => false, () => true)`, other.url))
	b.await(fmt.Sprintf(`refused.some(r => r.startsWith("connect-src %s"))`, other.url))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts = map[string]bool{} // they were blocked
}
