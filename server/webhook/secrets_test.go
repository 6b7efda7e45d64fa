package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/tube"
)

// signedBy reports whether one of the signatures of a call was made with a secret. It is
// written from the specification of Standard Webhooks, independently of sign.
func signedBy(h http.Header, body, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + body))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for one := range strings.SplitSeq(h.Get("webhook-signature"), " ") {
		if one == want {
			return true
		}
	}
	return false
}

func secretOf(text string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(text)) }

func secrets(t *testing.T, text string) *Secrets {
	t.Helper()
	s, err := ParseSecrets([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSignatures: each tube has its own secrets, and two of them while one is replaced.
func TestSignatures(t *testing.T) {
	t.Parallel()
	one, two, three := secretOf(strings.Repeat("1", 24)), secretOf(strings.Repeat("\xff", 64)), secretOf(strings.Repeat("3", 32))
	file := "# a comment\n\na*b " + one + "\nsms* \t" + two + " " + one + "\nsms/x " + three + "\r\n"
	var got calls
	f := func(r *http.Request) (int, string, error) { got.record(r); return 200, "", nil }
	withHarnessConfig(t, Config{transport: answers(f), Secrets: secrets(t, file)}, func(w *harness) {
		check := func(name, body string, by ...string) {
			t.Helper()
			w.push(name, hookOf(tube.Push{}))
			w.put(name, body)
			synctest.Wait()
			all := got.all()
			c := all[len(all)-1]
			if n := len(strings.Fields(c.header.Get("Webhook-Signature"))); n != len(by) {
				t.Errorf("%s: %d signatures", name, n)
			}
			for _, secret := range by {
				if !signedBy(c.header, c.body, secret) || c.body != body || signedBy(c.header, body+" ", secret) {
					t.Errorf("%s: not signed by %s: %+v", name, secret, c)
				}
			}
			if at := c.header.Get("Webhook-Timestamp"); at != "946684800" { // midnight, 2000-01-01
				t.Errorf("%s: the time is %s", name, at)
			}
		}
		check("ab", "body", one)
		check("a/.b", "", one)
		check("sms/x", "{\"a.b\": 1}", two, one)
		check("other", "x")
		w.SetSecrets(secrets(t, "* "+three))
		check("other", "x", three)
		w.SetSecrets(nil)
		check("other", "x")
	})
}

func TestSecretsRefused(t *testing.T) {
	t.Parallel()
	good := secretOf(strings.Repeat("x", 24))
	for _, text := range []string{
		"*", good, "* " + good + " " + good + " " + good, "* hidden", "* whsec_hidden!", "* whsec_" + base64.StdEncoding.EncodeToString([]byte("hidden")),
		"* " + secretOf(strings.Repeat("x", 65)), "* " + secretOf(strings.Repeat("x", 23)), "* " + good + "\n* hidden",
	} {
		_, err := ParseSecrets([]byte(text))
		if err == nil || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), good) || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNoSecrets: without a secret calls would have no signatures, so a file that is empty or half written changes nothing.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# secrets\n"} {
		if _, err := ParseSecrets([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestRetryIn parses both forms of Retry-After.
func TestRetryIn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, " 1 ": time.Second, "-1": 0, "1.5": 0, "18446744073709551615": longestDelay, "18446744073709551616": 0,
		"Tue, 03 Feb 2026 04:06:06 GMT": time.Minute - 7, "Tuesday, 03-Feb-26 04:06:06 GMT": time.Minute - 7,
		"Tue Feb  3 04:06:06 2026": time.Minute - 7, "Tue, 03 Feb 2026 04:05:06 GMT": 0, "Tue, 03 Feb 9999 04:05:06 GMT": longestDelay,
	} {
		if got := retryIn(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
