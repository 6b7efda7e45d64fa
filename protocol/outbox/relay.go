package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// Limits of time.
const (
	connectLimit = 10 * time.Second // to connect to the database
	roundLimit   = time.Minute      // for one round; the connection to the server has limits of its own
	stopLimit    = 10 * time.Second // for the round in progress when the relay is stopped
)

// pauses are the delays between attempts while the database or the server is away.
var pauses = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}

// Relay moves the rows of a table to a server. Several relays, in any number of processes, can work on one table.
type Relay struct {
	Dial   func() (*client.Conn, error) // connects to the server
	Server string                       // its address, for messages
	Poll   time.Duration                // how often the table is looked at without a notification; 0: see DefaultPoll
	KeyTTL time.Duration                // how long the server remembers the key of a row after its job has ended; whole seconds

	Info, Warn func(text string) // messages, from several goroutines; none has a secret
	Metrics    Metrics

	db         *Database
	limit      time.Duration // for one round
	tubes      tubes
	putter     *putter
	wake       chan struct{} // has room for one
	warned     bool          // that the server has no keys
	database   outage
	server     outage
	refusing   bool   // the outage of the server has begun with a put, and only a put can end it
	unnotified outage // there are no notifications
}

// New makes a relay for a database.
func New(db *Database) *Relay {
	r := &Relay{db: db, KeyTTL: 24 * time.Hour, limit: roundLimit, tubes: make(tubes), wake: make(chan struct{}, 1)}
	r.Info, r.Warn = func(string) {}, func(string) {}
	r.Metrics.db = db
	return r
}

// DefaultPoll returns how often the table is looked at unless Poll says otherwise: seldom if the database reports
// commits.
func (r *Relay) DefaultPoll() time.Duration {
	if r.db.dialect.listen != nil {
		return 5 * time.Second
	}
	return time.Second
}

// Run moves rows until ctx is done. Then it ends the round in progress. It returns no error: whatever is away
// is tried again.
func (r *Relay) Run(ctx context.Context) {
	if r.Poll == 0 {
		r.Poll = r.DefaultPoll()
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopLimit):
			stop()
		case <-work.Done():
		}
	})()
	var listening sync.WaitGroup
	defer listening.Wait()
	if listen := r.db.dialect.listen; listen != nil {
		if l, err := listen(r.db.url, r.db.Table); err == nil { // Open has parsed the same URL
			listening.Go(func() { r.listen(ctx, l) })
		}
	}
	for fails := 0; ctx.Err() == nil; {
		more, err := r.step(work)
		if err != nil {
			sleep(ctx, pauses[min(fails, len(pauses)-1)], nil)
			fails++
			continue
		}
		fails = 0
		if !more {
			sleep(ctx, r.untilNext(time.Now()), r.wake)
		}
	}
	if r.putter != nil {
		r.putter.conn.Close()
	}
}

// step makes a round, and reports whether there can be more rows. An error has been reported.
func (r *Relay) step(ctx context.Context) (more bool, err error) {
	if r.putter == nil {
		if err := r.connect(); err != nil {
			r.serverFailed(err, false)
			return false, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, r.limit)
	defer stop()
	one := &round{Relay: r, server: r.putter, end: time.Now().Round(0).Add(r.limit)}
	databaseErr, serverErr := one.run(ctx)
	r.Metrics.databaseAway.Store(databaseErr != nil)
	r.Metrics.serverAway.Store(serverErr != nil)
	if databaseErr != nil {
		r.Metrics.databaseErrors.Add(1)
		err = r.db.redact(databaseErr)
		r.database.begin(r, "the database", err)
		r.db.reconnect()
	} else {
		r.database.end(r)
	}
	if serverErr != nil {
		r.putter.conn.Close()
		r.putter, err = nil, serverErr
		r.serverFailed(serverErr, true)
	} else if len(one.rows) > 0 || !r.refusing {
		r.server.end(r)
	}
	return one.more, err
}

// serverFailed reports an error of the server. refusing says that it came with a put.
func (r *Relay) serverFailed(err error, refusing bool) {
	r.refusing = refusing
	r.Metrics.serverErrors.Add(1)
	r.Metrics.serverAway.Store(true)
	r.server.begin(r, "the server at "+r.Server, err)
}

// connect connects to the server.
func (r *Relay) connect() error {
	conn, err := r.Dial()
	if err != nil {
		return err
	}
	if r.putter, err = newPutter(conn); err != nil {
		conn.Close()
		return err
	}
	if !r.putter.keys && !r.warned {
		r.Warn("the server at " + r.Server + " does not know keys: a row can be put twice, if the relay, the server or the database dies between a put and the commit")
		r.warned = true
	}
	return nil
}

// listen keeps a connection for notifications. While there is none, the relay polls.
func (r *Relay) listen(ctx context.Context, l *listener) {
	for fails := 0; ctx.Err() == nil; fails++ {
		err := l.run(ctx, func() {
			fails = 0
			r.unnotified.end(r)
			r.poke()
		})
		if ctx.Err() != nil {
			return
		}
		r.unnotified.begin(r, fmt.Sprintf("notifications of the database (it is asked each %s meanwhile)", r.Poll), r.db.redact(err))
		sleep(ctx, pauses[min(fails, len(pauses)-1)], nil)
	}
}

// poke makes the relay look at the table now, or after the round in progress.
func (r *Relay) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// untilNext returns how long the relay waits for a notification.
func (r *Relay) untilNext(now time.Time) time.Duration {
	if _, next := r.tubes.paused(now); !next.IsZero() {
		return max(min(r.Poll, next.Sub(now)), 0)
	}
	return r.Poll
}

// sleep waits for some time, until ctx is done, or until wake can be received from.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// outage is a time in which something is away. It is reported when it begins and when it ends.
type outage struct {
	what string // "": there is none
}

func (o *outage) begin(r *Relay, what string, err error) {
	if o.what == "" {
		r.Warn(fmt.Sprintf("%s: %s; trying again", what, strings.Join(strings.Fields(err.Error()), " "))) // errors of PostgreSQL have several lines
	}
	o.what = what
}

func (o *outage) end(r *Relay) {
	if o.what != "" {
		r.Info(o.what + ": works again")
	}
	o.what = ""
}
