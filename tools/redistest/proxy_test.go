package redistest

import (
	"context"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// TestAnswer: no part of a request that the proxy answers reaches the server, however many
// reads it takes.
func TestAnswer(t *testing.T) {
	proxy := NewProxy(t, Start(t))
	client := goredis.NewClient(&goredis.Options{Addr: proxy.Addr, MaxRetries: -1, PoolSize: 1})
	defer client.Close()
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.Answer(func(piece []byte) string {
		if strings.HasPrefix(string(piece), "*3\r\n$3\r\nset\r\n") {
			return "-NOSCRIPT of the proxy\r\n"
		}
		return ""
	})
	for range 20 {
		err := client.Set(context.Background(), "k", strings.Repeat("*x\r\n", 100_000), 0).Err()
		if err == nil || err.Error() != "NOSCRIPT of the proxy" {
			t.Fatalf("the answer was %v", err)
		}
		if err := client.Ping(context.Background()).Err(); err != nil {
			t.Fatalf("after it, the server was asked something else: %v", err)
		}
	}
}

func TestEndsWithRequest(t *testing.T) {
	for text, want := range map[string]bool{
		"*1\r\n$4\r\nping\r\n":                     true,
		"*1\r\n$4\r\nping\r\n*1\r\n$4\r\nping\r\n": true,
		"*2\r\n$4\r\necho\r\n$2\r\n\r\n\r\n":       true,
		"*2\r\n$4\r\necho\r\n$2\r\n\r\n":           false,
		"*2\r\n$4\r\necho\r\n":                     false,
		"*2\r\n$4\r\necho\r\n$":                    false,
		"*1\r\n$4\r\nping\r\n*":                    false,
		"*1\r\n$4\r\nping":                         false,
		"":                                         true,
		"PING\r\n":                                 true,
		"*x\r\n":                                   true,
		"*1\r\n\r\n":                               true,
	} {
		if got := endsWithRequest([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
