package outbox

import (
	"database/sql"
	_ "embed"
	"errors"
	"net/url"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

//go:embed sqlite.sql
var sqliteSchema string

// sqlite is SQLite. Rows are not locked while they are put: the whole database would be, for all its writers. Two
// relays would put the same rows, of which the server drops the second by its key.
var sqlite = &dialect{
	schema: sqliteSchema, parameter: "?", quote: `"`,
	age:  "(julianday('now') - julianday(created)) * 86400",
	body: "body", size: "octet_length(body)", tube: "tube", reopened: true, remove: removeByID,
	open: openSQLite,
}

// openSQLite opens sqlite:PATH or sqlite://PATH. The file is not made: a wrong path would be an empty database, whose
// rows nobody misses.
func openSQLite(text string) (*sql.DB, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(text, "sqlite:"), "//")
	if path == "" || strings.ContainsAny(path, "?#") {
		return nil, errors.New("it must be sqlite:PATH")
	}
	file := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: "mode=rw&_pragma=busy_timeout(10000)"}
	return sql.Open("sqlite", file.String())
}
