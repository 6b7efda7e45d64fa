package conn

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redstalk/storage/redact"
)

// Address is a parsed URL: the servers to connect to first, and the options of connections.
type Address struct {
	kind     Kind
	hosts    []string         // host:port of the server, of sentinels, or of some nodes of a cluster
	master   string           // the name that sentinels have for the primary
	known    bool             // sentinels need the same user and password as Redis
	options  *goredis.Options // for every connection; Addr is that of a single server
	redactor *redact.Redactor

	certificates *certificates // nil without TLS
}

// Kind says how Redis is deployed.
type Kind int

const (
	Single    Kind = iota // one server
	Sentinels             // a primary that sentinels name
	Cluster
)

// kinds maps what follows the + of a URL's scheme to its kind and its default port.
var kinds = map[string]struct {
	kind Kind
	port string
}{"sentinel": {Sentinels, "26379"}, "cluster": {Cluster, "6379"}}

// Parse parses a URL: redis://user:password@host:port/db, or unix:///path?db=N;
// redis+sentinel://user:password@host:port,host:port/name/db, with the addresses of sentinels
// and their name for the primary; or redis+cluster://user:password@host:port,host:port, some
// nodes of a cluster. With rediss instead of redis TLS is used; then the parameters ca, cert,
// key (names of PEM files) and server_name (the name that the servers' certificates must have)
// are allowed. sentinel_auth=same means that the sentinels need the same user and password.
//
// A connection must be established, and each piece of a request and a reply arrive, within the
// limit. Errors do not quote the URL, which can contain a password.
func Parse(url string, limit time.Duration) (*Address, error) {
	a, err := splitURL(url)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of Redis: %w", err)
	}
	options := a.options
	options.Protocol = 2
	options.MaxRetries = -1 // callers do that
	if err := checkUser(options); err != nil {
		return nil, err
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = limit, limit, limit
	options.DialerRetries = 1
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	a.redactor = redact.New(url, options.Password)
	return a, nil
}

// howToEncode replaces the offending text in errors, because that can be a piece of a password.
const howToEncode = "in a user or password, characters such as # / ? @ : and % must be written %23 %2F %3F %40 %3A and %25, " +
	"and behind them an @ must be, too"

var (
	errMalformed = errors.New("it is malformed: " + howToEncode)
	errPort      = errors.New("the port of a host is no number from 1 to 65535; " + howToEncode)
)

// urlParts are the parts of a URL as written.
type urlParts struct {
	scheme, word string // redis, rediss or unix; and what follows a +
	several      bool   // there is a +
	user         *url.Userinfo
	hosts        string
	path         string // from its / on
	query        url.Values
}

// cutURL splits a URL. It refuses text that can be a user or password with unescaped
// delimiters: the rest would be taken for hosts, files or options, and be quoted in errors.
func cutURL(text string) (w urlParts, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	w.scheme, w.word, w.several = strings.Cut(scheme, "+")
	if strings.Contains(rest, "#") || strings.ContainsFunc(rest, unicode.IsControl) {
		return w, errMalformed
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	w.path = rest[len(authority):]
	at := strings.LastIndexByte(authority, '@') + 1
	w.hosts = authority[at:]
	if strings.Contains(query, "@") || strings.Contains(w.path, "@") && !w.isSocket() {
		return w, errMalformed
	}
	if at > 0 {
		parsed, err := url.Parse("redis://" + authority[:at] + "host")
		if err != nil || w.scheme == "unix" && w.hosts != "" {
			return w, errMalformed
		}
		w.user = parsed.User
	}
	if w.query, err = url.ParseQuery(query); err != nil {
		return w, errors.New("what is behind the ? is malformed")
	}
	return w, nil
}

// isSocket returns whether the path is that of a unix socket, whose name can contain an @, as
// in redis@1.sock. Before a / an @ can be the end of a password.
func (w *urlParts) isSocket() bool {
	return w.scheme == "unix" && w.hosts == "" && !strings.Contains(w.path, "@/")
}

// splitURL parses REDIS[S][+KIND]://USER:PASSWORD@HOSTS/PATH?QUERY or unix://….
func splitURL(text string) (*Address, error) {
	w, err := cutURL(text)
	if err != nil {
		return nil, err
	}
	query := w.query
	a := &Address{known: query.Get("sentinel_auth") == "same"}
	files := tlsFiles{query.Get("ca"), query.Get("cert"), query.Get("key"), query.Get("server_name")}
	for _, name := range []string{"sentinel_auth", "ca", "cert", "key", "server_name"} {
		query.Del(name)
	}
	rest := w.hosts + w.path
	if w.several {
		if rest, err = a.split(&w); err != nil {
			return nil, err
		}
	} else if err := checkPort(w.hosts); err != nil {
		return nil, err
	}
	if text = w.scheme + "://" + rest; len(query) > 0 {
		text += "?" + query.Encode()
	}
	if a.options, err = goredis.ParseURL(text); err != nil {
		return nil, withoutValues(err)
	}
	if w.user != nil {
		a.options.Username = w.user.Username()
		a.options.Password, _ = w.user.Password()
	}
	if !w.several {
		a.hosts = []string{a.options.Addr}
	} else if a.options.TLSConfig != nil {
		a.options.TLSConfig.ServerName = "" // each server has its own name
	}
	a.certificates, err = loadCertificates(files, a.options.TLSConfig)
	return a, err
}

// withoutValues returns an error of go-redis about a URL without any part of the URL.
func withoutValues(err error) error {
	if _, malformed := errors.AsType[*url.Error](err); malformed {
		return errMalformed
	}
	what, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "redis: "), ":")
	return errors.New(what)
}

// checkUser refuses a user without a password, which mostly is a password in the wrong place.
func checkUser(options *goredis.Options) error {
	if options.Username != "" && options.Password == "" {
		return errors.New("reading the URL of Redis: there is a user but no password; write redis://:PASSWORD@HOST for a password without a user")
	}
	return nil
}

// checkPort checks the port of a host, if there is one.
func checkPort(host string) error {
	colon := strings.LastIndexByte(host, ':') + 1
	if colon == 0 || colon == len(host) || strings.HasSuffix(host, "]") {
		return nil
	}
	if port, err := strconv.ParseUint(host[colon:], 10, 16); err != nil || port == 0 {
		return errPort
	}
	return nil
}

// split reads the hosts and what follows them. It returns host/db, as a URL of the first host
// alone would have it.
func (a *Address) split(w *urlParts) (string, error) {
	kind, known := kinds[w.word]
	if !known {
		return "", errors.New("it begins with none of redis, redis+sentinel and redis+cluster, nor with rediss for TLS")
	}
	a.kind = kind.kind
	for _, host := range strings.Split(w.hosts, ",") {
		if host == "" {
			return "", errors.New("a host is missing")
		}
		if err := checkPort(host); err != nil {
			return "", err
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), kind.port)
		}
		a.hosts = append(a.hosts, host)
	}
	db := strings.Trim(w.path, "/")
	if a.kind == Sentinels {
		a.master, db, _ = strings.Cut(db, "/")
		if a.master == "" {
			return "", errors.New("the name that the sentinels have for the primary is missing: redis+sentinel://HOST:PORT,HOST:PORT/NAME/DB")
		}
	} else if db != "" && db != "0" {
		return "", errors.New("a cluster has no database but 0")
	}
	return a.hosts[0] + "/" + db, nil
}

// Kind returns how Redis is deployed.
func (a *Address) Kind() Kind { return a.kind }

// Where names the servers, for errors.
func (a *Address) Where() string { return strings.Join(a.hosts, ", ") }

// Redactor returns what replaces the password in errors and logs: a server that does not know
// AUTH, or a proxy in front of one, can quote what it was sent.
func (a *Address) Redactor() *redact.Redactor { return a.redactor }

// SetLog makes it logged when the certificates have changed. It must be called before a pool is made.
func (a *Address) SetLog(log *slog.Logger) {
	if a.certificates != nil {
		a.certificates.log = log
	}
}

// SetTimeout changes the limit for requests and replies, before a pool is made.
func (a *Address) SetTimeout(limit time.Duration) {
	a.options.ReadTimeout, a.options.WriteTimeout = limit, limit
}
