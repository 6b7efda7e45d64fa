package netpoll

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// corkedConn collects what is written while it is corked, so that it can be sent in one packet.
type corkedConn struct {
	net.Conn
	corked bool
	held   []byte
}

func (c *corkedConn) Write(b []byte) (int, error) {
	if !c.corked {
		return c.Conn.Write(b)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

// connectedTLS returns both ends of a connection with TLS whose handshake is complete, and what
// is below the client's end.
func connectedTLS(t *testing.T) (client *tls.Conn, below *corkedConn, server *TLSConn) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	config := certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	raw, conn := connected(t)
	below = &corkedConn{Conn: raw}
	client = tls.Client(below, config)
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	server, err := Handshake(context.Background(), conn, certified.TLS)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return client, below, server
}

// TestTLSEventWhileBuffered: bytes that come while records are left from an earlier read are not
// forgotten. Their event has woken the session already, and a Read of such a record makes no
// system call.
func TestTLSEventWhileBuffered(t *testing.T) {
	client, below, server := connectedTLS(t)
	store := embedded.NewMemory()
	defer store.Close()
	log := slog.New(slog.DiscardHandler)
	poller := NewPoller(queue.New(store, queue.Config{Log: log, MaxJobSize: 100}), log)
	defer poller.Stop()
	woken := make(chan struct{}, 100)
	w := poller.NewWire(server, func(Submitter) { woken <- struct{}{} })
	defer w.Close()

	read := func(want string) {
		t.Helper()
		var b [100]byte
		if n, err := w.Read(b[:]); err != nil || string(b[:n]) != want {
			t.Fatalf("%q, %v, want %q", b[:n], err, want)
		}
	}
	send := func(records ...string) {
		t.Helper()
		below.corked = true
		for _, r := range records {
			client.Write([]byte(r))
		}
		if _, err := below.Conn.Write(below.held); err != nil {
			t.Fatal(err)
		}
		below.held = nil
		<-woken
	}
	send("first", "second")
	read("first")
	send("third")
	read("second")
	if !w.Readable() {
		t.Error("the third record is forgotten")
	}
	read("third")
	if w.Readable() {
		t.Error("there is nothing more, but it says so")
	}
}
