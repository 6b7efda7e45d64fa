package httpserve_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/limits"
)

// TestBodiesAreBounded: clients that stop in the middle of large bodies give way when others
// need the memory, but only as many as necessary. The others wait for that, and lose
// nothing.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for header, whole := range map[string]string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n", size):                strings.Repeat("x", size),
		"Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x", size): "\r\n" + strings.Repeat("x", size) + "\r\n0\r\n\r\n",
	} {
		config := httpserve.Config{Limits: limits.New(0, 0, 4*size)}
		serveVirtualWith(t, http.HandlerFunc(readAll), config, func(t *testing.T, p *pipes) {
			const post = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
			stalled, outcomes := 0, make(chan string, 8)
			for range 8 {
				c := p.dial()
				go io.WriteString(c, post+header+whole[:size-100])
				go func() {
					text, _ := io.ReadAll(c)
					outcomes <- string(text)
				}()
			}
			time.Sleep(time.Millisecond)
			c := p.dial()
			go io.WriteString(c, post+header+whole)
			if text, after := answered(t, c); !strings.Contains(text, fmt.Sprint(size, " <nil>")) || after > 10*limits.Check {
				t.Errorf("%s after %v", text, after)
			}
			for ; len(outcomes) > 0; stalled++ {
				if text := <-outcomes; !strings.Contains(text, "i/o timeout") {
					t.Error(text)
				}
			}
			if stalled < 1 || stalled > 7 {
				t.Errorf("%d of 8 had to give way", stalled)
			}
		})
	}
}

// TestSmallBodiesNeverWait: bodies of which little has arrived are not limited.
func TestSmallBodiesNeverWait(t *testing.T) {
	t.Parallel()
	serveVirtualWith(t, http.HandlerFunc(readAll), httpserve.Config{Limits: limits.New(0, 0, 1)}, func(t *testing.T, p *pipes) {
		for range 2 { // the first one exceeds the limit, the second one waits
			c := p.dial()
			defer c.Close()
			go io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 50000))
		}
		c := p.dial()
		go io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10000\r\n\r\n"+strings.Repeat("x", 10000))
		if text, after := answered(t, c); !strings.Contains(text, "10000 <nil>") || after > time.Millisecond {
			t.Errorf("%s after %v", text, after)
		}
	})
}
