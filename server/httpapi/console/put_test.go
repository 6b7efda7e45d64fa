//go:build chromium

package console_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// putField returns the selector of a field of the put form.
func putField(name string) string { return "#put-" + name }

// moreTags opens the part of that form with the advanced options.
func (b *tab) moreTags() {
	b.t.Helper()
	b.ready("put")
	if !b.has("#put-key") {
		b.click("#main form summary")
	}
}

// TestPut puts a job with all options.
func TestPut(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		b := s.open(t, "#/put/invoices")
		b.moreTags()
		for name, value := range map[string]string{
			"body": "an invoice for Zoë & <b>Ann</b>", "priority": "7", "delay": "1h", "ttr": "2m", "key": "invoice-7", "key_ttl": "1d", "group": "Ann & Co",
			"retry": "10s, 1m", "jitter": "20", "max": "5", "dead": "lost", "expire": "2h",
			"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "meta": "user=Zoë\nwhy=a\\nb = c",
		} {
			b.fill(putField(name), value)
		}
		b.choose(putField("on_duplicate"), "keep")
		b.choose(putField("on_expire"), "park")
		b.clickAction("put")
		b.awaitMessage("was put")
		s.awaitTube("invoices", 0, 0, 1, 0)
		got := s.job(s.jobs("invoices", "delayed")[0].ID)
		if left := time.Duration(got.Expires) * time.Millisecond; left < 2*time.Hour || left > 3*time.Hour { // 2 h after it is due
			t.Errorf("it expires in %v", left)
		}
		got.ID, got.Expires = 0, 0
		want := jobInfo{Tube: "invoices", State: "delayed", Body: "an invoice for Zoë & <b>Ann</b>", Key: "invoice-7", Group: "Ann & Co", Dead: "lost",
			Retry: []string{"10s", "1m"}, Jitter: 20, Max: 5, Priority: 7, Delay: 3600, TTR: 120, OnExpire: "park",
			Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Meta: map[string]string{"user": "Zoë", "why": "a\nb = c"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the job is %+v\nwant %+v", got, want)
		}
		b.clickAction("put")
		b.awaitMessage("already has the key")
		s.awaitTube("invoices", 0, 0, 1, 0)
	})
}

// TestPutForms: a due time, bodies in base64, many jobs at once, and an invalid value.
func TestPutForms(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := s.open(t, "#/put")
	b.ready("put")
	const setDue = `(() => {
		const at = new Date(Date.now() + 3600e3 - new Date().getTimezoneOffset() * 60e3);
		document.querySelector("#put-at").value = %s;
		return true;
	})()`
	eval[bool](b, fmt.Sprintf(setDue, "at.toISOString().slice(0, 19)"))
	b.fill(putField("tube"), "later")
	b.clickAction("put")
	s.awaitTube("later", 0, 0, 1, 0)
	id := s.jobs("later", "delayed")[0].ID
	if left := get[struct {
		Due int64 `json:"due_ms"`
	}](s, fmt.Sprint("/v1/jobs/", id)).Due; left < 50*60_000 || left > 60*60_000 {
		t.Errorf("it is due in %d ms", left)
	}
	eval[bool](b, fmt.Sprintf(setDue, `""`))
	b.fill(putField("tube"), "binary")
	b.fill(putField("body"), "AAH/ /g==")
	b.choose(putField("encoding"), "base64")
	b.clickAction("put")
	s.awaitTube("binary", 1, 0, 0, 0)
	if job := s.job(s.jobs("binary", "ready")[0].ID); job.Base64 != "AAH//g==" {
		t.Errorf("the job is %+v", job)
	}
	b.choose(putField("encoding"), "lines")
	b.fill(putField("tube"), "rows")
	eval[bool](b, `(document.querySelector("#put-body").value = Array.from({length: 2500}, (_, i) => "row " + i).join("\n"), true)`)
	b.clickAction("put")
	b.confirm("put")
	s.awaitTube("rows", 2500, 0, 0, 0)

	b.choose(putField("encoding"), "text")
	b.fill(putField("ttr"), "0s")
	b.ignore("status of 4")
	b.clickAction("put")
	b.await(`/ttr|time to run/i.test(document.querySelector("#notes .note.bad")?.innerText)`)
	s.awaitTube("rows", 2500, 0, 0, 0)
}

// TestSamples: samples are stored in the browser.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := s.open(t, "#/put")
	b.ready("put")
	b.fill(putField("tube"), "emails")
	b.fill(putField("body"), `{"to": "ann"}`)
	b.fill(putField("priority"), "9")
	b.clickAction("keep")
	b.fill(field("name"), "to Ann")
	b.confirm("keep")
	b.find(`.sample[data-name="to Ann"]`)

	b.reload()
	b.ready("put")
	b.click(`.sample[data-name="to Ann"] button:first-of-type`)
	b.clickAction("put")
	s.awaitTube("emails", 1, 0, 0, 0)
	if job := s.job(s.jobs("emails", "ready")[0].ID); job.Body != `{"to": "ann"}` || job.Priority != 9 {
		t.Errorf("the job is %+v", job)
	}
	b.click(`.sample[data-name="to Ann"] button[aria-label^="Delete sample"]`)
	b.awaitGone(".sample")
	b.reload()
	b.ready("put")
	b.awaitGone(".sample")
}
