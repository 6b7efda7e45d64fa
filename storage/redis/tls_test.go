package redis

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"

	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestTLS: the certificates of server and client are checked by both.
func TestTLS(t *testing.T) {
	files := redistest.NewCertificates(t)
	_, addr := redistest.StartTLS(t, files)
	open := func(pairs ...string) error {
		query := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			query.Set(pairs[i], pairs[i+1])
		}
		for {
			_, err := tryOpen(Options{URL: "rediss://" + addr + "/0?" + query.Encode()})
			if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
				return err // else the machine was too busy
			}
		}
	}
	if err := open("ca", files.CA, "cert", files.ClientCert, "key", files.ClientKey); err != nil {
		t.Errorf("with all that it needs: %v", err)
	}
	if err := open("ca", files.CA, "cert", files.ClientCert, "key", files.ClientKey, "server_name", "server"); err != nil {
		t.Errorf("with another name of the server: %v", err)
	}
	for want, pairs := range map[string][]string{
		"authority": {"cert", files.ClientCert, "key", files.ClientKey},
		"":          {"ca", files.CA}, // Redis may just hang up
		"blah":      {"ca", files.CA, "cert", files.ClientCert, "key", files.ClientKey, "server_name", "blah"},
	} {
		if err := open(pairs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %v: %v, want %s", pairs, err, want)
		}
	}
}

// TestCertificatesAreReplaced: each new connection uses the files as they are then; while they are invalid, as they were before.
func TestCertificatesAreReplaced(t *testing.T) {
	files, others := redistest.NewCertificates(t), redistest.NewCertificates(t)
	server, addr := redistest.StartTLS(t, files)
	query := url.Values{"ca": {files.CA}, "cert": {files.ClientCert}, "key": {files.ClientKey}}
	s := openAt(t, "rediss://"+addr+"/0?"+query.Encode(), patient)
	client, ctx := server.Client(t), context.Background()
	replace := func(file, by string) {
		text, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	reconnect := func(what string) {
		if err := client.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		if a := do(s, put("x")); a.Err != nil {
			t.Errorf("%s: %v", what, a.Err)
		}
	}
	replace(files.CA, files.ClientKey)
	reconnect("no certificate in the file")
	replace(files.CA, others.CA)
	replace(files.ClientCert, others.ClientCert)
	replace(files.ClientKey, others.ClientKey)
	if err := client.Do(ctx, "config", "set", "tls-ca-cert-file", others.CA, "tls-cert-file", others.ServerCert, "tls-key-file", others.ServerKey).Err(); err != nil {
		t.Fatal(err)
	}
	reconnect("other certificates")
}

// newLock is a lock for a user with the documented permissions.
func newLock(t *testing.T) *redistest.Lock {
	rules := []string{"~redstalk:*", "resetchannels", "-@all"}
	for _, name := range strings.Fields(documented) {
		rules = append(rules, "+"+name)
	}
	return &redistest.Lock{
		Certificates: redistest.NewCertificates(t), User: "app", Password: "sesame", Rules: rules,
		SentinelRules: []string{"resetchannels", "&+switch-master", "&+replica-reconf-done", "-@all", "+sentinel", "+subscribe"},
	}
}

// wantLocked checks that access needs everything that the URL has.
func wantLocked(t *testing.T, whole string) {
	t.Helper()
	at, err := url.Parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	without := func(keys ...string) string {
		query := at.Query()
		for _, key := range keys {
			query.Del(key)
		}
		less := *at
		less.RawQuery = query.Encode()
		return less.String()
	}
	for what, shut := range map[string]string{
		"no authority":   without("ca"),
		"no certificate": without("cert", "key"),
		"wrong password": strings.Replace(whole, ":sesame@", ":simsim@", 1),
		"wrong user":     strings.Replace(whole, "app:", "ape:", 1),
		"wrong server":   whole + "&server_name=blah",
		"no TLS":         "redis" + strings.TrimPrefix(without("ca", "cert", "key"), "rediss"),
	} {
		if shut == whole {
			t.Fatalf("%s is the same as all", what)
		}
		_, err := tryOpen(Options{URL: shut, Timeout: hasty})
		if err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("with %s: %v", what, err)
		}
		t.Logf("with %s: %v", what, err)
	}
}

// worksIn checks that jobs can be put and taken in every partition.
func worksIn(t *testing.T, s *Store) {
	t.Helper()
	of := len(s.parts)
	for p := range of {
		name := tubeIn(p, of)
		put, took := do(s, putIn(name, 1)), do(s, takeFrom(1, false, name))
		gone := do(s, move(tube.Delete, 1, took.ID))
		if put.Err != nil || took.Err != nil || took.ID != put.ID || gone.Err != nil || gone.NotFound {
			t.Errorf("in partition %d: %+v, %+v, %+v", p, put, took, gone)
		}
	}
}

// TestTLSBySentinels: sentinels, primary and replicas speak only TLS, to clients with a
// certificate, and know a user with the permissions in docs/redis.md. Everything works, also
// after a replica has taken over.
func TestTLSBySentinels(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	redis := redistest.StartLockedSentinels(t, newLock(t), 1)
	url := redis.URL() + "&sentinel_auth=same"
	s := openAt(t, url, patient)
	worksIn(t, s)
	wantLocked(t, url)
	redis.Servers[0].Kill()
	redis.AwaitPrimary(t, redis.Servers[0])
	worksIn(t, s)
}

// TestTLSOnCluster: the same with the nodes of a cluster.
func TestTLSOnCluster(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	redis := redistest.StartLockedCluster(t, newLock(t), 3, 1)
	s := openAt(t, redis.URL(), patient)
	worksIn(t, s)
	wantLocked(t, redis.URL())
	redis.Primaries[1].Kill()
	redis.AwaitTakeover(t, "redstalk:{1}:", redis.Primaries[1])
	worksIn(t, s)
}
