//go:build chromium

package console_test

import (
	"strings"
	"testing"
)

// TestDocs: the page of the API shows each operation as a command of curl, and sends it, after a question if it changes something.
func TestDocs(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.put("mails", terms{"body": "hello"})
	b := s.blank(t)
	b.goTo("docs")
	b.await(`document.querySelector("#flush form")`)
	run := func(script string) string { return eval[string](b, script) }
	run(`(() => { const d = document.getElementById("tube"); d.open = true; d.querySelector("input[name=tube]").value = "mails"; d.querySelector("form").oninput(); d.querySelector("form").requestSubmit(); return ""; })()`)
	b.await(`document.querySelector("#tube form + pre").textContent.includes('"ready":1')`)
	if got := run(`document.querySelector("#tube h4 + pre").textContent`); !strings.HasPrefix(got, "curl 'http://") || !strings.HasSuffix(got, "/v1/tubes/mails'") {
		t.Errorf("the command is %s", got)
	}
	for _, yes := range []string{"false", "true"} { // had the first one been sent, nothing would be left for the second
		run(`(() => { window.confirm = () => ` + yes + `; const d = document.getElementById("flush"); d.open = true; d.querySelector("input[name=tube]").value = "mails"; d.querySelector("form").requestSubmit(); return ""; })()`)
	}
	b.await(`document.querySelector("#flush form + pre").textContent.includes('"count":1}')`)
	s.awaitTube("mails", 0, 0, 0, 0)
}
