package main

import (
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/tools/conformance/busy"
)

const (
	mostGrowth     = 48 << 10 // KiB of memory, in all of TestHostile
	mostGoroutines = 24       // of a server without connections
)

// TestHostile attacks one server with everything that clients can do by mistake or
// from malice, while a good client is served. At the end no memory, goroutines or descriptors are left.
func TestHostile(t *testing.T) {
	p, addr := serve(t, "-p0", "--write-timeout", busy.Times(400*time.Millisecond).String())
	good := dial(t, addr)
	good.alive()
	before := p.usage(t)
	for _, attack := range []struct {
		name string
		run  func(t *testing.T, p *process, addr string, good *client)
	}{
		{"noise", attackNoise},
		{"slow", attackSlowly},
		{"huge put", attackWithHugePut},
		{"unread replies", attackUnread},
		{"urgent data", attackUrgent},
		{"half closed", attackHalfClosed},
	} {
		t.Run(attack.name, func(t *testing.T) {
			attack.run(t, p, addr, good)
			good.alive()
			p.awaitFiles(t, before.files+4)
			if now := p.usage(t); now.rss > before.rss+mostGrowth {
				t.Errorf("memory has grown from %d to %d KiB", before.rss, now.rss)
			}
		})
	}
	good.conn.Close()
	p.awaitFiles(t, before.files+4)
	t.Logf("before %+v, after %+v", before, p.usage(t))
	p.signal(t, syscall.SIGQUIT) // the runtime reports all goroutines
	p.code(t)
	if n := strings.Count(p.stderr.String(), "\ngoroutine "); n == 0 || n > mostGoroutines {
		t.Errorf("%d goroutines are left, want at most %d", n, mostGoroutines)
	}
}

func attackNoise(t *testing.T, p *process, addr string, good *client) {
	const connections, atATime = 10_000, 100
	var wg sync.WaitGroup
	for worker := range uint64(atATime) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(worker, 1))
			for range connections / atATime {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				noise := make([]byte, random.IntN(1000))
				for i := range noise {
					noise[i] = byte(random.Uint32())
				}
				conn.Write(noise)
				conn.(*net.TCPConn).SetLinger(0) // no port is left in TIME_WAIT
				conn.Close()
			}
		})
	}
	wg.Wait()
}

// attackSlowly sends lines and bodies byte by byte and never ends them.
func attackSlowly(t *testing.T, p *process, addr string, good *client) {
	var slow []*client
	for range 50 {
		slow = append(slow, dial(t, addr))
	}
	body := "put 0 0 60 60000\r\n" + strings.Repeat("x", 40)
	line := strings.Repeat("use a", 20)
	for i := range 50 {
		for k, c := range slow {
			if text := []string{body, line}[k%2]; i < len(text) {
				c.send(text[i : i+1])
			}
		}
		good.alive()
	}
	for _, c := range slow {
		c.conn.Close()
	}
}

func attackWithHugePut(t *testing.T, p *process, addr string, good *client) {
	for _, size := range []string{"4294967295", "4294967296"} {
		c := dial(t, addr)
		c.send("put 0 0 60 " + size + "\r\n")
		c.sendAside(strings.Repeat("x", 1<<20))
		good.alive()
		c.conn.Close()
	}
}

// attackUnread sends very many commands before it reads replies. They wait in the
// sockets, and all are answered.
func attackUnread(t *testing.T, p *process, addr string, good *client) {
	const n, mostUnread = 100_000, 16 << 10 // KiB
	before := p.usage(t)
	c := dial(t, addr)
	sent := make(chan struct{})
	go func() {
		c.sendAside(strings.Repeat("stats-tube default\r\n", n))
		close(sent)
	}()
	for range 500 {
		good.alive()
	}
	if now := p.usage(t); now.rss > before.rss+mostUnread {
		t.Errorf("memory has grown from %d to %d KiB", before.rss, now.rss)
	}
	c.conn.SetDeadline(time.Now().Add(patience))
	for i := range n {
		if reply, err := c.conn.Receive(); err != nil || reply.Word != protoclient.OK {
			t.Fatalf("reply %d: %v, %v", i, reply, err)
		}
	}
	<-sent
	c.ask("list-tube-used\r\n", "USING default") // and nothing more
	c.conn.Close()
}

// attackUrgent puts bytes of urgent data, which are not part of the stream,
// between the bytes of commands.
func attackUrgent(t *testing.T, p *process, addr string, good *client) {
	c := dial(t, addr)
	raw := must(c.conn.Conn.(*net.TCPConn).SyscallConn())(t)
	for range 200 {
		c.send("list-tube")
		var err error
		raw.Control(func(fd uintptr) { err = syscall.Sendto(int(fd), []byte("!"), syscall.MSG_OOB, nil) })
		if err != nil {
			t.Fatal(err)
		}
		c.ask("-used\r\n", "USING default")
	}
	c.conn.Close()
}

// attackHalfClosed requests much, closes its sending side, and reads nothing.
func attackHalfClosed(t *testing.T, p *process, addr string, good *client) {
	good.ask("put 0 0 600 1\r\nx\r\n", "INSERTED 1")
	for range 10 {
		c := dial(t, addr)
		c.conn.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		go func() {
			c.sendAside("reserve-with-timeout 0\r\n" + strings.Repeat("stats\r\n", 20_000))
			c.conn.Conn.(*net.TCPConn).CloseWrite()
		}()
	}
	good.ask("watch nothing\r\nignore nothing\r\n", "WATCHING 2", "WATCHING 1")
	good.awaitFigure("stats", "current-connections", "1") // all have been closed
	good.ask("delete 1\r\n", "DELETED")                   // was given back
}

// TestHostileBodies: memory is used for sent bytes of bodies, not for announced
// ones, and is freed when clients disconnect in the middle.
func TestHostileBodies(t *testing.T) {
	atLength(t)
	const clients, sent = 64, 512 << 10
	p, addr := serve(t, "-p0", "-z", "1073741824")
	good := dial(t, addr)
	good.alive()
	before := p.usage(t)
	var all []*client
	for range clients {
		c := dial(t, addr)
		c.send("put 0 0 60 1073741824\r\nabc")
		all = append(all, c)
	}
	good.alive()
	if now := p.usage(t); now.rss > before.rss+clients*128 { // KiB
		t.Errorf("memory has grown from %d to %d KiB before anything was sent", before.rss, now.rss)
	}
	for _, c := range all {
		c.send(strings.Repeat("x", sent))
	}
	for range 100 {
		good.alive()
	}
	if now := p.usage(t); now.rss > before.rss+4*clients*sent>>10 {
		t.Errorf("memory has grown from %d to %d KiB for %d KiB", before.rss, now.rss, clients*sent>>10)
	}
	for _, c := range all {
		c.conn.Close()
	}
	p.awaitFiles(t, before.files+4)
	good.ask("put 0 0 60 3\r\nabc\r\nreserve\r\ndelete 1\r\n", "INSERTED 1", "RESERVED 1 3", "abc", "DELETED")
}

// TestFlood makes more connections than the process has descriptors.
func TestFlood(t *testing.T) {
	for flag, message := range map[string]string{
		"--max-connections=0":    "cannot accept connections",
		"--max-connections=auto": "too many connections",
	} {
		t.Run(flag, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", `ulimit -n 64; exec "$0" "$@"`, binary, "-Vp0", flag, "--store", "memory:")
			p := start(t, cmd)
			addr := p.serving(t)
			good := dial(t, addr)
			good.alive()
			before := p.usage(t)
			var flood []net.Conn
			for range 150 {
				flood = append(flood, dial(t, addr).conn)
			}
			p.stderr.await(t, message)
			begun := p.usage(t)
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				good.alive()
				<-time.After(20 * time.Millisecond) // to see what the server does meanwhile
			}
			if cpu := p.usage(t).cpu - begun.cpu; cpu > 300*time.Millisecond {
				t.Errorf("%v of the processor in a second of doing next to nothing", cpu)
			}
			for _, conn := range flood {
				conn.Close()
			}
			p.awaitFiles(t, before.files)
			dial(t, addr).ask("put 0 0 9 1\r\na\r\n", "INSERTED 1")
			if n := strings.Count(p.stderr.String(), message); n != 1 {
				t.Errorf("%d lines about the flood", n)
			}
		})
	}
}

// TestIdleConnectionIsClosed tests the flag; package server tests the rest.
func TestIdleConnectionIsClosed(t *testing.T) {
	_, addr := serve(t, "-p0", "--idle-timeout", "200ms")
	waiter, idle := dial(t, addr), dial(t, addr)
	waiter.send("reserve\r\n")
	if rest, err := io.ReadAll(idle.conn); len(rest) != 0 || err != nil {
		t.Errorf("%q, %v instead of the end", rest, err)
	}
	dial(t, addr).ask("put 0 0 9 1\r\na\r\n", "INSERTED 1")
	waiter.ask("", "RESERVED 1 1", "a")
}
