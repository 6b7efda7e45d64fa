package redistest

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// TestPart: what happens to the connections of some processes does not happen to others.
func TestPart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says whose a connection is")
	}
	server := StartWithProxy(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Front.Addr, MaxRetries: -1, ReadTimeout: 200 * time.Millisecond})
	defer client.Close()
	works := func() bool { return client.Ping(context.Background()).Err() == nil }
	if !works() {
		t.Fatal("it does not work through the proxy")
	}
	others := server.Front.Of(server.Pid(), os.Getppid())
	others.Swallow(true)
	if !works() {
		t.Error("what is done to others concerns this process")
	}
	mine := server.Front.Of(server.Pid(), os.Getpid())
	mine.Swallow(true)
	if works() {
		t.Error("nothing is swallowed")
	}
	mine.Swallow(false)
	if !works() {
		t.Error("it does not work again")
	}
	mine.Intercept(nil, func([]byte) Fate { return Cut })
	if works() {
		t.Error("nothing is cut")
	}
	mine.End()
	if !works() {
		t.Error("it does not work after the end")
	}
	server.Kill()
	if c, err := net.Dial("tcp", server.Front.Addr); err == nil {
		c.Close()
		t.Error("somebody listens though the server is dead")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if !works() {
		t.Error("it does not work after a restart")
	}
}
