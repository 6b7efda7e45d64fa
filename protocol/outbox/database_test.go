package outbox

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// engine is a database that tests use.
type engine struct {
	name string
	url  string           // with %s for the name of the database, until it is made
	cmd  func() *exec.Cmd // starts its process; nil: there is none
	proc **child.Process  // its process now; nil: there is none
}

// atEnd is what is called when all tests have ended.
var atEnd []func()

// owner makes a new directory for a database that ends with cleanup, and returns it with the attributes of its processes: none of them
// starts as root.
func owner(t testing.TB, cleanup func(func())) (dir string, attr *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "outbox") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() != 0 {
		return dir, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// password is in the URLs, and must be in no output.
const password, urlPassword = "s3cret/word", "s3cret%2Fword"

// startPostgres starts a PostgreSQL with further arguments.
func startPostgres(t testing.TB, cleanup func(func()), args ...string) *engine {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("there is no PostgreSQL; `make deps` installs it")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, attr := owner(t, cleanup)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, attr, []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := child.FreePort()
	e := &engine{name: "postgres", proc: new(*child.Process), url: "postgres://postgres:" + urlPassword + "@127.0.0.1:" + port + "/NAME?sslmode=disable"}
	e.cmd = func() *exec.Cmd {
		return command("postgres", append([]string{"-D", data, "-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1"}, args...)...)
	}
	e.start(t, cleanup, e.named("postgres").url)
	return e
}

// startMariaDB starts a MariaDB.
func startMariaDB(t testing.TB, cleanup func(func())) *engine {
	t.Helper()
	if _, err := exec.LookPath("mariadb-install-db"); err != nil {
		t.Skip("there is no MariaDB; `make deps` installs it")
	}
	dir, attr := owner(t, cleanup)
	data := filepath.Join(dir, "data")
	install := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	install.Dir, install.SysProcAttr = dir, attr
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	port := child.FreePort()
	e := &engine{name: "mariadb", proc: new(*child.Process), url: "mysql://app:" + urlPassword + "@127.0.0.1:" + port + "/NAME"}
	e.cmd = func() *exec.Cmd {
		cmd := exec.Command("mariadbd", "--no-defaults", "--datadir="+data, "--port="+port, "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "s"),
			"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M")
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	root := "mysql://root@127.0.0.1:" + port + "/?multiStatements=true"
	e.start(t, cleanup, root, "CREATE USER app@'127.0.0.1' IDENTIFIED BY '"+password+"'; GRANT ALL ON *.* TO app@'127.0.0.1'")
	return e
}

// newSQLite makes a file.
func newSQLite(t testing.TB) *engine {
	path := filepath.Join(t.TempDir(), "app.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return &engine{name: "sqlite", url: "sqlite:" + path}
}

// start starts the process, waits until it answers at a URL, and carries out SQL there. It ends with cleanup.
func (e *engine) start(t testing.TB, cleanup func(func()), url string, setup ...string) {
	t.Helper()
	e.run(t)
	cleanup(e.stop)
	db, err := Open(url, DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waitFor(t, "the database", func() bool { return db.pool.Ping() == nil })
	for _, statement := range setup {
		if _, err := db.pool.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

// named returns the engine with a database, which may not exist.
func (e *engine) named(name string) *engine {
	with := *e
	with.url = strings.Replace(e.url, "/NAME", "/"+name, 1)
	return &with
}

// databases counts the databases that tests have made.
var databases atomic.Int64

// newDatabase makes a database.
func (e *engine) newDatabase(t testing.TB) *engine {
	t.Helper()
	name := fmt.Sprint("test", databases.Add(1))
	first := map[string]string{"postgres": "postgres", "mariadb": ""}[e.name]
	if _, err := e.named(first).open(t).Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return e.named(name)
}

// run starts the process. After a SIGKILL what is left of the old one can be in the way for a moment.
func (e *engine) run(t testing.TB) {
	t.Helper()
	proc, err := child.Start(e.cmd())
	if err != nil {
		t.Fatal(err)
	}
	*e.proc = proc
}

// stop ends the process with a fast shutdown.
func (e *engine) stop() {
	signal := syscall.SIGTERM
	if e.name == "postgres" {
		signal = syscall.SIGINT
	}
	(*e.proc).Cmd.Process.Signal(signal)
	select {
	case <-(*e.proc).Ended:
	case <-time.After(20 * time.Second):
		(*e.proc).Kill()
	}
}

// restart kills the process, and starts it again until it answers.
func (e *engine) restart(t testing.TB) {
	t.Helper()
	(*e.proc).Kill()
	e.run(t)
	waitFor(t, "the database after a kill", func() bool {
		select {
		case <-(*e.proc).Ended:
			e.run(t)
		default:
		}
		pool := e.open(t)
		return pool.Ping() == nil
	})
}

// open returns a pool that is closed with the test.
func (e *engine) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := Open(e.url, DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db.pool
}

// withTable makes an empty table, and returns a pool.
func (e *engine) withTable(t testing.TB) *sql.DB {
	t.Helper()
	db, err := Open(e.url, DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Create(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.pool.Exec("DELETE FROM " + DefaultTable); err != nil {
		t.Fatal(err)
	}
	return db.pool
}

// insertSQL returns an INSERT with values for tube, body, delay and tags.
func (e *engine) insertSQL() string {
	if e.name == "postgres" {
		return "INSERT INTO redstalk_outbox (tube, bytes, delay, tags) VALUES ($1, $2, $3, $4)"
	}
	return "INSERT INTO redstalk_outbox (tube, body, delay, tags) VALUES (?, ?, ?, ?)"
}

// execer is a database or a transaction.
type execer interface {
	Exec(query string, args ...any) (sql.Result, error)
}

// insert inserts a row.
func (e *engine) insert(t testing.TB, into execer, tube, body, tags string) {
	t.Helper()
	if _, err := into.Exec(e.insertSQL(), tube, []byte(body), 0, tags); err != nil {
		t.Fatal(err)
	}
}

// rows returns how many rows are in the table with a condition.
func rows(t testing.TB, pool *sql.DB, condition string) (n int) {
	t.Helper()
	if err := pool.QueryRow(fmt.Sprintf("SELECT count(*) FROM %s WHERE %s", DefaultTable, condition)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// patience is how long tests wait for what comes.
const patience = time.Minute

// waitFor waits until a condition holds.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// Starts of databases for one test alone, which can kill them.
func ownPostgres(t testing.TB) *engine { return startPostgres(t, t.Cleanup, noSync...).newDatabase(t) }
func ownMariaDB(t testing.TB) *engine  { return startMariaDB(t, t.Cleanup).newDatabase(t) }

// noSync makes PostgreSQL survive a SIGKILL, but no power cut.
var noSync = []string{"-c", "fsync=off"}

// own are the kinds of databases, for one test alone.
var own = map[string]func(testing.TB) *engine{"postgres": ownPostgres, "mariadb": ownMariaDB, "sqlite": newSQLite}

// shared has the processes that tests share.
var shared struct {
	sync.Mutex
	postgres, mariadb *engine
}

// newPostgres makes a database in the shared PostgreSQL.
func newPostgres(t testing.TB) *engine {
	return newShared(t, &shared.postgres, func(cleanup func(func())) *engine { return startPostgres(t, cleanup, noSync...) })
}

// newMariaDB makes a database in the shared MariaDB.
func newMariaDB(t testing.TB) *engine {
	return newShared(t, &shared.mariadb, func(cleanup func(func())) *engine { return startMariaDB(t, cleanup) })
}

func newShared(t testing.TB, e **engine, start func(cleanup func(func())) *engine) *engine {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if *e == nil {
		*e = start(func(f func()) { atEnd = append(atEnd, f) })
	}
	return (*e).newDatabase(t)
}

// engines are the kinds of databases.
var engines = map[string]func(testing.TB) *engine{"postgres": newPostgres, "mariadb": newMariaDB, "sqlite": newSQLite}

// onEach runs a test with a new database of each kind.
func onEach(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Helper()
	for name, start := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}
