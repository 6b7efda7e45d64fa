package redis

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"redstalk/storage/redact"
	"redstalk/storage/redis/fsck"
	"redstalk/tools/redistest"
)

// leaks returns whether a text contains a part of a secret, of four characters or more.
func leaks(text, secret string) bool {
	for at := range len(secret) - 3 {
		if strings.Contains(text, secret[at:at+4]) {
			return true
		}
	}
	return false
}

// encoded is a user or password as it must be written in a URL.
func encoded(secret string) string {
	var b strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// TestEncodedSecretsOpen: with requirepass and with a user of ACL.
func TestEncodedSecretsOpen(t *testing.T) {
	redis := redistest.Start(t)
	var all strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		all.WriteByte(c)
	}
	secret, user := all.String(), "a/b#c?d@e:f%g"
	ctx, client := context.Background(), redis.Client(t)
	for _, args := range [][]any{
		{"acl", "setuser", user, "on", ">" + secret, "~*", "+@all"}, {"config", "set", "requirepass", secret},
	} {
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", encoded(user)} {
		s := openWith(t, Options{URL: "redis://" + name + ":" + encoded(secret) + "@" + redis.Addr, Timeout: patient})
		do(s, put("x"))
	}
	var log bytes.Buffer
	for _, who := range []string{":", encoded(user) + ":"} {
		_, err := Open(ctx, Options{URL: "redis://" + who + encoded("wrong"+secret) + "@" + redis.Addr, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err == nil || leaks(err.Error()+log.String(), secret) {
			t.Errorf("%v", err)
		}
	}
}

// TestServersThatQuoteSecrets: a server that does not know AUTH quotes what it was sent.
func TestServersThatQuoteSecrets(t *testing.T) {
	redis, secret := redistest.Start(t, "--rename-command", "AUTH", "LOGIN"), "Zq7xWv9k8Jy4"
	var log bytes.Buffer
	o := Options{URL: "redis://u:" + secret + "@" + redis.Addr, Log: slog.New(slog.NewTextHandler(&log, nil))}
	_, err := Open(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), redact.Hidden) || leaks(err.Error()+log.String(), secret) {
		t.Errorf("%v\n%s", err, log.String())
	}
	if _, err = fsck.Check(context.Background(), fsckOptions(o), false, fsck.Report{}); err == nil || leaks(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}
