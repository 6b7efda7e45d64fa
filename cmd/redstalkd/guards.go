package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"redstalk/server/access"
	"redstalk/server/sight"
)

// guardSettings are the settings of access control and TLS.
type guardSettings struct {
	access          string // the file of users; "": no access control
	redaction       *sight.Redaction
	authTimeout     time.Duration
	unauthenticated int
	tls, httpTLS    tlsSettings
}

// tlsSettings are the settings of a TLS port.
type tlsSettings struct {
	addr  string // HOST:PORT, :PORT or unix:PATH; "": there is none
	files access.CertificateFiles
}

// wanted reports whether there are files to reread on SIGHUP.
func (g *guardSettings) wanted() bool {
	return g.access != "" || g.tls.addr != "" || g.httpTLS.addr != ""
}

// check finds missing settings. --http-tls takes its defaults from --tls.
func (g *guardSettings) check() error {
	if g.redaction != nil && g.access == "" {
		return usageError("--redact needs --access: without users everybody has the right admin, and so sees all")
	}
	if err := g.tls.check("tls"); err != nil {
		return err
	}
	if h := &g.httpTLS; h.addr != "" && h.files.Cert == "" && h.files.Key == "" {
		h.files.Cert, h.files.Key = g.tls.files.Cert, g.tls.files.Key
		if h.files.ClientCA == "" {
			h.files.ClientCA = g.tls.files.ClientCA
		}
	}
	return g.httpTLS.check("http-tls")
}

func (t *tlsSettings) check(flag string) error {
	if t.addr != "" && (t.files.Cert == "" || t.files.Key == "") {
		return usageError("--%s needs --%s-cert and --%s-key", flag, flag, flag)
	}
	return nil
}

// guards are access control and TLS of a running program.
type guards struct {
	access   *access.Access       // nil: no access control
	tls      *access.Certificates // nil: no TLS port; then listener is nil too
	listener net.Listener
	httpTLS  *access.Certificates
}

// openGuards reads the files, and opens the TLS socket.
func (p *program) openGuards(ctx context.Context) (*guards, error) {
	g := new(guards)
	var err error
	if file := p.guards.access; file != "" {
		if g.access, err = access.Open(file, p.guards.redaction, p.log); err != nil {
			return nil, failure(exitFailure, "--access: %w", err)
		}
	}
	if g.tls, err = p.openCertificates(&p.guards.tls, "tls"); err != nil {
		return nil, err
	}
	if g.httpTLS, err = p.openCertificates(&p.guards.httpTLS, "http-tls", "http/1.1"); err != nil {
		return nil, err
	}
	if addr := p.guards.tls.addr; addr != "" {
		if g.listener, err = p.listenAt(ctx, addr); err != nil {
			return nil, failure(exitListen, "cannot listen for tls on %s: %w", addr, err)
		}
		p.log.Info("listening", "listener", "tls", "addr", g.listener.Addr())
	}
	return g, nil
}

// openCertificates reads the certificates of a port. It returns nil if the port is not wanted.
func (p *program) openCertificates(t *tlsSettings, flag string, protocols ...string) (*access.Certificates, error) {
	if t.addr == "" {
		return nil, nil
	}
	files := t.files
	files.Protocols = protocols
	files.RequireClient = files.ClientCA != "" && p.guards.access == ""
	c, err := access.LoadCertificates(files, p.log)
	if err != nil {
		return nil, failure(exitFailure, "--%s: %w", flag, err)
	}
	return c, nil
}

// close closes the TLS socket and ends pending authentications.
func (g *guards) close() {
	if g.listener != nil {
		g.listener.Close()
	}
	if g.access != nil {
		g.access.Close()
	}
}

// reload rereads the files. A faulty file changes nothing. On nil guards, before they are open, it
// does nothing.
func (g *guards) reload(log *slog.Logger) {
	if g == nil {
		return
	}
	g.reloadUsers(log)
	for _, c := range []*access.Certificates{g.tls, g.httpTLS} {
		if c == nil {
			continue
		}
		if err := c.Reload(); err != nil {
			log.Error("the certificates cannot be used; the previous ones stay in use", "err", err)
		}
	}
}

// reloadUsers rereads the file of users. A faulty file changes nothing.
func (g *guards) reloadUsers(log *slog.Logger) {
	if g == nil || g.access == nil {
		return
	}
	if err := g.access.Reload(); err != nil {
		log.Error("the file of users is faulty; the previous one stays in use", "err", err)
	}
}

// warnUnprotected logs a warning for each listener through which anybody in the network has all
// rights: there are no users, and a client needs no certificate. g is open.
func (p *program) warnUnprotected(g *guards, l net.Listener, others httpListeners) {
	if p.guards.access != "" {
		return
	}
	p.warnReachable("beanstalk", l)
	if g.listener != nil && p.guards.tls.files.ClientCA == "" {
		p.warnReachable("tls", g.listener)
	}
	for _, d := range others {
		if !d.tls || p.guards.httpTLS.files.ClientCA == "" {
			p.warnReachable(d.name, d.listener)
		}
	}
}

// warnReachable logs a warning if a listener can be reached from other machines.
func (p *program) warnReachable(name string, l net.Listener) {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		p.log.Warn(fmt.Sprintf("everybody who reaches %s may do everything; see --access and --tls", l.Addr()), "listener", name)
	}
}
