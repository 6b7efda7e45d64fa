package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// batch is how many rows a round takes at most.
	batch = 1000
	// batchBytes is how many bytes of bodies a round takes at most, unless one row has more.
	batchBytes = 8 << 20
	// maxTubes is how many tubes a round puts into at most: each takes two replies, which can be far away.
	maxTubes = 100
	// maxDeleted is how many rows a DELETE names at most: MariaDB makes a table of 1,000 values or more, and then looks at all rows.
	maxDeleted = 500
)

// round takes the first rows that no other relay has, puts them, and deletes them.
type round struct {
	*Relay
	server *putter
	rows   []*row
	end    time.Time // of the limit of the round, by the wall clock, which goes on while the process or its machine stands still
	more   bool      // there can be more rows
}

// isOver reports whether the round has lasted so long that its rows can be those of another relay by now, and the server can have
// forgotten their keys.
func (r *round) isOver() bool { return time.Now().Round(0).After(r.end) }

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// run carries out the round. A database that locks rows has it in one transaction. Rows that were put are deleted even if
// others could not be.
func (r *round) run(ctx context.Context) (databaseErr, serverErr error) {
	if !r.db.dialect.locks {
		if err := r.read(ctx, r.db.pool); err != nil || len(r.rows) == 0 {
			return err, nil
		}
		serverErr = r.put()
	}
	tx, err := r.db.begin(ctx)
	if err != nil {
		return fmt.Errorf("beginning: %w", err), serverErr
	}
	defer tx.Rollback() // without effect after Commit
	if r.db.dialect.locks {
		if err := r.read(ctx, tx); err != nil || len(r.rows) == 0 {
			return err, nil
		}
		serverErr = r.put()
	}
	if err := r.remove(ctx, tx); err != nil {
		return err, serverErr
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err), serverErr
	}
	r.count()
	return nil, serverErr
}

// read locks rows and reads as many of them as batchBytes allows.
func (r *round) read(ctx context.Context, from querier) error {
	ids, err := r.lock(ctx, from)
	if err != nil || len(ids) == 0 {
		return err
	}
	rows, err := from.QueryContext(ctx, fmt.Sprintf("SELECT id, token, tube, pri, delay, ttr, %s, COALESCE(tags, '') FROM %s WHERE id IN (%s) ORDER BY id",
		r.db.dialect.body, r.db.quoted(), list(ids)))
	if err != nil {
		return fmt.Errorf("reading rows: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		w := &row{}
		if err := rows.Scan(&w.id, &w.token, &w.tube, &w.pri, &w.delay, &w.ttr, &w.body, &w.tags); err != nil {
			return fmt.Errorf("reading a row: %w", err)
		}
		r.rows = append(r.rows, w)
	}
	return wrap("reading rows", rows.Err())
}

// lock locks the first rows that can be put now, and returns the ids of those that fit into a round.
func (r *round) lock(ctx context.Context, from querier) (ids []int64, err error) {
	query := fmt.Sprintf("SELECT id, %s FROM %s WHERE error IS NULL", r.db.dialect.size, r.db.quoted())
	if names, _ := r.tubes.paused(time.Now()); len(names) > 0 {
		query += " AND " + r.db.dialect.tube + " NOT IN ('" + strings.Join(names, "', '") + "')" // names of tubes have no quotes
	}
	query += fmt.Sprintf(" ORDER BY id LIMIT %d", batch)
	if r.db.dialect.locks {
		query += " FOR UPDATE SKIP LOCKED"
	}
	rows, err := from.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("taking rows: %w", err)
	}
	defer rows.Close()
	found, size := 0, int64(0)
	for rows.Next() {
		var id, bytes int64
		if err := rows.Scan(&id, &bytes); err != nil {
			return nil, fmt.Errorf("taking a row: %w", err)
		}
		found++
		if size += bytes; size <= batchBytes || len(ids) == 0 {
			ids = append(ids, id)
		}
	}
	r.more = found == batch || len(ids) < found
	return ids, wrap("taking rows", rows.Err())
}

// put puts the rows, tube by tube in the order of their first rows, and the rows of a tube in their order.
func (r *round) put() error {
	var order []string
	byTube := make(map[string][]*row)
	for _, w := range r.rows {
		if !w.prepare(r.db.Table, int64(r.KeyTTL/time.Second), r.server.keys) {
			continue
		}
		if byTube[w.tube] == nil {
			if len(order) == maxTubes { // the row stays for the next round
				r.more = true
				continue
			}
			order = append(order, w.tube)
		}
		byTube[w.tube] = append(byTube[w.tube], w)
	}
	last, end := "", time.Now().Add(r.limit/6)
	for i, tube := range order {
		if r.isOver() {
			break
		}
		if i > 0 && time.Now().After(end) { // the server is slow: the rows stay for the next round
			r.more = true
			break
		}
		refusal, err := r.server.put(byTube[tube])
		if err != nil {
			return err
		}
		if refusal == "" {
			r.tubes.accept(tube)
			continue
		}
		last = refusal
		r.Metrics.refused.Add(1)
		if r.tubes.refuse(tube, time.Now()) {
			r.Warn(fmt.Sprintf("rows of tube %s wait: the server answered %s", tube, refusal))
		}
	}
	if last != "" && len(r.tubes) > maxRefused {
		return fmt.Errorf("it refuses the rows of more than %d tubes; the last reply is %s", maxRefused, last)
	}
	return nil
}

// remove deletes the rows that were put, and records why others have failed.
func (r *round) remove(ctx context.Context, tx *sql.Tx) error {
	var done []int64
	for _, w := range r.rows {
		switch w.outcome {
		case put:
			done = append(done, w.id)
		case failed:
			update := fmt.Sprintf("UPDATE %s SET error = %s WHERE id = %d", r.db.quoted(), r.db.dialect.parameter, w.id)
			if _, err := tx.ExecContext(ctx, update, w.why); err != nil {
				return fmt.Errorf("recording the error of row %d: %w", w.id, err)
			}
		}
	}
	for ids := range slices.Chunk(done, maxDeleted) {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(r.db.dialect.remove, r.db.quoted(), list(ids))); err != nil {
			return fmt.Errorf("deleting rows: %w", err)
		}
	}
	return nil
}

// count counts what the round has done.
func (r *round) count() {
	bad, first := 0, (*row)(nil)
	for _, w := range r.rows {
		switch w.outcome {
		case put:
			r.Metrics.put.Add(1)
		case failed:
			r.Metrics.failed.Add(1)
			if bad++; first == nil {
				first = w
			}
		}
	}
	if bad > 0 {
		r.Warn(fmt.Sprintf("%d of %d rows cannot be put: row %d: %s", bad, len(r.rows), first.id, first.why))
	}
}

// list returns ids separated by commas. They are part of the query: a placeholder for each would need
// another number of them each time.
func list(ids []int64) string {
	var out []byte
	for i, id := range ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, id, 10)
	}
	return string(out)
}

// wrap adds to an error what was being done. It returns nil for nil.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
