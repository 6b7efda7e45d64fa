package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// awaitEnd waits until the server closes the connection.
func (c *client) awaitEnd() {
	c.h.Helper()
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		c.h.Fatal("the connection is not closed")
	}
}

// fromPage returns what a browser sends for a page that has chosen method, path and body.
func fromPage(method, path, body string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:11300\r\nContent-Type: text/plain\r\nOrigin: http://evil.example\r\n\r\n" + body
}

// TestRequestOfHTTP: nothing that a web page makes a browser send is carried out. Commands before it
// are answered.
func TestRequestOfHTTP(t *testing.T) {
	t.Parallel()
	const commands = "put 0 0 60 4\r\nevil\r\ndelete 1\r\nuse evil\r\nput 0 0 60 4\r\nevil\r\n"
	requests := map[string]string{
		"POST":         fromPage("POST", "/", commands),
		"PUT":          fromPage("PUT", "/", commands),
		"GET":          fromPage("GET", "/a?b", commands),
		"long":         fromPage("POST", "/"+strings.Repeat("x", 300), commands),
		"very long":    fromPage("POST", "/"+strings.Repeat("x", 100_000), commands),
		"use":          fromPage("use", "/x", commands),
		"find":         fromPage("find", "/x", commands),
		"delete-key":   fromPage("delete-key", "/x", commands),
		"quit":         fromPage("quit", "/x", commands),
		"reserve":      fromPage("reserve", "/x", commands),
		"delete-batch": fromPage("delete-batch", "/"+strings.Repeat("x", 20_000), commands),
		"host":         strings.Replace(fromPage("find", "/x", commands), "Host: ", "Host: "+strings.Repeat("x", 253), 1),
	}
	withLimits(t, Config{}, func(h *harness, log *logBuffer) {
		other := h.connect()
		other.put(60, "kept")
		for name, request := range requests {
			for _, cut := range []int{len(request), 10, len(request) - len(commands)} {
				page := h.connect()
				page.send("list-tube-used")
				page.want("USING default")
				go func() {
					page.conn.Write([]byte(request[:cut]))
					page.conn.Write([]byte(request[cut:]))
				}()
				page.awaitEnd()
				close(page.lines)
				for line := range page.lines { // replies to lines before the one that shows that it is HTTP
					if line != "BAD_FORMAT" && line != "NOT_FOUND" {
						t.Errorf("%s is answered %q", name, line)
					}
				}
			}
		}
		if jobs, tubes := other.stat("stats", "total-jobs"), other.stat("stats", "current-tubes"); jobs != "1" || tubes != "1" {
			t.Errorf("there were %s jobs and are %s tubes", jobs, tubes)
		}
		if log.count("HTTP is spoken") != 1 {
			t.Errorf("%d lines in the log", log.count("HTTP is spoken"))
		}
	})
}

// TestRequestBehindCommands: an HTTP request ends its burst, also behind a reserve that waits.
func TestRequestBehindCommands(t *testing.T) {
	t.Parallel()
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		c.sendRaw("put 0 0 60 1\r\na\r\n" + fromPage("POST", "/", "put 0 0 60 1\r\nb\r\n"))
		c.want("INSERTED 1")
		c.awaitEnd()
		other.send("reserve")
		other.want("RESERVED 1 1", "a")
		waiting := h.connect()
		waiting.sendRaw("reserve\r\n" + fromPage("POST", "/", "put 0 0 60 1\r\nb\r\n"))
		synctest.Wait()
		other.put(60, "c")
		waiting.want("RESERVED 2 1", "c")
		waiting.awaitEnd()
		if total := other.stat("stats", "total-jobs"); total != "2" {
			t.Errorf("there were %s jobs", total)
		}
	})
}

// TestRequestUnauthenticated: the same holds with users.
func TestRequestUnauthenticated(t *testing.T) {
	t.Parallel()
	withUsers(t, "", func(g *accessHarness) {
		c := g.as("")
		c.sendRaw(fromPage("POST", "/", "auth "+rootUser+" "+userSecret+"\r\nput 0 0 60 1\r\nb\r\n"))
		c.awaitEnd()
		if total := g.root.stat("stats", "total-jobs"); total != "0" {
			t.Errorf("there were %s jobs", total)
		}
	})
}
