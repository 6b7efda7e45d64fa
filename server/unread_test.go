package server

import (
	"io"
	"strings"
	"testing"
	"time"

	"redstalk/server/limits"
	"redstalk/storage/embedded"
)

// TestUnreadIsBounded: of clients that leave 16 MiB each unread, as many are disconnected as is needed for
// the limit. A client that reads slowly gets everything.
func TestUnreadIsBounded(t *testing.T) {
	const size, clients, maxUnread = 16 * mib, 10, 50 * mib
	s, dial := onTCPWith(t, Config{Limits: limits.New(0, maxUnread, 0), WriteTimeout: time.Hour}, embedded.NewMemory(), size)
	_, c := dial()
	ask(t, c, putCommand(taggedBody(1, size)), "INSERTED 1")
	reader, replies := dial()
	io.WriteString(reader, "peek 1\r\n")
	read := make(chan int64)
	go func() { // 10 MiB per second
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
		t.Errorf("the client that reads got only %d bytes", got)
	}
	limit := time.Now().Add(time.Minute)
	for unread(s) > maxUnread && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := len(s.slowReaders()); unread(s) > maxUnread || left < 2 || left > 4 {
		t.Errorf("%d clients are left with %d bytes unread", left, unread(s))
	}
}

// unread returns how many bytes clients have not read.
func unread(s *Server) (sum int64) {
	for _, r := range s.slowReaders() {
		bytes, _ := r.Unread()
		sum += bytes
	}
	return sum
}
