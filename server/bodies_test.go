package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

const mib = 1 << 20

// taggedBody returns a body of its length and a repeated tag, so that a mixture of two bodies is
// detected.
func taggedBody(tag uint64, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(size))
	for b = binary.LittleEndian.AppendUint64(b, tag); len(b) < size; {
		b = append(b, b[8:]...)
	}
	return b[:size]
}

// isTagged reports whether b is a body made by taggedBody, with any tag.
func isTagged(b []byte) bool {
	return len(b) >= 16 && bytes.Equal(b, taggedBody(binary.LittleEndian.Uint64(b[8:]), int(binary.LittleEndian.Uint64(b))))
}

// wantRelease waits until no body is in use.
func wantRelease(t *testing.T, s *Server) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); s.queue.Bodies().InUse() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d bodies are still in use", s.queue.Bodies().InUse())
		}
	}
}

// ask sends commands, and checks how the first reply begins. It returns the body of that reply.
func ask(t *testing.T, c *protoclient.Conn, commands string, want string) (body []byte) {
	t.Helper()
	io.WriteString(c, commands)
	r, err := c.Receive()
	if err != nil {
		t.Fatalf("%.40q: %v, want %q", commands, err, want)
	}
	if !strings.HasPrefix(string(r.Line), want) {
		t.Fatalf("%.40q: %.40q, want %q", commands, r.Line, want)
	}
	return r.Body
}

func putCommand(body []byte) string {
	return fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", len(body), body)
}

// TestKeptReplyOutlivesItsJob: a reply that is buffered for a slow reader does not change when its job is
// deleted and others are put meanwhile.
func TestKeptReplyOutlivesItsJob(t *testing.T) {
	atLength(t)
	s, dial := onTCPWith(t, Config{WriteTimeout: -1}, embedded.NewMemory(), 16*mib)
	producer, replies := dial()
	slow, read := dial()
	first := taggedBody(1, 16*mib)
	ask(t, replies, putCommand(first), "INSERTED 1")
	io.WriteString(slow, "peek 1\r\npeek-ready\r\n")
	awaitBuffered(t, s)
	ask(t, replies, "delete 1\r\n", "DELETED")
	ask(t, replies, putCommand(taggedBody(2, 16*mib)), "INSERTED 2")
	ask(t, replies, "delete 2\r\n", "DELETED")
	for range 2 { // the second peek, too, was carried out before the delete
		if got := ask(t, read, "", "FOUND 1 "); !bytes.Equal(got, first) {
			t.Fatal("the body has changed while it was buffered")
		}
	}
	wantRelease(t, s)
	producer.Close()
}

// TestStalledClientReleasesBodies: bodies that are buffered for a connection are released when the
// connection is closed because its client reads nothing.
func TestStalledClientReleasesBodies(t *testing.T) {
	s, dial := onTCPWith(t, Config{WriteTimeout: 100 * time.Millisecond}, embedded.NewMemory(), 16*mib)
	_, replies := dial()
	slow, _ := dial()
	ask(t, replies, putCommand(taggedBody(1, 16*mib)), "INSERTED 1")
	io.WriteString(slow, strings.Repeat("peek 1\r\n", 10))
	awaitBuffered(t, s)
	ask(t, replies, "delete 1\r\n", "DELETED")
	wantRelease(t, s)
}

// TestBadBodies: after any error in a body its memory is released, and the next command is read.
func TestBadBodies(t *testing.T) {
	const limit = 100_000
	s, dial := onTCPWith(t, Config{}, embedded.NewMemory(), limit)
	body := taggedBody(7, limit)
	conn, c := dial()
	ask(t, c, fmt.Sprintf("put 0 0 60 %d\r\n%sxy", limit, body), "EXPECTED_CRLF")
	ask(t, c, fmt.Sprintf("put 0 0 60 %d\r\n%s\rx", limit, body), "EXPECTED_CRLF")
	ask(t, c, fmt.Sprintf("put 0 0 60 %d\r\n%s!\r\n", limit+1, body), "JOB_TOO_BIG")
	wantRelease(t, s)
	for i := range 3 { // the end of a body, and the commands after it, byte by byte
		text := fmt.Sprintf("put 0 0 60 %d\r\n%s\r\nreserve\r\ndelete %d\r\n", limit, body, i+1)
		cut := len(text) - 40 - i
		io.WriteString(conn, text[:cut])
		for _, b := range []byte(text[cut:]) {
			conn.Write([]byte{b})
		}
		ask(t, c, "", fmt.Sprint("INSERTED ", i+1))
		if got := ask(t, c, "", fmt.Sprintf("RESERVED %d %d", i+1, limit)); !bytes.Equal(got, body) {
			t.Error("the body is not what was put")
		}
		ask(t, c, "", "DELETED")
	}
	for _, sent := range []int{0, 1, 5000, limit - 1, limit, limit + 1} { // the client disconnects
		gone, _ := dial()
		fmt.Fprintf(gone, "put 0 0 60 %d\r\n%s", limit, append(body[:limit:limit], '\r')[:sent])
		gone.Close()
	}
	ask(t, c, "put 0 0 60 3\r\nabc\r\n", "INSERTED 4")
	ask(t, c, "delete 4\r\n", "DELETED")
	wantRelease(t, s)
}

// TestBodiesByteByByte: a body of some KiB can come in any pieces.
func TestBodiesByteByByte(t *testing.T) {
	s, dial := onTCPWith(t, Config{}, embedded.NewMemory(), mib)
	conn, c := dial()
	body := taggedBody(3, 6000)
	for _, b := range []byte(putCommand(body)) {
		conn.Write([]byte{b})
	}
	ask(t, c, "", "INSERTED 1")
	if got := ask(t, c, "reserve\r\n", "RESERVED 1"); !bytes.Equal(got, body) {
		t.Error("the body is not what was put")
	}
	ask(t, c, "delete 1\r\n", "DELETED")
	wantRelease(t, s)
}

// TestRefusedBodies: the body of a put that is refused is released.
func TestRefusedBodies(t *testing.T) {
	s, dial := onTCPWith(t, Config{}, embedded.NewMemory(), mib)
	_, c := dial()
	body := taggedBody(1, mib)
	ask(t, c, putCommand(body), "INSERTED 1")
	ask(t, c, "delete 1\r\n", "DELETED")
	s.queue.Drain()
	ask(t, c, putCommand(body), "DRAINING")
	wantRelease(t, s)
}

// bodyClient puts jobs into a tube that all clients share, and sends random commands about the jobs
// there, which others change at the same time.
type bodyClient struct {
	t      *testing.T
	c      *protoclient.Conn
	random *rand.Rand
	last   uint64 // the largest id seen
	jobs   int    // how many were put
}

// sendSome sends some commands at once, and checks every body that comes.
func (b *bodyClient) sendSome() {
	var text strings.Builder
	n := 1 + b.random.IntN(6)
	for range n {
		id := b.last - min(b.last, b.random.Uint64N(12))
		switch b.random.IntN(9) {
		case 0, 1:
			b.jobs++
			text.WriteString(putCommand(taggedBody(b.random.Uint64(), b.size())))
		case 2, 3:
			text.WriteString("reserve-with-timeout 0\r\n")
		case 4:
			fmt.Fprintf(&text, "delete %d\r\n", id)
		case 5:
			fmt.Fprintf(&text, "peek %d\r\n", id)
		case 6:
			fmt.Fprintf(&text, "release %d 0 0\r\n", id)
		case 7:
			fmt.Fprintf(&text, "bury %d 0\r\nkick 10\r\n", id)
			n++
		default:
			fmt.Fprintf(&text, "reserve-job %d\r\n", id)
		}
	}
	go io.WriteString(b.c, text.String())
	for range n {
		b.reply()
	}
}

// size returns a size for a body, often close to a limit above which bodies are treated differently.
func (b *bodyClient) size() int {
	if b.random.IntN(40) == 0 {
		return mib + b.random.IntN(3)
	}
	edges := []int{16, 4<<10 - 2, 4 << 10, 5000, 16 << 10, 64 << 10}
	return edges[b.random.IntN(len(edges))] + b.random.IntN(3)
}

// reply receives one reply and checks its body.
func (b *bodyClient) reply() {
	r, err := b.c.Receive()
	if err != nil {
		b.t.Fatal(err)
	}
	switch r.Word {
	case protoclient.Inserted:
		b.last = max(b.last, r.ID)
	case protoclient.Reserved, protoclient.Found:
		if b.last = max(b.last, r.ID); !isTagged(r.Body) {
			b.t.Fatalf("job %d has a body of %d bytes that nobody has put: %.60x", r.ID, len(r.Body), r.Body)
		}
	}
}

// playBodies runs clients that put, reserve, peek, bury, kick, release and delete jobs of all sizes at
// the same time, until limit.
func playBodies(t *testing.T, store storage.Store, clients int, limit time.Duration) {
	s, dial := onTCPWith(t, Config{Log: slog.New(slog.DiscardHandler)}, store, 2*mib)
	var all sync.WaitGroup
	var jobs sync.Map
	end := time.Now().Add(limit)
	for i := range clients {
		conn, c := dial()
		b := &bodyClient{t: t, c: c, random: rand.New(rand.NewPCG(1, uint64(i)))}
		all.Go(func() {
			for time.Now().Before(end) {
				b.sendSome()
			}
			jobs.Store(i, b.jobs)
			conn.Close()
		})
	}
	all.Wait()
	n := 0
	jobs.Range(func(_, put any) bool { n += put.(int); return true })
	t.Logf("%d jobs", n)
	_, c := dial()
	for {
		io.WriteString(c, "kick 1000\r\nreserve-with-timeout 0\r\n")
		c.Receive()
		r, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if r.Word != protoclient.Reserved {
			break
		}
		if !isTagged(r.Body) {
			t.Fatalf("job %d has a body that nobody has put", r.ID)
		}
		ask(t, c, fmt.Sprintf("delete %d\r\n", r.ID), "DELETED")
	}
	wantRelease(t, s)
	s.Shutdown(context.Background())
}

// TestBodiesInUse: whatever connections do to jobs at the same time, every client gets bodies that were
// put.
func TestBodiesInUse(t *testing.T) {
	const clients = 8
	limit := time.Second
	if testing.Short() {
		limit /= 4
	}
	t.Run("memory", func(t *testing.T) { playBodies(t, embedded.NewMemory(), clients, limit) })
	for name, every := range map[string]time.Duration{"synced": 0, "not synced": -1} {
		t.Run(name, func(t *testing.T) {
			store, err := embedded.Open(embedded.Options{
				Dir: t.TempDir(), SyncEvery: every, KeepBodies: 1, Log: slog.New(slog.DiscardHandler),
				Fatal: func(err error) { t.Errorf("fatal: %v", err); select {} },
			})
			if err != nil {
				t.Fatal(err)
			}
			playBodies(t, store, clients, limit)
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
