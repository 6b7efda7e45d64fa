package server

import (
	"crypto/tls"
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

// TestTLSNews: what comes while records are left that were read before is not forgotten. Its
// event has woken the session already, and a Read of such a record asks no kernel.
func TestTLSNews(t *testing.T) {
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
	defer raw.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	joined := &onePacket{Conn: raw}
	client := tls.Client(joined, (&secured{authority: a}).config())
	below := &records{Conn: conn}
	sc := &secureConn{tls.Server(below, certificates.Config()), below}
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	if err := sc.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}

	store := embedded.NewMemory()
	defer store.Close()
	ls := &loops{queue: queue.New(store, queue.Config{Log: slog.New(slog.DiscardHandler), MaxJobSize: 100}), log: slog.New(slog.DiscardHandler)}
	defer ls.stop()
	woken := make(chan struct{}, 100)
	w := ls.adoptSecure(sc, func(outbox) { woken <- struct{}{} })
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
		joined.hold = true
		for _, r := range records {
			client.Write([]byte(r))
		}
		if _, err := raw.Write(joined.held); err != nil {
			t.Fatal(err)
		}
		joined.held = nil
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
