package server

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage/embedded"
)

// TestUnreadGuard: who reads nothing goes before who reads something, then who has most
// unread; nobody goes the first time, nor without need.
func TestUnreadGuard(t *testing.T) {
	a, b, c, d := new(session), new(session), new(session), new(session)
	guard := unreadGuard{most: 100}
	step := func(want []*session, all ...slowReader) {
		t.Helper()
		if got := guard.inspect(all); !slices.Equal(got, want) {
			t.Errorf("%d have to go, want %d", len(got), len(want))
		}
	}
	step(nil, slowReader{a, 60, 0}, slowReader{b, 40, 0})
	step(nil, slowReader{a, 60, 0}, slowReader{b, 50, 0})
	step([]*session{b}, slowReader{a, 60, 5}, slowReader{b, 50, 0})
	step(nil, slowReader{a, 60, 5})
	step(nil, slowReader{a, 60, 5}, slowReader{b, 30, 1}, slowReader{c, 40, 0}, slowReader{d, 5, 0})
	step([]*session{c}, slowReader{a, 60, 6}, slowReader{b, 30, 2}, slowReader{c, 40, 0}, slowReader{d, 5, 0})
	step([]*session{c, d, b}, slowReader{a, 70, 7}, slowReader{b, 100, 3}, slowReader{c, 40, 0}, slowReader{d, 5, 0})
}

// TestUnreadIsBounded: of clients that let 16 MiB each lie, so many are cut off that the
// others fit into the bound. One who reads slowly gets everything.
func TestUnreadIsBounded(t *testing.T) {
	const size, clients, most = 16 * mib, 10, 50 * mib
	s, dial := onTCPWith(t, Config{MaxUnread: most, WriteTimeout: time.Hour}, embedded.NewMemory(), size)
	_, c := dial()
	ask(t, c, putCommand(taggedBody(1, size)), "INSERTED 1")
	reader, replies := dial()
	io.WriteString(reader, "peek 1\r\n")
	read := make(chan int64)
	go func() { // a tenth of a second for a mebibyte
		all := int64(0)
		for all < size {
			n, err := io.CopyN(io.Discard, replies, mib)
			if all += n; err != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		read <- all
	}()
	for range clients {
		slow, _ := dial()
		io.WriteString(slow, strings.Repeat("peek 1\r\n", 1))
	}
	if got := <-read; got < size {
		t.Errorf("who reads got only %d bytes", got)
	}
	limit := time.Now().Add(time.Minute)
	for unread(s) > most && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := len(s.slowReaders()); unread(s) > most || left < 2 || left > 4 {
		t.Errorf("%d clients are left with %d bytes unread", left, unread(s))
	}
}

// unread returns how much clients have not read.
func unread(s *Server) (sum int64) {
	for _, r := range s.slowReaders() {
		sum += r.unread
	}
	return sum
}
