package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
)

// shortTimeout is the --store-timeout of the instance in TestFaultProxy that soon
// answers with an error, on an idle machine.
const shortTimeout = time.Second

// redisFailure is a way in which Redis fails calls of the script.
type redisFailure struct {
	name     string
	brief    bool           // make test plays it
	says     string         // what it answers; if that is empty, the fate is what happens
	fate     redistest.Fate // of calls, or of their answers
	upstream bool           // the fate is for answers
	reply    string         // to a put; INTERNAL_ERROR if empty
	atOnce   bool           // the reply is immediate, as waiting does not help
}

var troubles = []redisFailure{
	{name: "LOADING", brief: true, says: "LOADING Redis is loading the dataset in memory"},
	{name: "BUSY", says: "BUSY Redis is busy running a script."},
	{name: "READONLY", says: "READONLY You can't write against a read only replica."},
	{name: "MASTERDOWN", says: "MASTERDOWN Link with MASTER is down."},
	{name: "NOREPLICAS", says: "NOREPLICAS Not enough good replicas to write."},
	{name: "NOSCRIPT", brief: true, says: "NOSCRIPT No matching script. Please use EVAL."},
	{name: "CLUSTERDOWN", says: "CLUSTERDOWN The cluster is down"},
	{name: "TRYAGAIN", says: "TRYAGAIN Multiple keys request during rehashing of slot"},
	{name: "MISCONF", says: "MISCONF Redis is configured to save RDB snapshots, but is currently unable to persist to disk."},
	{name: "MOVED", brief: true, says: "MOVED 3999 127.0.0.1:1"},
	{name: "ASK", says: "ASK 3999 127.0.0.1:1"},
	{name: "UNBLOCKED", says: "UNBLOCKED force unblock from blocking operation"},
	{name: "cut-before", fate: redistest.Cut},
	{name: "cut-behind", brief: true, fate: redistest.Cut, upstream: true},
	{name: "black-hole", brief: true, fate: redistest.Drop},
	{name: "black-hole-behind", fate: redistest.Drop, upstream: true},
	{name: "OOM", brief: true, says: "OOM command not allowed when used memory > 'maxmemory'.", reply: "OUT_OF_MEMORY", atOnce: true},
	{name: "NOPERM", says: "NOPERM this user has no permissions to run the 'evalsha' command", atOnce: true},
	{name: "NOAUTH", brief: true, says: "NOAUTH Authentication required."},
	{name: "WRONGPASS", says: "WRONGPASS invalid username-password pair or user is disabled."},
}

// begin makes calls fail, and returns a counter of these.
func (tr *redisFailure) begin(proxy *redistest.Proxy) *atomic.Int64 {
	failed := new(atomic.Int64)
	fails := func(piece []byte) bool {
		ok := bytes.Contains(piece, []byte("\r\nevalsha\r\n")) || bytes.Contains(piece, []byte("\r\neval\r\n"))
		if tr.upstream {
			ok = piece[0] == '*' && !bytes.HasPrefix(piece, []byte("*-1")) // not that there is no notification
		}
		if ok && strings.HasPrefix(tr.says, "OOM") {
			ok = !bytes.Contains(piece, []byte("full=1")) // such a call can do without memory
		}
		if ok {
			failed.Add(1)
		}
		return ok
	}
	judge := func(piece []byte) redistest.Fate {
		if fails(piece) {
			return tr.fate
		}
		return redistest.Pass
	}
	switch {
	case tr.upstream:
		proxy.Intercept(nil, judge)
	case tr.says == "":
		proxy.Intercept(judge, nil)
	default:
		proxy.Answer(func(piece []byte) string {
			if fails(piece) {
				return "-" + tr.says + "\r\n"
			}
			return ""
		})
	}
	return failed
}

func (tr *redisFailure) end(proxy *redistest.Proxy) {
	proxy.Intercept(nil, nil)
	proxy.Answer(nil)
}

// TestFaultProxy makes Redis fail in every way, for a long time and for a moment, under the
// whole program. A client that waits for a job continues to wait, other commands are
// delayed, and connections are kept. A job exists once, or not at all if its put
// was not acknowledged. One instance has a short timeout, the other one a long
// one.
func TestFaultProxy(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for i, tr := range troubles {
		t.Run(tr.name, func(t *testing.T) {
			if !tr.brief {
				atLength(t)
			}
			t.Parallel()
			tr.play(t, redis, fmt.Sprint("trouble", i))
		})
	}
}

// play makes Redis fail in this way for two instances of a namespace.
func (tr *redisFailure) play(t *testing.T, redis *redistest.Server, namespace string) {
	proxy := redistest.NewProxy(t, redis)
	limit := busy.Times(shortTimeout)
	instance := func(timeout time.Duration) (addr string) {
		_, addr = serve(t, "-p0", "--store", proxy.URL(), "--namespace", namespace, "--store-timeout", timeout.String())
		return addr
	}
	hasty, patient := instance(limit), instance(patience)
	refused, heldUp, worker := dial(t, hasty), dial(t, patient), dial(t, hasty)
	worker.send("reserve\r\n")
	worker.conn.SetDeadline(time.Now().Add(2*patience + 10*limit)) // it waits while the others are tried
	refused.awaitFigure("stats", "current-waiting", "1")
	tr.long(proxy, refused, limit)
	tr.short(proxy, heldUp)
	seen := worker.drain()
	if seen["short-"+tr.name] != 1 || seen["long-"+tr.name] > 1 || len(seen) > 2 {
		t.Errorf("these jobs were there: %v", seen)
	}
}

// long makes the failure last longer than the timeout of the instance.
func (tr *redisFailure) long(proxy *redistest.Proxy, c *client, limit time.Duration) {
	c.t.Helper()
	tr.begin(proxy)
	defer tr.end(proxy)
	begun, want := time.Now(), tr.reply
	if want == "" {
		want = "INTERNAL_ERROR"
	}
	c.ask(putLine("long-"+tr.name), want)
	if took := time.Since(begun); (took < limit) != tr.atOnce {
		c.t.Errorf("%s came after %v", want, took)
	}
	if tr.atOnce { // and the waiter is served once a second, without success
		time.Sleep(time.Until(begun.Add(1500 * time.Millisecond)))
	}
}

// short ends the failure within the timeout, or before the put if it does not
// delay commands.
func (tr *redisFailure) short(proxy *redistest.Proxy, c *client) {
	c.t.Helper()
	if !tr.atOnce {
		failed := tr.begin(proxy)
		c.send(putLine("short-" + tr.name))
		for failed.Load() < 2 && tr.fate != redistest.Drop || failed.Load() < 1 {
			time.Sleep(time.Millisecond)
		}
		tr.end(proxy)
	} else {
		c.send(putLine("short-" + tr.name))
	}
	if line := c.line(); !strings.HasPrefix(line, "INSERTED ") {
		c.t.Errorf("when it was over: %q", line)
	}
}

func putLine(body string) string { return fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", len(body), body) }

// drain reads the reserved job and all others, deletes them,
// and returns their bodies.
func (c *client) drain() map[string]int {
	c.t.Helper()
	seen := make(map[string]int)
	for line := c.line(); line != "TIMED_OUT"; line = c.line() {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "RESERVED" {
			c.t.Fatal(line)
		}
		seen[c.line()]++
		c.ask("delete "+words[1]+"\r\n", "DELETED")
		c.send("reserve-with-timeout 0\r\n")
	}
	return seen
}
