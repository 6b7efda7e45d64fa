package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
)

// programs is the directory with redstalk and redstalkd.
var programs string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "outbox")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	for _, name := range []string{"redstalk", "redstalkd"} {
		if err := compile.Program(filepath.Join(dir, name), "redstalk/cmd/"+name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	for _, end := range slices.Backward(atEnd) {
		end()
	}
	return code
}

// redstalkd starts a server that keeps jobs in memory, and returns its address.
func redstalkd(t testing.TB, args ...string) string {
	t.Helper()
	_, addr := child.Serve(t, exec.Command(filepath.Join(programs, "redstalkd"), append([]string{"--store", "memory:"}, args...)...))
	return addr
}

func dial(t testing.TB, addr string) *client.Conn {
	t.Helper()
	c, err := client.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = patience
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a command, and returns the first line of the reply.
func ask(t testing.TB, c *client.Conn, command string) (line string) {
	t.Helper()
	err := c.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error { line = string(r.Line); return nil })
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return line
}

// bodies takes all ready jobs of a tube in order, and returns their bodies.
func bodies(t testing.TB, c *client.Conn, tube string) (all []string) {
	t.Helper()
	if err := c.Ask(fmt.Appendf(nil, "watch %s\r\n", tube), 1, client.Expect(client.Watching)); err != nil {
		t.Fatal(err)
	}
	for {
		var id uint64
		err := c.Ask([]byte("reserve-with-timeout 0\r\n"), 1, func(r *client.Reply) error {
			if r.Word == client.Reserved {
				id, all = r.ID, append(all, string(r.Body))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if id == 0 {
			break
		}
		ask(t, c, fmt.Sprintf("delete %d", id))
	}
	ask(t, c, "ignore "+tube)
	return all
}

// notes are the messages of a relay.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, text)
}

func (n *notes) count(part string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.all {
		if strings.Contains(text, part) {
			count++
		}
	}
	return count
}

// relay is a relay in this process.
type relay struct {
	*Relay
	*notes
	stop func() // and waits for its end
}

// startRelay starts a relay that ends with the test. change can change it before.
func startRelay(t testing.TB, e *engine, addr string, change func(*Relay)) *relay {
	t.Helper()
	db, err := Open(e.url, DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Relay: New(db), notes: &notes{}}
	r.Server, r.Info, r.Warn = addr, r.add, r.add
	r.Poll = 20 * time.Millisecond
	r.Dial = func() (*client.Conn, error) {
		c, err := client.Dial(addr, patience)
		if err == nil {
			c.Timeout = patience
		}
		return c, err
	}
	if change != nil {
		change(r.Relay)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		r.Run(ctx)
		db.Close()
		close(ended)
	}()
	r.stop = func() { cancel(); <-ended }
	t.Cleanup(r.stop)
	return r
}

// badTubes and badTags are tubes and tags of rows that cannot be put, with a part of their error.
var (
	badTubes = map[string]string{
		"no tube":  "is not the name of a tube",
		"quit\r\n": "is not the name of a tube",
	}
	badTags = map[string]string{
		"key:mine":             "the tag key occurs twice: the relay sets it",
		"key-ttl:1":            "the tag key-ttl occurs twice: the relay sets it",
		"on-duplicate:replace": "the tag on-duplicate occurs twice: the relay sets it",
		"max:0":                "the tag max needs",
		"nonsense":             "something other than its tags",
		"max:1\r\ndelete 1":    "control character",
		`meta:a="` + strings.Repeat("x", 3990) + `"`: "longer than",
	}
)

// insertRows inserts rows that can be put, with and without tags and a delay, and some that cannot. It returns the bodies
// of the tube mails.
func insertRows(t *testing.T, e *engine, tx execer) (mails []string) {
	t.Helper()
	for i := range 2500 {
		mails = append(mails, fmt.Sprint("mail ", i, "\r\n\x00\xff"))
		e.insert(t, tx, "mails", mails[i], "")
	}
	for tube := range badTubes {
		e.insert(t, tx, tube, "bad", "")
	}
	for tags := range badTags {
		e.insert(t, tx, "mails", "bad", tags)
	}
	e.insert(t, tx, "mails", strings.Repeat("x", 100_001), "")
	e.insert(t, tx, "reports", "with tags", ` group:g1  meta:a="x key:y" `)
	if _, err := tx.Exec(e.insertSQL(), "later", []byte("delayed"), 3600, ""); err != nil {
		t.Fatal(err)
	}
	return mails
}

// TestRows: committed rows become jobs with their properties, in order; rows that are rolled back do not; and rows
// that cannot be put get an error.
func TestRows(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		pool, addr := e.withTable(t), redstalkd(t, "-z", "100000")
		transaction(t, pool, false, func(tx execer) { e.insert(t, tx, "mails", "rolled back", "") })
		var mails []string
		transaction(t, pool, true, func(tx execer) { mails = insertRows(t, e, tx) })
		r := startRelay(t, e, addr, nil)
		waitFor(t, "the rows", func() bool { return rows(t, pool, "error IS NULL") == 0 })
		c := dial(t, addr)
		if got := bodies(t, c, "mails"); !slices.Equal(got, mails) {
			t.Errorf("%d jobs, not %d in order: %.200q", len(got), len(mails), got)
		}
		id := 0
		ask(t, c, "use reports")
		fmt.Sscanf(ask(t, c, "peek-ready"), "FOUND %d", &id)
		page, err := c.Page(fmt.Sprintf("stats-job %d", id))
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"group": "g1", "pri": "1024", "ttr": "60"} {
			if got, _ := page.Value(key); strings.Trim(got, `"`) != want {
				t.Errorf("%s is %q, not %q", key, got, want)
			}
		}
		if page, _ := c.Page("stats-tube later"); !strings.Contains(string(page), "current-jobs-delayed: 1\n") {
			t.Error("the row with a delay is not a delayed job")
		}
		checkErrors(t, e)
		if put, failed := r.Metrics.Put(), r.Metrics.Failed(); put != 2502 || failed != 10 {
			t.Errorf("%d put and %d failed, not 2502 and 10", put, failed)
		}
	})
}

// transaction makes a transaction, and commits it or rolls it back.
func transaction(t *testing.T, pool *sql.DB, commit bool, do func(tx execer)) {
	t.Helper()
	tx, err := pool.Begin()
	if err != nil {
		t.Fatal(err)
	}
	do(tx)
	end := tx.Rollback
	if commit {
		end = tx.Commit
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// TestManyTubes: rows of more tubes than a round puts into are put all the same, and large bodies that do not fit into one.
func TestManyTubes(t *testing.T) {
	e := newSQLite(t)
	pool, addr := e.withTable(t), redstalkd(t, "-z", "10000000")
	transaction(t, pool, true, func(tx execer) {
		for i := range 3 * maxTubes {
			e.insert(t, tx, fmt.Sprint("tube", i/2), "x", "")
		}
		for range 3 {
			e.insert(t, tx, "large", strings.Repeat("x", batchBytes/2+1), "")
		}
	})
	r := startRelay(t, e, addr, func(r *Relay) { r.Poll = time.Hour })
	waitFor(t, "the rows", func() bool { return r.Metrics.Put() == 3*maxTubes+3 })
	if n := len(bodies(t, dial(t, addr), "large")); n != 3 {
		t.Errorf("%d large jobs, not 3", n)
	}
}

// checkErrors checks the column error of the rows of insertRows that cannot be put.
func checkErrors(t *testing.T, e *engine) {
	t.Helper()
	found, err := e.open(t).Query("SELECT tube, tags, error FROM redstalk_outbox WHERE error IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var tube, tags, why string
		if err := found.Scan(&tube, &tags, &why); err != nil {
			t.Fatal(err)
		}
		want := badTubes[tube] + badTags[tags]
		if want == "" {
			want = "JOB_TOO_BIG"
		}
		if !strings.Contains(why, want) {
			t.Errorf("tube %q, tags %.40q: the error is %q, without %q", tube, tags, why, want)
		}
	}
	if err := found.Err(); err != nil {
		t.Error(err)
	}
}

// TestSeveralRelays: they share the rows: without keys, each is put once all the same.
func TestSeveralRelays(t *testing.T) {
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engines[name](t)
			pool := e.withTable(t)
			_, addr := child.Beanstalkd(t)
			want := insertMany(t, e, 5000)
			var relays []*relay
			for range 4 {
				relays = append(relays, startRelay(t, e, addr, nil))
			}
			waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 0 })
			got := bodies(t, dial(t, addr), "mails")
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%d jobs, not %d", len(got), len(want))
			}
			if relays[0].count("can be put twice") != 1 {
				t.Errorf("it does not say that rows can be put twice: %q", relays[0].all)
			}
			e.insert(t, pool, "mails", "x", "max:3")
			waitFor(t, "an error", func() bool { return rows(t, pool, "error LIKE '%does not know%'") == 1 })
		})
	}
}

// TestUncommitted: rows of a transaction that is open for long do not hold up those after them, few or many. What is
// rolled back to a savepoint is not put.
func TestUncommitted(t *testing.T) {
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engines[name](t)
			pool, addr := e.withTable(t), redstalkd(t)
			open, err := e.open(t).Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer open.Rollback()
			e.insert(t, open, "late", "kept", "")
			for _, statement := range []string{"SAVEPOINT s", "INSERT INTO redstalk_outbox (tube, body) VALUES ('late', 'undone')", "ROLLBACK TO SAVEPOINT s"} {
				if _, err := open.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			r := startRelay(t, e, addr, nil)
			want := uint64(0)
			for _, n := range []int{1, 2, 3 * batch / 2} {
				insertMany(t, e, n)
				want += uint64(n)
				waitFor(t, fmt.Sprint(n, " rows"), func() bool { return r.Metrics.Put() == want })
			}
			if err := open.Commit(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the late row", func() bool { return rows(t, pool, "true") == 0 })
			if got := bodies(t, dial(t, addr), "late"); !slices.Equal(got, []string{"kept"}) || r.count("database") != 0 {
				t.Errorf("%q; messages: %q", got, r.all)
			}
		})
	}
}

// TestSilent: the rows that a relay has locked go to another one if the first stands still.
func TestSilent(t *testing.T) {
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engines[name](t)
			pool, addr := e.withTable(t), redstalkd(t)
			want := insertMany(t, e, 3)
			still, err := Open(e.url, DefaultTable)
			if err != nil {
				t.Fatal(err)
			}
			defer still.Close()
			still.silence = time.Second
			tx, err := still.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			putter, err := newPutter(dial(t, addr))
			if err != nil {
				t.Fatal(err)
			}
			frozen := &round{Relay: New(still), server: putter, end: time.Now().Round(0)}
			if err := frozen.read(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			startRelay(t, e, addr, nil)
			waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 0 })
			c := dial(t, addr)
			if got := bodies(t, c, "mails"); !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
			frozen.server.keys = false // as if the server had forgotten the keys
			if err := frozen.put(); err != nil {
				t.Error(err)
			}
			if got := bodies(t, c, "mails"); len(got) > 0 || frozen.remove(t.Context(), tx) != nil {
				t.Errorf("%q are put again", got)
			}
		})
	}
}

// TestReplaced: after an error the relay connects to the database anew, which another server can have replaced; and the file of SQLite can be
// replaced at any time.
func TestReplaced(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		e, other := newSQLite(t), newSQLite(t)
		e.withTable(t)
		r := startRelay(t, e, redstalkd(t), nil)
		e.insert(t, e.open(t), "mails", "one", "")
		waitFor(t, "a row", func() bool { return r.Metrics.Put() == 1 })
		other.insert(t, other.withTable(t), "mails", "two", "")
		if err := os.Rename(strings.TrimPrefix(other.url, "sqlite:"), strings.TrimPrefix(e.url, "sqlite:")); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the row of the new file", func() bool { return r.Metrics.Put() == 2 })
	})
	for name, readOnly := range map[string]string{"postgres": "default_transaction_read_only", "mariadb": "tx_read_only"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engines[name](t)
			pool := e.withTable(t)
			r := startRelay(t, e, redstalkd(t), func(r *Relay) { r.db.pool.SetMaxOpenConns(1) })
			e.insert(t, pool, "mails", "one", "")
			waitFor(t, "a row", func() bool { return r.Metrics.Put() == 1 })
			if _, err := r.db.pool.Exec("SET SESSION " + readOnly + " = 1"); err != nil { // as after a failover
				t.Fatal(err)
			}
			e.insert(t, pool, "mails", "two", "")
			waitFor(t, "another row", func() bool { return r.Metrics.Put() == 2 })
			if r.count("the database") == 0 {
				t.Error("the connection was not read-only")
			}
		})
	}
}

// TestStopped: a relay that is stopped ends the round in progress, so that also without keys nothing is put twice.
func TestStopped(t *testing.T) {
	e := newPostgres(t)
	pool := e.withTable(t)
	_, addr := child.Beanstalkd(t)
	want := insertMany(t, e, 10*batch)
	for range 20 {
		sent := make(chan struct{}, 100)
		r := startRelay(t, e, addr, func(r *Relay) {
			plain := r.Dial
			r.Dial = func() (*client.Conn, error) {
				c, err := plain()
				if err == nil {
					c.Conn = &brokenConn{Conn: c.Conn, once: new(atomic.Bool), after: func() { sent <- struct{}{} }}
				}
				return c, err
			}
		})
		select {
		case <-sent: // puts are sent, and their rows are not deleted yet
		case <-time.After(100 * time.Millisecond): // all rows are put
		}
		r.stop()
	}
	startRelay(t, e, addr, nil)
	waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 0 })
	got := bodies(t, dial(t, addr), "mails")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs, not %d", len(got), len(want))
	}
}

// insertMany inserts n rows, and returns their bodies, sorted.
func insertMany(t testing.TB, e *engine, n int) (all []string) {
	t.Helper()
	tx, err := e.open(t).Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		all = append(all, fmt.Sprint("mail ", i))
		e.insert(t, tx, "mails", all[i], "")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// TestRefused: a tube that takes no jobs does not hold up others, also if their names differ only in case, and its rows come later. So
// it is with a server that takes none at all.
func TestRefused(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		pool, addr := e.withTable(t), redstalkd(t)
		c := dial(t, addr)
		if got := ask(t, c, "set-policy full quota-jobs:1"); got != "SET" {
			t.Fatal(got)
		}
		for range batch + 10 { // more than a round takes
			e.insert(t, pool, "full", "x", "")
		}
		e.insert(t, pool, "mails", "first", "")
		e.insert(t, pool, "FULL", "another tube", "")
		r := startRelay(t, e, addr, nil)
		waitFor(t, "the other tubes", func() bool { return r.Metrics.Put() == 3 })
		if n := rows(t, pool, "error IS NULL"); n != batch+9 {
			t.Errorf("%d rows of the full tube wait, not %d", n, batch+9)
		}
		if n := r.count("rows of tube full wait: the server answered OUT_OF_MEMORY"); n != 1 {
			t.Errorf("the refusal is reported %d times, not once", n)
		}
		ask(t, c, "drain")
		e.insert(t, pool, "mails", "second", "")
		waitFor(t, "a report", func() bool { return r.count("answered a put with DRAINING") == 1 })
		ask(t, c, "set-policy full")
		ask(t, c, "undrain")
		waitFor(t, "all rows", func() bool { return rows(t, pool, "true") == 0 })
		if r.count("works again") != 1 || r.count("DRAINING") != 1 {
			t.Errorf("not reported once: %q", r.all)
		}
		if n := len(bodies(t, c, "full")); n != batch+10 {
			t.Errorf("%d jobs, not %d", n, batch+10)
		}
	})
}

// usersFile has a user of a relay, which can put into one tube only.
const usersFile = `
users:
  - name: relay
    secrets: ["$2a$10$1HuPky.hFUfwS7K0RXrhkevF76DhmBNxpzas3sCxgrWm8yEYTNF1C"]
    rights:
      - tubes: ["open"]
        may: [put]
  - name: root
    secrets: ["$2a$10$1HuPky.hFUfwS7K0RXrhkevF76DhmBNxpzas3sCxgrWm8yEYTNF1C"]
    rights:
      - tubes: ["*"]
        may: [put, work, read, admin]
`

// withUsers starts a server with the users of usersFile, and returns its address.
func withUsers(t *testing.T) string {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users.yml")
	if err := os.WriteFile(users, []byte(usersFile), 0o600); err != nil {
		t.Fatal(err)
	}
	return redstalkd(t, "--access", users)
}

// login makes a user that of a connection.
func login(t *testing.T, c *client.Conn, user string) {
	if got := ask(t, c, "auth "+user+" open-sesame"); got != "AUTHENTICATED" {
		t.Error(got)
	}
}

// as makes a relay log in.
func as(t *testing.T, user string) func(*Relay) {
	return func(r *Relay) {
		plain := r.Dial
		r.Dial = func() (*client.Conn, error) {
			c, err := plain()
			if err == nil {
				login(t, c, user)
			}
			return c, err
		}
	}
}

// TestForbidden: a tube for which the user has no right does not get its jobs into another tube.
func TestForbidden(t *testing.T) {
	e := newSQLite(t)
	pool, addr := e.withTable(t), withUsers(t)
	e.insert(t, pool, "open", "one", "")
	e.insert(t, pool, "closed", "two", "")
	e.insert(t, pool, "open", "three", "")
	r := startRelay(t, e, addr, as(t, "relay"))
	waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 1 && r.count("FORBIDDEN") == 1 })
	c := dial(t, addr)
	login(t, c, "root")
	if got := bodies(t, c, "open"); !slices.Equal(got, []string{"one", "three"}) {
		t.Errorf("%q", got)
	}
}

// TestManyForbidden: rows of a tube are put also after those of more refused tubes than are left out of a round.
func TestManyForbidden(t *testing.T) {
	e := newSQLite(t)
	pool, addr := e.withTable(t), withUsers(t)
	for i := range maxTubes + maxRefused {
		e.insert(t, pool, fmt.Sprint("closed", i), "x", "")
	}
	e.insert(t, pool, "open", "one", "")
	startRelay(t, e, addr, as(t, "relay"))
	waitFor(t, "the row", func() bool { return rows(t, pool, "tube = 'open'") == 0 })
}

// slowConn is a connection to a server that is far away.
type slowConn struct{ net.Conn }

func (c slowConn) Write(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return c.Conn.Write(p)
}

// TestSlowServer: rows of many tubes are put also if a round cannot put them all in its time.
func TestSlowServer(t *testing.T) {
	e := newSQLite(t)
	pool, addr := e.withTable(t), redstalkd(t)
	for i := range maxTubes {
		e.insert(t, pool, fmt.Sprint("tube", i), "x", "")
	}
	r := startRelay(t, e, addr, func(r *Relay) {
		r.limit = 2 * time.Second
		plain := r.Dial
		r.Dial = func() (*client.Conn, error) {
			c, err := plain()
			if err == nil {
				c.Conn = slowConn{c.Conn}
			}
			return c, err
		}
	})
	waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 0 })
	if n := r.count("database"); n != 0 {
		t.Errorf("messages: %q", r.all)
	}
}

// TestPostgresBodies: text stays as it is, by redstalk_put and in the table, as do bytes.
func TestPostgresBodies(t *testing.T) {
	e := newPostgres(t)
	pool, addr := e.withTable(t), redstalkd(t)
	const text = `{"job":"App\\Mail","quote":"\"","é":"\u00e9"}`
	for _, insert := range []string{
		"SELECT redstalk_put('mails', '" + text + "')",
		"SELECT redstalk_put('mails', '" + text + "'::text, 7, 0, 120, 'max:3')",
		"INSERT INTO redstalk_outbox (tube, body) VALUES ('mails', '" + text + "')",
		"SELECT redstalk_put('mails', convert_to('" + text + "', 'UTF8'), tags => 'group:a')",
		`SELECT redstalk_put('mails', '\x00ff'::bytea)`,
	} {
		if _, err := pool.Exec(insert); err != nil {
			t.Fatalf("%s: %v", insert, err)
		}
	}
	if _, err := pool.Exec("INSERT INTO redstalk_outbox (tube) VALUES ('mails')"); err == nil {
		t.Error("a row without a body is accepted")
	}
	startRelay(t, e, addr, nil)
	waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 0 })
	got := bodies(t, dial(t, addr), "mails")
	slices.Sort(got)
	if want := []string{"\x00\xff", text, text, text, text}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestTwoTables: the function of a table inserts into that table, also if another one is made later.
func TestTwoTables(t *testing.T) {
	e := newPostgres(t)
	pool := e.withTable(t)
	other, err := Open(e.url, "other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Create(); err != nil {
		t.Fatal(err)
	}
	for _, function := range []string{"redstalk_put", "other_put", "redstalk_put"} {
		if _, err := pool.Exec("SELECT " + function + "('mails', 'hello')"); err != nil {
			t.Fatal(err)
		}
	}
	if n := rows(t, pool, "true"); n != 2 {
		t.Errorf("%d rows, not 2", n)
	}
}

// TestNotified: PostgreSQL reports a commit, also after its connection was lost.
func TestNotified(t *testing.T) {
	e := newPostgres(t)
	pool, addr := e.withTable(t), redstalkd(t)
	r := startRelay(t, e, addr, func(r *Relay) { r.Poll = time.Hour })
	put := func(n uint64) {
		t.Helper()
		var id int64
		if err := pool.QueryRow("SELECT redstalk_put('mails', 'hello', tags => 'max:3')").Scan(&id); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the row", func() bool { return r.Metrics.Put() == n })
	}
	put(1)
	put(2)
	if _, err := pool.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a report", func() bool { return r.count("notifications of the database") == 1 })
	put(3)
	waitFor(t, "the end of it", func() bool { return r.count("works again") == 1 })
	put(4)
}

// TestAway: a relay starts while database and server are away, says so once, and goes on when they come.
func TestAway(t *testing.T) {
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := own[name](t)
			pool := e.withTable(t)
			insertMany(t, e, 10)
			e.stop()
			port := child.FreePort()
			stderr := child.NewOutput()
			p := startProgram(t, e, "127.0.0.1:"+port, stderr, "--http", "127.0.0.1:0")
			waitFor(t, "the report of the server", func() bool { return strings.Count(stderr.String(), "the server at") == 1 })
			server, err := child.Start(exec.Command(filepath.Join(programs, "redstalkd"), "--store", "memory:", "-p", port, "-l", "127.0.0.1"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Kill)
			waitFor(t, "the report of the database", func() bool { return strings.Contains(stderr.String(), "the database: ") })
			e.run(t)
			pool = e.open(t) // which has no old connection
			waitFor(t, "the database", func() bool { return pool.Ping() == nil })
			waitFor(t, "the rows", func() bool { return rows(t, pool, "true") == 0 })
			waitFor(t, "the end of it", func() bool { return strings.Contains(stderr.String(), "the database: works again") })
			p.Stop(patience)
			out := stderr.String()
			if code := p.Cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(out, "stopped; 10 rows put, 0 failed") {
				t.Errorf("exit code %d\n%s", code, out)
			}
			if n := strings.Count(out, "the database: "); n != 2 || strings.Contains(out, "s3cret") {
				t.Errorf("the database is mentioned %d times, not twice, or the password is:\n%s", n, out)
			}
		})
	}
}

// startProgram starts redstalk outbox.
func startProgram(t testing.TB, e *engine, addr string, stderr *child.Output, args ...string) *child.Process {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "redstalk"), append([]string{"--server", addr, "outbox", "--poll", "50ms"}, args...)...)
	cmd.Env, cmd.Stderr = []string{"REDSTALK_DATABASE=" + e.url}, stderr
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// TestMetrics: the page has what the table has, and what was done.
func TestMetrics(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		pool, addr := e.withTable(t), redstalkd(t)
		e.insert(t, pool, "mails", "x", "")
		e.insert(t, pool, "bad name", "x", "")
		r := startRelay(t, e, addr, nil)
		waitFor(t, "the rows", func() bool { return r.Metrics.Put() == 1 && r.Metrics.Failed() == 1 })
		r.stop()
		e.insert(t, pool, "mails", "y", "")
		db, err := Open(e.url, DefaultTable)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		r.Metrics.db = db
		page := httptest.NewRecorder()
		r.Metrics.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{"put_total 1\n", "failed_total 1\n", `connected{to="database"} 1`, `connected{to="server"} 1`, "waiting_rows 1\n", "failed_rows 1\n"} {
			if !strings.Contains(page.Body.String(), "\nredstalk_outbox_"+want) {
				t.Errorf("the page has no %q:\n%s", want, page.Body)
			}
		}
		_, age, _ := strings.Cut(page.Body.String(), "\nredstalk_outbox_oldest_seconds ")
		if seconds, err := strconv.ParseFloat(strings.TrimSpace(age), 64); err != nil || seconds < 0 || seconds > 600 {
			t.Errorf("the age is %q", age)
		}
	})
}
