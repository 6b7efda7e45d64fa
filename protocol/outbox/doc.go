// Package outbox moves the rows of a table of a database to a beanstalk server: transactional enqueue.
//
// An application inserts a row in its own transaction, so that there is a job exactly if the
// transaction is committed. [Relay] puts the rows and deletes them.
//
// # Where to read
//
//   - [Relay]: the loop, and what happens when the database or the server is away (relay.go).
//   - round: one transaction: lock rows, put them, delete them (round.go).
//   - row: a row, its put, and what a reply means for it (row.go).
//   - putter: the connection to the server (putter.go).
//   - tubes: those whose puts the server refuses for now (tubes.go).
//   - [Database] and dialect: what the databases have in common, and where they differ (database.go,
//     postgres.go, mysql.go, sqlite.go); the schemas are beside them in *.sql.
//   - listener: wakes the relay when PostgreSQL reports a commit (listen.go).
//   - Metrics: counters, and the page for Prometheus (metrics.go).
//
// # Why a row becomes one job
//
// A relay locks rows, puts each with a key made of the table, the id and a random token of the row, and deletes
// them in the transaction that has locked them. Rows of a transaction that is rolled back are never seen. If the relay, the
// database or the server dies before the delete is committed, the row is put again, and the server
// finds the key taken: the key stays for a day after the job has ended.
//
// The token is there because ids come again: after a restore of the database, in a copy of it, after a TRUNCATE. A
// row whose key were taken by another row would be lost.
//
// A row is deleted only after the server has answered that it has the job, or had it.
//
// A relay that stands still holds its rows for a minute at most: then the database ends its transaction.
//
// # Invariants
//
// A round belongs to one goroutine. [Relay.Run] starts goroutines, and ends them before it returns. No
// error and no message has a secret of the URL of the database.
package outbox
