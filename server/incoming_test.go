package server

import (
	"io"
	"strings"
	"testing"
	"time"

	"redstalk/server/limits"
	"redstalk/storage/embedded"
)

// TestIncomingIsBounded: of the connections that stalled in the middle of large bodies, as many are closed
// as is needed for the memory that others need. Large bodies wait for that, small ones do not.
func TestIncomingIsBounded(t *testing.T) {
	const size, stalled, limit = 4 * mib, 10, 16 * mib
	_, dial := onTCPWith(t, Config{Limits: limits.New(0, 0, limit)}, embedded.NewMemory(), size)
	closed := make(chan bool, stalled)
	for range stalled {
		conn, _ := dial()
		go func() {
			io.WriteString(conn, putCommand(taggedBody(1, size))[:size-100])
			n, _ := conn.Read(make([]byte, 1))
			closed <- n == 0
		}()
	}
	_, small := dial()
	_, large := dial()
	for range 20 {
		ask(t, small, putCommand(taggedBody(1, 10_000)), "INSERTED ")
	}
	begun := time.Now()
	for range 3 {
		ask(t, large, putCommand(taggedBody(1, size)), "INSERTED ")
	}
	if gone := len(closed); gone < 2 || gone == stalled {
		t.Errorf("%d of %d connections were closed in %v", gone, stalled, time.Since(begun))
	}
}

// TestIncomingEnds: whether or not a body is accepted, its memory is free afterwards.
func TestIncomingEnds(t *testing.T) {
	const size = mib
	b := limits.New(0, 0, size)
	_, dial := onTCPWith(t, Config{Limits: b}, embedded.NewMemory(), size)
	whole := putCommand(taggedBody(1, size))
	for _, sent := range []string{whole, whole[:len(whole)-2] + "xx", whole[:size/2]} {
		conn, replies := dial()
		io.WriteString(conn, sent[:size/3])
		time.Sleep(10 * time.Millisecond) // so that the body comes in parts
		io.WriteString(conn, sent[size/3:])
		if len(sent) == len(whole) {
			if got, err := replies.Line(); err != nil || !strings.HasPrefix(got, "INSERTED") && got != "EXPECTED_CRLF" {
				t.Errorf("%q, %v", got, err)
			}
		}
		conn.Close()
	}
	for limit := time.Now().Add(time.Minute); b.Incoming() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("memory for %d bytes is still reserved", b.Incoming())
		}
	}
}
