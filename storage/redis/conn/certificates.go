package conn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// tlsFiles are names of PEM files, and the name that the certificates of the servers must have.
// Each can be empty.
type tlsFiles struct{ ca, cert, key, name string }

// tlsTexts are the contents of ca, cert and key.
type tlsTexts [3]string

// certificates are what connections over TLS use. The files are read again for each new connection: while they are
// invalid, what they were before stays in use.
type certificates struct {
	files tlsFiles
	log   *slog.Logger // nil: nothing is logged

	mu     sync.Mutex // guards the fields below
	texts  tlsTexts
	config *tls.Config // from texts
	fault  string      // why the files cannot be used; "" if they can
}

// loadCertificates reads the files. base is what does not depend on them; nil means that there is no TLS.
func loadCertificates(files tlsFiles, base *tls.Config) (*certificates, error) {
	if base == nil {
		if files != (tlsFiles{}) {
			return nil, errors.New("ca, cert, key and server_name are for rediss://")
		}
		return nil, nil
	}
	if files.name != "" {
		base.ServerName = files.name
	}
	c := &certificates{files: files, config: base}
	var err error
	if c.texts, err = files.read(); err == nil {
		c.config, err = files.parse(c.texts, base)
	}
	return c, err
}

// current returns the configuration of a new connection.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	texts, err := c.files.readAgain()
	changed := err == nil && texts != c.texts
	if changed {
		var config *tls.Config
		if config, err = c.files.parse(texts, c.config); err == nil {
			c.texts, c.config = texts, config
		}
	}
	c.report(changed, err)
	return c.config
}

// report logs that the files have changed, or once for each fault that they cannot be used.
func (c *certificates) report(changed bool, err error) {
	before := c.fault
	c.fault = ""
	if err != nil {
		c.fault = err.Error()
	}
	switch {
	case c.log == nil:
	case err != nil && c.fault != before:
		c.log.Error("the certificates for Redis cannot be used; the previous ones stay in use", "err", err)
	case err == nil && changed:
		c.log.Info("the certificates for Redis were read again")
	}
}

func (f *tlsFiles) paths() [3]string { return [3]string{f.ca, f.cert, f.key} }

// fileOf says what the files are, by their index in paths.
var fileOf = [3]string{"the certificates of authorities", "the certificate and key of this client", "the certificate and key of this client"}

// read reads the files. A client without a certificate has neither cert nor key.
func (f *tlsFiles) read() (texts tlsTexts, err error) {
	for i, path := range f.paths() {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return texts, fmt.Errorf("reading %s: %w", fileOf[i], err)
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// readAgain is read for files that were read before. It never waits for what may have taken the place of one, such
// as a named pipe.
func (f *tlsFiles) readAgain() (texts tlsTexts, err error) {
	for i, path := range f.paths() {
		if info, err := os.Stat(path); path != "" && err == nil && !info.Mode().IsRegular() {
			return texts, fmt.Errorf("reading %s: %s is not a regular file", fileOf[i], path)
		}
	}
	return f.read()
}

// parse returns base with the certificates in the texts.
func (f *tlsFiles) parse(texts tlsTexts, base *tls.Config) (*tls.Config, error) {
	config := base.Clone()
	if f.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(texts[0])) {
			return base, fmt.Errorf("there is no certificate in %s", f.ca)
		}
	}
	if f.cert == "" && f.key == "" {
		return config, nil
	}
	own, err := tls.X509KeyPair([]byte(texts[1]), []byte(texts[2]))
	if err != nil {
		return base, fmt.Errorf("reading the certificate and key of this client: %w", err)
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}
