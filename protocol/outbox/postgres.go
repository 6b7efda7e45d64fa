package outbox

import (
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed postgres.sql
var postgresSchema string

// postgres is PostgreSQL 13 or later: gen_random_uuid. It has two columns for bodies: text that is inserted into a bytea loses
// its backslashes.
var postgres = &dialect{
	schema: postgresSchema, locks: true, isolation: sql.LevelReadCommitted, parameter: "$1", quote: `"`,
	age:  "EXTRACT(EPOCH FROM clock_timestamp() - created)",
	body: "COALESCE(bytes, convert_to(body, 'UTF8'))", size: "COALESCE(octet_length(bytes), octet_length(body))", tube: "tube", remove: removeByID,
	silence: "SET LOCAL idle_in_transaction_session_timeout = '%ds'",
	open:    openPostgres, listen: listenPostgres,
}

func openPostgres(url string) (*sql.DB, error) {
	config, err := parsePostgres(url)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*config), nil
}

// parsePostgres reads a URL. Queries are sent without named prepared statements: their texts differ each time, and a
// pooler such as PgBouncer can give each transaction another connection.
func parsePostgres(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the URL: %w", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectLimit
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "redstalk outbox"
	}
	return config, nil
}
