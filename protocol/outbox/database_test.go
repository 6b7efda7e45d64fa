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
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// engine is a database that tests use: a process of its own, except for SQLite.
type engine struct {
	name string
	url  string
	dir  string
	cmd  func() *exec.Cmd // starts it; nil: there is no process
	proc *child.Process
}

// owner makes a new directory for a database, and returns it with the attributes of its processes: none of them
// starts as root.
func owner(t testing.TB) (dir string, attr *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "outbox") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
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
const password = "s3cret/word"

// newPostgres starts a PostgreSQL that survives a SIGKILL, but no power cut.
func newPostgres(t testing.TB) *engine { return startPostgres(t, "-c", "fsync=off") }

// startPostgres starts a PostgreSQL with further arguments.
func startPostgres(t testing.TB, args ...string) *engine {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("there is no PostgreSQL; `make deps` installs it")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, attr := owner(t)
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
	e := &engine{name: "postgres", dir: dir, url: "postgres://postgres:" + strings.ReplaceAll(password, "/", "%2F") + "@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	e.cmd = func() *exec.Cmd {
		return command("postgres", append([]string{"-D", data, "-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1"}, args...)...)
	}
	e.start(t)
	return e
}

// newMariaDB starts a MariaDB.
func newMariaDB(t testing.TB) *engine {
	t.Helper()
	if _, err := exec.LookPath("mariadb-install-db"); err != nil {
		t.Skip("there is no MariaDB; `make deps` installs it")
	}
	dir, attr := owner(t)
	data := filepath.Join(dir, "data")
	install := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	install.Dir, install.SysProcAttr = dir, attr
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	port := child.FreePort()
	e := &engine{name: "mariadb", dir: dir, url: "mysql://app:" + strings.ReplaceAll(password, "/", "%2F") + "@127.0.0.1:" + port + "/app"}
	e.cmd = func() *exec.Cmd {
		cmd := exec.Command("mariadbd", "--no-defaults", "--datadir="+data, "--port="+port, "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "s"),
			"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M")
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	e.start(t, "mysql://root@127.0.0.1:"+port+"/?multiStatements=true", "CREATE DATABASE app; CREATE USER app@'127.0.0.1' IDENTIFIED BY '"+password+"'; GRANT ALL ON app.* TO app@'127.0.0.1'")
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

// start starts the database, and carries out SQL at another URL, if there is some. It ends with the test.
func (e *engine) start(t testing.TB, setup ...string) {
	t.Helper()
	e.run(t)
	t.Cleanup(func() { e.stop() })
	if len(setup) > 0 {
		pool, err := openMySQL(setup[0])
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		waitFor(t, "the database", func() bool { return pool.Ping() == nil })
		if _, err := pool.Exec(setup[1]); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the database", func() bool { return e.open(t).Ping() == nil })
}

// run starts the process. After a SIGKILL what is left of the old one can be in the way for a moment.
func (e *engine) run(t testing.TB) {
	t.Helper()
	proc, err := child.Start(e.cmd())
	if err != nil {
		t.Fatal(err)
	}
	e.proc = proc
}

// stop ends the process with a fast shutdown.
func (e *engine) stop() {
	signal := syscall.SIGTERM
	if e.name == "postgres" {
		signal = syscall.SIGINT
	}
	e.proc.Cmd.Process.Signal(signal)
	select {
	case <-e.proc.Ended:
	case <-time.After(20 * time.Second):
		e.proc.Kill()
	}
}

// restart kills the process, and starts it again until it answers.
func (e *engine) restart(t testing.TB) {
	t.Helper()
	e.proc.Kill()
	e.run(t)
	waitFor(t, "the database after a kill", func() bool {
		select {
		case <-e.proc.Ended:
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
