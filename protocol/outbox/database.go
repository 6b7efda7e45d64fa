package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// DefaultTable is the name of the table unless another one is given.
const DefaultTable = "redstalk_outbox"

// dialect is where a kind of database differs from the others.
type dialect struct {
	schema    string             // SQL with %[1]s for the quoted name of the table, and %[2]s for that of its function
	locks     bool               // rows can be locked, so that several relays share them
	isolation sql.IsolationLevel // of a round
	parameter string             // the first placeholder of a query
	quote     string             // around names
	age       string             // SQL of how many seconds ago a row was made
	body      string             // SQL of the body of a row
	size      string             // and of its length in bytes
	tube      string             // and of its tube, compared byte by byte
	reopened  bool               // connections are not kept: another file can take the place of the database
	silence   string             // SQL that makes the database end a transaction that is silent for %d seconds; "": none is silent
	remove    string             // SQL with %[1]s for the quoted name of the table, and %[2]s for the ids of rows to delete

	open   func(url string) (*sql.DB, error)
	listen func(url, channel string) (*listener, error) // nil: the database reports no commits
}

// removeByID is the statement that deletes rows.
const removeByID = "DELETE FROM %[1]s WHERE id IN (%[2]s)"

// dialects are the kinds of databases by the schemes of their URLs.
var dialects = map[string]*dialect{
	"postgres": postgres, "postgresql": postgres,
	"mysql": mysql, "mariadb": mysql,
	"sqlite": sqlite,
}

// Database is a database with the table. It can be used by several goroutines.
type Database struct {
	Table string

	url     string
	dialect *dialect
	silence time.Duration // how long a relay that has locked rows can be silent; whole seconds
	pool    *sql.DB
}

// validTable is what the name of a table can be. It is part of keys, of the channel of LISTEN, and of SQL.
var validTable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Open prepares the use of a database by its URL: postgres://, mysql://, mariadb:// or sqlite:PATH. It does not
// connect yet.
func Open(url, table string) (*Database, error) {
	scheme, _, _ := strings.Cut(url, ":")
	d := dialects[scheme]
	if d == nil {
		return nil, errors.New("the URL of the database is none of postgres://, mysql://, mariadb:// and sqlite:PATH")
	}
	if misread(url) {
		return nil, errors.New("the URL of the database is invalid: it has an @ that does not end a user and password; write / ? # @ in these as %2F %3F %23 %40")
	}
	if !validTable.MatchString(table) {
		return nil, fmt.Errorf("%q is not the name of a table: up to 63 letters, digits and _", table)
	}
	db := &Database{Table: table, url: url, dialect: d, silence: roundLimit}
	var err error
	if db.pool, err = d.open(url); err != nil {
		return nil, fmt.Errorf("the URL of the database is invalid: %w", db.redact(err))
	}
	db.pool.SetMaxOpenConns(maxConns)
	db.reconnect()
	return db, nil
}

// reconnect drops the connections that are not in use: they can be to a server that another one has replaced.
func (db *Database) reconnect() {
	db.pool.SetMaxIdleConns(-1)
	if !db.dialect.reopened {
		db.pool.SetMaxIdleConns(maxConns)
	}
}

// misread reports whether a URL has a user and password of which special characters are not escaped, so that they count as its host
// and path, which messages show.
func misread(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Opaque == "" && u.Host != "" && u.User == nil && strings.Contains(text, "@")
}

// maxConns is the number of connections to a database: for the rounds and for the metrics.
const maxConns = 2

// Close closes the connections to the database.
func (db *Database) Close() error { return db.pool.Close() }

// Schema returns the SQL that makes the table, and what belongs to it.
func (db *Database) Schema() string {
	function := db.Table + "_put" // each table has its own: else the last one would get the rows of all
	if db.Table == DefaultTable {
		function = "redstalk_put"
	}
	return fmt.Sprintf(db.dialect.schema, db.quoted(), db.dialect.quote+function+db.dialect.quote)
}

// Create makes the table, and what belongs to it, unless they exist.
func (db *Database) Create() error {
	for _, statement := range strings.Split(db.Schema(), ";\n\n") {
		if _, err := db.pool.Exec(statement); err != nil {
			return fmt.Errorf("making the table: %w", db.redact(err))
		}
	}
	return nil
}

// Place says which database it is, without user and password.
func (db *Database) Place() string {
	u, err := url.Parse(db.url)
	if err != nil || u.Opaque != "" {
		scheme, _, _ := strings.Cut(db.url, ":")
		return "a database of " + scheme
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// begin begins the transaction of a round. The database ends it, so that other relays get the rows, if this relay stands still or
// its machine is gone.
func (db *Database) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := db.pool.BeginTx(ctx, &sql.TxOptions{Isolation: db.dialect.isolation})
	if err != nil || db.dialect.silence == "" {
		return tx, err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(db.dialect.silence, int(db.silence/time.Second))); err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

func (db *Database) quoted() string { return db.dialect.quote + db.Table + db.dialect.quote }

// secretParameters are the parameters of URLs that can be secret.
var secretParameters = []string{"password", "sslpassword"}

// redacted is an error in whose text the secrets of the URL are replaced.
type redacted struct {
	error
	text string
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.error }

// redact returns an error without the secrets of the URL.
func (db *Database) redact(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), db.url, "...")
	u, parseErr := url.Parse(db.url)
	if parseErr != nil { // so it is not known which part is secret
		return errors.New("it cannot be parsed")
	}
	password, _ := u.User.Password()
	_, raw, _ := strings.Cut(u.User.String(), ":")
	secrets := []string{password, raw}
	for _, name := range secretParameters {
		secrets = append(secrets, u.Query().Get(name), url.QueryEscape(u.Query().Get(name)))
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "...")
		}
	}
	return redacted{err, text}
}
