package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// CertificateFiles are the files of a TLS port, in PEM format.
type CertificateFiles struct {
	Cert, Key string // of the server, with the chain
	ClientCA  string // authority for client certificates; "": clients are not asked for one

	// RequireClient refuses clients without a certificate. Otherwise a certificate is
	// optional, but an invalid one is refused.
	RequireClient bool

	// Protocols are offered by ALPN.
	Protocols []string
}

// Certificates are the certificates of a TLS port, read again when their files change.
type Certificates struct {
	files CertificateFiles
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	current *tls.Config
	stamp   string // of the files as they were last read
	faulty  string // the stamp of files that could not be read, "" if there are none
	checked time.Time
}

// checkEvery is the shortest interval of checks for changed files.
const checkEvery = time.Second

// LoadCertificates reads the files.
func LoadCertificates(files CertificateFiles, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{files: files, log: log, stamp: files.stamp(), checked: time.Now()}
	var err error
	if c.current, err = files.read(log); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the configuration of a TLS server that always uses the current
// certificates.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         c.files.Protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.get(), nil },
		// For libraries that require one; GetConfigForClient replaces it.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.get().Certificates[0], nil },
	}
}

// get returns the current configuration, after reading files that have changed.
func (c *Certificates) get() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= checkEvery {
		c.checked = now
		if err := c.refresh(); err != nil {
			c.log.Error("the certificates have changed and cannot be used; the previous ones stay in use", "err", err)
		}
	}
	return c.current
}

// Reload reads the files now, if they have changed. If they are invalid, nothing changes.
func (c *Certificates) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faulty = ""
	return c.refresh()
}

// refresh reads files that have changed since they were last read. It returns an error only
// once for the same files. The lock is held.
func (c *Certificates) refresh() error {
	stamp := c.files.stamp()
	if stamp == c.stamp || stamp == c.faulty {
		return nil
	}
	config, err := c.files.read(c.log)
	if err != nil {
		c.faulty = stamp
		return err
	}
	c.current, c.stamp, c.faulty = config, stamp, ""
	c.log.Info("the certificates were read again", "file", c.files.Cert)
	return nil
}

// stamp returns a text that changes when one of the files does.
func (f *CertificateFiles) stamp() (stamp string) {
	for _, path := range []string{f.Cert, f.Key, f.ClientCA} {
		if path == "" {
			continue
		}
		of, found := StampOf(path)
		if !found {
			of = "missing"
		}
		stamp += of + ";"
	}
	return stamp
}

// StampOf returns a text that changes when a file or its mode does, or another one takes its place. found is false if
// there is none.
func StampOf(path string) (stamp string, found bool) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return "", false
	}
	// The time of the last change of attributes: programs that copy files set the time of the content.
	return fmt.Sprint(s.Ino, " ", s.Size, " ", s.Mtim.Nano(), " ", s.Ctim.Nano()), true
}

// read returns a configuration from the files. Its errors quote nothing of the key.
func (f *CertificateFiles) read(log *slog.Logger) (*tls.Config, error) {
	pair, err := f.readPair(log)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate %s and its key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: f.Protocols,
		DynamicRecordSizingDisabled: true, // replies are small, and there are many at once
	}
	if f.ClientCA == "" {
		return config, nil
	}
	text, err := ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of clients: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("reading the CA of clients: there is no certificate in " + f.ClientCA)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	if f.RequireClient {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

func (f *CertificateFiles) readPair(log *slog.Logger) (pair tls.Certificate, err error) {
	cert, err := ReadFile(f.Cert)
	if err != nil {
		return pair, err
	}
	key, err := ReadSecrets(f.Key, log)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(cert, key)
}

// NameOf returns the name in a client's certificate, which is its user: the first URI of its
// alternative names, else the first DNS name, else the common name of its subject; "" if the
// client has no certificate that was verified.
func NameOf(s *tls.ConnectionState) string {
	if len(s.VerifiedChains) == 0 || len(s.PeerCertificates) == 0 {
		return ""
	}
	switch cert := s.PeerCertificates[0]; {
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	default:
		return cert.Subject.CommonName
	}
}
