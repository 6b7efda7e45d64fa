package outbox

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"strings"

	driver "github.com/go-sql-driver/mysql"
)

//go:embed mysql.sql
var mysqlSchema string

// mysql is MySQL 8.0.13 or later, or MariaDB 10.6 or later: SKIP LOCKED, and a function as a default. Above READ COMMITTED, a round
// would lock the gaps between rows as well, and inserts would wait for it. A DELETE that looked at all rows would
// wait for those of open transactions.
var mysql = &dialect{
	schema: mysqlSchema, locks: true, isolation: sql.LevelReadCommitted, parameter: "?", quote: "`",
	age:  "TIMESTAMPDIFF(MICROSECOND, created, CURRENT_TIMESTAMP(3)) / 1e6",
	body: "body", size: "octet_length(body)", tube: "CAST(tube AS BINARY)",
	silence: "SET SESSION wait_timeout = %d",
	remove:  "DELETE %[1]s FROM %[1]s FORCE INDEX (PRIMARY) WHERE id IN (%[2]s)",
	open:    openMySQL,
}

// openMySQL opens mysql://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS. Parameters are those of the driver, and socket: the
// path of a unix socket.
func openMySQL(text string) (*sql.DB, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it cannot be parsed")
	}
	query := u.Query()
	socket := query.Get("socket")
	query.Del("socket")
	config, err := driver.ParseDSN("/?" + query.Encode())
	if err != nil {
		return nil, fmt.Errorf("reading the parameters: %w", err)
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	if socket != "" {
		config.Net, config.Addr = "unix", socket
	}
	if config.Timeout == 0 {
		config.Timeout = connectLimit
	}
	config.InterpolateParams = true
	config.Logger = log.New(io.Discard, "", 0) // errors are returned as well
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
