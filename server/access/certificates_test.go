package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// pair writes a self-signed certificate and its key.
func pair(t *testing.T, dir, name string) CertificateFiles {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	files := CertificateFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	keyDER := must(x509.MarshalPKCS8PrivateKey(key))(t)
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// presented returns the name in the certificate that a server presents.
func presented(t *testing.T, c *Certificates) string {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Server(theirs, c.Config()).Handshake()
	client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestCertificatesAreReadAgain: changed files are read again, but not while certificate and
// key do not belong together.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := must(LoadCertificates(pair(t, dir, "first"), slog.New(slog.DiscardHandler)))(t)
		if got := presented(t, c); got != "first" {
			t.Fatalf("%s is presented", got)
		}
		old := must(os.ReadFile(filepath.Join(dir, "key.pem")))(t)
		pair(t, dir, "second-of-them")
		fresh := must(os.ReadFile(filepath.Join(dir, "key.pem")))(t)
		os.WriteFile(filepath.Join(dir, "key.pem"), old, 0o600)
		time.Sleep(2 * checkEvery)
		if got := presented(t, c); got != "first" {
			t.Errorf("%s is presented, with another key", got)
		}
		if c.Reload() == nil {
			t.Error("a reload of files that do not belong together is no error")
		}
		os.WriteFile(filepath.Join(dir, "key.pem.new"), fresh, 0o600)
		os.Rename(filepath.Join(dir, "key.pem.new"), filepath.Join(dir, "key.pem"))
		time.Sleep(2 * checkEvery)
		if got := presented(t, c); got != "second-of-them" {
			t.Errorf("%s is presented after the change", got)
		}
		os.Remove(filepath.Join(dir, "cert.pem"))
		time.Sleep(2 * checkEvery)
		if got := presented(t, c); got != "second-of-them" {
			t.Errorf("%s is presented when there is no file", got)
		}
	})
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	uri := must(url.Parse("spiffe://example.org/app"))(t)
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "cn"}}
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	if got := NameOf(state); got != "" {
		t.Errorf("a certificate that was not verified is of %q", got)
	}
	state.VerifiedChains = [][]*x509.Certificate{{cert}}
	if got := NameOf(state); got != "cn" {
		t.Errorf("%q, want the common name", got)
	}
	if cert.DNSNames = []string{"dns", "other"}; NameOf(state) != "dns" {
		t.Errorf("%q, want the DNS name", NameOf(state))
	}
	if cert.URIs = []*url.URL{uri}; NameOf(state) != "spiffe://example.org/app" {
		t.Errorf("%q, want the URI", NameOf(state))
	}
}

// certified is the state of a connection whose client has a certificate with that name.
func certified(name string) *tls.ConnectionState {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

// TestProtect: requests reach the handler if their user has the rights, and are refused
// otherwise.
func TestProtect(t *testing.T) {
	t.Parallel()
	hash := cheapHash(t, "open: sesame")
	a := open(t, "users:\n- {name: gate, secrets: ['"+hash+"'], rights: [{tubes: ['*'], may: [put, work]}]}\n"+
		"- {name: half, secrets: ['"+hash+"'], rights: [{tubes: ['*'], may: [put]}]}\n"+
		"- {name: few, secrets: ['"+hash+"'], rights: [{tubes: [a], may: [put, work]}]}\n")
	h := a.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(UserIn(r.Context()).Name()))
	}), Put|Work)
	for _, c := range []struct {
		change func(*http.Request)
		status int
	}{
		{func(r *http.Request) {}, 401},
		{func(r *http.Request) { r.SetBasicAuth("gate", "open: sesame") }, 200},
		{func(r *http.Request) { r.Header.Set("Authorization", "bearer gate:open: sesame") }, 200},
		{func(r *http.Request) { r.Header.Set("Authorization", "Bearer gate") }, 401},
		{func(r *http.Request) { r.Header.Set("Authorization", "Basic !") }, 401},
		{func(r *http.Request) { r.Header.Set("Authorization", "Digest gate:open: sesame") }, 401},
		{func(r *http.Request) { r.SetBasicAuth("few", "open: sesame") }, 403},
		{func(r *http.Request) { r.SetBasicAuth("half", "open: sesame") }, 403},
		{func(r *http.Request) { r.TLS = certified("gate") }, 200},
		{func(r *http.Request) { r.TLS = certified("nobody") }, 401},
		{func(r *http.Request) { r.SetBasicAuth("gate", "wrong") }, 401},
		{func(r *http.Request) { r.SetBasicAuth("nobody", "open: sesame") }, 401},
	} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		c.change(r)
		if h.ServeHTTP(w, r); w.Code != c.status || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%v: %d, want %d", r.Header, w.Code, c.status)
		}
		if w.Code == 200 && w.Body.String() != "gate" {
			t.Errorf("the user is %q", w.Body)
		}
	}
	if got := Status(nil, ErrBusy); got != http.StatusTooManyRequests {
		t.Errorf("too many attempts: %d", got)
	}
	if none := (*Access)(nil); none.Protect(http.NotFoundHandler(), All) == nil {
		t.Error("without users there is no handler")
	}
}
