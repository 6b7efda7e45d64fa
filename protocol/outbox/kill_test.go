package outbox

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tools/conformance/child"
)

// killed is a run in which everything is killed: relays, the server and the database.
type killed struct {
	*testing.T
	e       *engine
	pool    *sql.DB
	port    string
	dir     string // of the server
	server  *child.Process
	relays  []*child.Process
	writing sync.WaitGroup

	mu   sync.Mutex
	fate map[string]string          // what became of the transaction with a row, by its body
	ids  map[string]map[uint64]bool // of the jobs with a body
	next int                        // number of the next transaction; of the goroutine that writes
}

// The fates of a transaction.
const (
	committed  = "committed"
	rolledBack = "rolled back"
	unknown    = "unknown" // the database was killed during the commit
)

// TestKilled: each committed row becomes exactly one job, and those that were rolled back none, whatever is killed
// with SIGKILL.
func TestKilled(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	for name, start := range own {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &killed{T: t, e: start(t), port: child.FreePort(), dir: t.TempDir(), fate: map[string]string{}, ids: map[string]map[uint64]bool{}}
			k.pool = k.e.withTable(t)
			k.startServer()
			for range map[bool]int{true: 1, false: 3}[name == "sqlite"] {
				k.relays = append(k.relays, k.startRelay())
			}
			stop := make(chan struct{})
			consumed := make(chan struct{})
			go func() { defer close(consumed); k.consume(stop) }()
			for range rounds {
				k.round()
			}
			k.pool = k.e.open(t) // which has no connection to a database that was killed
			waitFor(t, "all rows", func() bool { return rows(t, k.pool, "error IS NULL") == 0 })
			if n := rows(t, k.pool, "error IS NOT NULL"); n != 0 {
				t.Errorf("%d rows have an error", n)
			}
			waitFor(t, "all jobs", k.allCame)
			close(stop)
			<-consumed
			k.check()
		})
	}
}

// startServer starts the server, which is durable.
func (k *killed) startServer() {
	k.Helper()
	cmd := exec.Command(filepath.Join(programs, "redstalkd"), "--store", "embedded:"+k.dir, "-p", k.port, "-l", "127.0.0.1")
	p, err := child.Start(cmd)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(p.Kill)
	if err := p.AwaitWithin(patience, child.Accepts("tcp", "127.0.0.1:"+k.port)); err != nil {
		k.Fatal(err)
	}
	k.server = p
}

func (k *killed) startRelay() *child.Process {
	return startProgram(k, k.e, "127.0.0.1:"+k.port, child.NewOutput())
}

// round writes rows, and kills each program once meanwhile.
func (k *killed) round() {
	k.Helper()
	k.writing.Go(func() {
		for range 60 {
			k.transaction(40)
		}
	})
	pause := func() { time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond) } // any moment will do
	for i := range k.relays {
		pause()
		k.relays[i].Kill()
		k.relays[i] = k.startRelay()
	}
	pause()
	k.server.Kill()
	k.startServer()
	pause()
	if k.e.proc != nil {
		k.e.restart(k)
	}
	k.writing.Wait()
}

// transaction inserts n rows, and commits them or rolls them back.
func (k *killed) transaction(n int) {
	k.next++
	number, fate := k.next, rolledBack
	var tx *sql.Tx
	var err error
	waitFor(k, "a transaction", func() bool { tx, err = k.pool.Begin(); return err == nil })
	var all []string
	for i := range n {
		body := fmt.Sprintf("transaction %d row %d", number, i)
		all = append(all, body)
		if err == nil {
			_, err = tx.Exec(k.e.insertSQL(), fmt.Sprint("tube", i%3), []byte(body), 0, "")
		}
	}
	switch {
	case err != nil || rand.IntN(4) == 0:
		tx.Rollback()
	case tx.Commit() == nil:
		fate = committed
	default:
		fate = unknown
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, body := range all {
		k.fate[body] = fate
	}
}

// consume reserves and deletes jobs until stop is closed and there are none, so that keys outlive their jobs.
func (k *killed) consume(stop <-chan struct{}) {
	for {
		conn, err := client.Dial("127.0.0.1:"+k.port, time.Second)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		conn.Timeout = patience
		done := k.consumeFrom(conn, stop)
		conn.Close()
		if done {
			return
		}
	}
}

// consumeFrom uses one connection until it fails.
func (k *killed) consumeFrom(conn *client.Conn, stop <-chan struct{}) (done bool) {
	if conn.Ask([]byte("watch tube0\r\nwatch tube1\r\nwatch tube2\r\n"), 3, client.Expect(client.Watching)) != nil {
		return false
	}
	for {
		var deletes []byte
		reserved := 0
		err := conn.Ask(bytes.Repeat([]byte("reserve-with-timeout 0\r\n"), 100), 100, func(r *client.Reply) error {
			if r.Word == client.Reserved {
				k.came(string(r.Body), r.ID)
				deletes = client.AppendDelete(deletes, r.ID)
				reserved++
			}
			return nil
		})
		if err != nil {
			return false
		}
		if reserved > 0 {
			if conn.Ask(deletes, reserved, func(*client.Reply) error { return nil }) != nil {
				return false
			}
			continue
		}
		select {
		case <-stop:
			return true
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// came records a job. It can come several times: a delete can be lost.
func (k *killed) came(body string, id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ids[body] == nil {
		k.ids[body] = make(map[uint64]bool)
	}
	k.ids[body][id] = true
}

// allCame reports whether there was a job of each committed row.
func (k *killed) allCame() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for body, fate := range k.fate {
		if fate == committed && len(k.ids[body]) == 0 {
			return false
		}
	}
	return true
}

// check compares rows and jobs.
func (k *killed) check() {
	k.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	counts, twice, wrong := map[string]int{}, 0, 0
	for body, fate := range k.fate {
		counts[fate]++
		if fate == rolledBack && len(k.ids[body]) > 0 {
			wrong++
		}
	}
	for _, ids := range k.ids {
		if len(ids) > 1 {
			twice++
		}
	}
	if twice > 0 || wrong > 0 || counts[committed] == 0 || counts[rolledBack] == 0 {
		k.Errorf("%d rows were put twice, and %d that were rolled back; fates: %v", twice, wrong, counts)
	}
	k.Logf("rows: %v, jobs: %d", counts, len(k.ids))
}
