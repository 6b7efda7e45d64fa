package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// address is what a URL says: which servers to begin with, and how they are
// talked to.
type address struct {
	kind    kind
	hosts   []string         // host:port: of the server, sentinels, or some nodes of a cluster
	master  string           // what sentinels call the primary
	known   bool             // sentinels want the same user and password as Redis
	options *goredis.Options // for every connection; Addr is that of a single server
}

// kind is the way in which Redis is run.
type kind int

const (
	single kind = iota
	sentinels
	cluster
)

// kinds are the words behind the + of a URL's scheme, with the port that hosts
// without one get.
var kinds = map[string]struct {
	kind kind
	port string
}{"sentinel": {sentinels, "26379"}, "cluster": {cluster, "6379"}}

// parseAddress reads a URL; its errors do not repeat the URL, which may hold a
// password.
func parseAddress(o Options) (*address, error) {
	a, err := splitURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of Redis: %w", err)
	}
	options := a.options
	options.Protocol = 2
	options.MaxRetries = -1 // the partition does that, see trouble.go
	if err := checkUser(options); err != nil {
		return nil, err
	}
	limit := o.attempt()
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = limit, limit, limit
	options.DialerRetries = 1
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return a, nil
}

// splitURL reads REDIS[S][+KIND]://USER:PASSWORD@HOSTS/PATH?QUERY or unix://….
func splitURL(text string) (*address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	base, word, several := strings.Cut(scheme, "+")
	rest, query, _ := strings.Cut(rest, "?")
	its, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what is behind the ? is malformed")
	}
	a := &address{known: its.Get("sentinel_auth") == "same"}
	its.Del("sentinel_auth")
	files := tlsFiles{its.Get("ca"), its.Get("cert"), its.Get("key"), its.Get("server_name")}
	for _, name := range []string{"ca", "cert", "key", "server_name"} {
		its.Del(name)
	}
	if several {
		if rest, err = a.split(word, rest); err != nil {
			return nil, err
		}
	}
	if text = base + "://" + rest; len(its) > 0 {
		text += "?" + its.Encode()
	}
	if a.options, err = goredis.ParseURL(text); err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, err
	}
	if !several {
		a.hosts = []string{a.options.Addr}
	} else if a.options.TLSConfig != nil {
		a.options.TLSConfig.ServerName = "" // each server is to have its own
	}
	return a, files.into(a.options)
}

// split takes down the hosts and what follows them, and returns what a URL of
// the first host would say: [user@]host/db.
func (a *address) split(word, rest string) (string, error) {
	is, known := kinds[word]
	if !known {
		return "", errors.New("it begins with none of redis, redis+sentinel and redis+cluster, nor with rediss for TLS")
	}
	a.kind = is.kind
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@') + 1
	for _, host := range strings.Split(authority[at:], ",") {
		if host == "" {
			return "", errors.New("a host is missing")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), is.port)
		}
		a.hosts = append(a.hosts, host)
	}
	db := strings.Trim(path, "/")
	if a.kind == sentinels {
		a.master, db, _ = strings.Cut(db, "/")
		if a.master == "" {
			return "", errors.New("the name that the sentinels have for the primary is missing: redis+sentinel://HOST:PORT,HOST:PORT/NAME/DB")
		}
	} else if db != "" && db != "0" {
		return "", errors.New("a cluster has no database but 0")
	}
	return authority[:at] + a.hosts[0] + "/" + db, nil
}

// where names the servers, for errors.
func (a *address) where() string { return strings.Join(a.hosts, ", ") }

// tlsFiles are the names of files in PEM, and the name that the certificates
// of the servers are to have; each may be empty.
type tlsFiles struct{ ca, cert, key, name string }

// into has connections use the files.
func (f tlsFiles) into(o *goredis.Options) error {
	if f == (tlsFiles{}) {
		return nil
	}
	if o.TLSConfig == nil {
		return errors.New("ca, cert, key and server_name are for rediss://")
	}
	if f.name != "" {
		o.TLSConfig.ServerName = f.name
	}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("reading the certificates of authorities: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("there is no certificate in %s", f.ca)
		}
	}
	if f.cert == "" && f.key == "" {
		return nil
	}
	own, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("reading the certificate and key of this client: %w", err)
	}
	o.TLSConfig.Certificates = []tls.Certificate{own}
	return nil
}
