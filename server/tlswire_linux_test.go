package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"testing"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// onePacket keeps what is written, to be sent in one packet.
type onePacket struct {
	net.Conn
	hold bool
	held []byte
}

func (p *onePacket) Write(b []byte) (int, error) {
	if !p.hold {
		return p.Conn.Write(b)
	}
	p.held = append(p.held, b...)
	return len(b), nil
}

// shaken returns both ends of a connection with TLS whose handshake is over.
func shaken(t *testing.T) (client *tls.Conn, below *onePacket, server *secureConn) {
	t.Helper()
	a := newAuthority(t)
	certificates, err := access.LoadCertificates(a.files(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	below = &onePacket{Conn: raw}
	client = tls.Client(below, (&secured{authority: a}).config())
	under := &records{Conn: conn}
	server = &secureConn{tls.Server(under, certificates.Config()), under}
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	if err := errors.Join(server.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return client, below, server
}

// TestTLSNews: what comes while records are left that were read before is not forgotten. Its
// event has woken the session already, and a Read of such a record asks no kernel.
func TestTLSNews(t *testing.T) {
	client, below, server := shaken(t)
	store := embedded.NewMemory()
	defer store.Close()
	log := slog.New(slog.DiscardHandler)
	ls := &loops{queue: queue.New(store, queue.Config{Log: log, MaxJobSize: 100}), log: log}
	defer ls.stop()
	woken := make(chan struct{}, 100)
	w := ls.adoptSecure(server, func(submitter) { woken <- struct{}{} })
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
		below.hold = true
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
	if !w.More() {
		t.Error("the third record is forgotten")
	}
	read("third")
	if w.More() {
		t.Error("there is nothing more, but it says so")
	}
}
