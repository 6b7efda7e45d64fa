package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// fuzzJobSize is the limit for a body in FuzzConnection: small, so that the fuzzer soon makes bodies that
// are too big.
const fuzzJobSize = 32

// FuzzConnection sends random bytes to a session, in packets of the sizes in cuts. Afterwards every
// command up to the first quit has a reply, the session has ended, no job is reserved except by leases,
// no tube is used or watched, and only bodies of jobs are in use.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		"put 1 0 60 1\r\nx\r\nreserve\r\ndelete 1\r\n",
		"put 0 0 60 3\r\na\r\n\r\nreserve-with-timeout 1\r\nreserve-with-timeout 0\r\nlist-tube-used\r\n",
		"use t\r\nwatch t\r\nignore default\r\nignore t\r\nlist-tubes-watched\r\nput 0 9 0 0\r\n\r\nkick 5\r\npeek-ready\r\nreserve-job 1\r\n",
		"put 0 0 1 99\r\nbody\r\nput 0 0 1 1\r\nxx\r\nput x\r\n\x00\r\nstats\r\nstats-job 1\r\nstats-tube t\r\n",
		"put 0 0 60 1\r\nx\r\nreserve\r\nbury 1 0\r\npeek-buried\r\nkick-job 1\r\nreserve-job 1\r\ntouch 1\r\nrelease 1 0 1\r\npeek-delayed\r\nquit\r\nstats\r\n",
		"put 0 0 60 1\r\nx\r\nput 0 0 60 1\r\nx\r\nreserve-batch 3\r\ndelete-batch 1 2 3\r\nreserve-batch 2 1 lease info\r\nreserve-lease 1 info\r\nreserve-batch 2 info\r\ndrain\r\nundrain\r\ncapabilities\r\n",
		"reserve\r\nreserve\r\nput 0 0 60 1\r\nx\r\n",
		"put 1 0 60 1 key:k retry:1s max:1 dead:d\r\nx\r\nreserve\r\nrelease 1 0 0\r\nfind d k\r\nstats-job 2\r\ndelete-key d k\r\n",
		"put 1 0 9 1 key:k key-ttl:1\r\nx\r\nput 1 0 9 1 key:k on-duplicate:replace\r\ny\r\nput 0 0 9 3 key:\r\nabc\r\ndelete 2\r\nput 1 0 9 1 key:k\r\nz\r\n",
		"put 0 0 9 9 retries:5s\r\ndelete 91\r\nput key:a 0 0 9 4 x\r\nquit\r\nput 0 0 9 40 a:b\r\nquit\r\n",
		"set-policy t max:1 quota-jobs:1\r\nuse t\r\nput 0 0 9 1\r\nx\r\nput 0 0 9 1\r\nx\r\nget-policy t\r\nlist-policies\r\nset-policy t\r\n",
		"put 0 0 9 1\r\nx\r\nreserve-lease 1\r\ntouch-lease 1 00000946684800000000\r\ndelete-lease 1 x\r\nreserve-lease 0\r\n",
		"put 0 0 9 1\r\nx\r\nlist-jobs default ready 1\r\nmove-jobs default ready t 5\r\nflush-tube t\r\nflush-tube default reserved\r\n",
		"set-policy default group-concurrency:1 rate:3/h\r\nput 1 0 9 1 group:g\r\nx\r\nput 1 0 9 1 group:g\r\ny\r\nput 1 0 9 1\r\nz\r\nreserve\r\nreserve\r\nreserve-job 2\r\nstats-job 2\r\nlist-jobs default ready\r\nrelease 1 0 0\r\nreserve-with-timeout 0\r\nreserve-with-timeout 0\r\n",
		"set-policy default group-order:strict\r\nset-group default \"g h\" concurrency:2 rate:1/m weight:3 ttl:1s\r\npause-group default \"g h\" 1\r\nput 1 0 9 1 group:\"g h\"\r\nx\r\nget-group default \"g h\"\r\nstats-group default \"g h\"\r\nlist-groups default 1\r\nlist-groups default 1 Zw\r\nreserve-with-timeout 0\r\nflush-group default \"g h\"\r\nset-group default \"g h\"\r\n",
		"put 1 0 9 1 batch:b\r\nx\r\nput 1 0 9 1 after:b batch:c batch-ttl:1s\r\ny\r\nstats-batch b\r\nseal-batch b\r\nput 1 0 9 1 batch:b\r\nz\r\nlist-members b\r\nlist-batches 1\r\nlist-batches 1 b\r\nhistory days\r\nhistory-tube default hours 3\r\nstats-job 2\r\nreserve\r\ndelete 1\r\nreserve-with-timeout 1\r\ncancel-batch b\r\ncancel-batch c\r\n",
		"pause-tube default 1\r\nlist-tubes\r\npeek 1\r\nput 0 0 4294967295 4294967295\r\nx",
	} {
		f.Add([]byte(seed), []byte{1, 5, 200})
		f.Add([]byte(seed), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		if len(data) > 4<<10 {
			t.Skip("long inputs are many short ones")
		}
		synctest.Test(t, func(t *testing.T) { fuzzConnection(t, data, cuts) })
	})
}

func fuzzConnection(t *testing.T, data, cuts []byte) {
	store := embedded.NewMemory()
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{MaxJobSize: fuzzJobSize, Log: log})
	s := New(q, Config{Log: log})
	ours, theirs := net.Pipe()
	replies := &packets{Conn: theirs, in: data, cuts: cuts}
	defer ours.Close()
	begun := time.Now()
	s.ServeConn(replies)
	if took := time.Since(begun); took > 0 {
		t.Errorf("the session went on for %v after its client had ended", took)
	}
	ops := []storage.Op{{Kind: storage.Stats}, {Kind: storage.TubeStats, Tube: "default"}}
	storage.DoWait(store, ops)
	leases := bytes.Count(replies.out.Bytes(), []byte("LEASED "))
	if n := ops[0].Answer.Stats.Reserved; n > uint64(leases) {
		t.Errorf("%d jobs are still reserved, %d were leased", n, leases)
	}
	if st := ops[1].Answer.TubeStats; st.Using != 0 || st.Watching != 0 || q.Waiters() != 0 {
		t.Errorf("connections are still counted: %+v, %d waiting", st, q.Waiters())
	}
	if jobs := countJobs(ops[0].Answer.Stats); q.Bodies().InUse() > jobs {
		t.Errorf("%d bodies are in use, of %d jobs", q.Bodies().InUse(), jobs)
	}
	got, want := countReplies(t, replies.out.Bytes()), countCommands(data)
	if got != want {
		t.Errorf("%d replies to %d commands:\n%q", got, want, replies.out.Bytes())
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	q.Close(context.Background())
	store.Close()
}

// countJobs returns how many jobs there are.
func countJobs(f *storage.Figures) int { return int(f.Ready + f.Reserved + f.Delayed + f.Buried) }

// packets is a connection whose client has sent in and then closed it. The packets have the sizes in cuts,
// in rotation.
type packets struct {
	net.Conn
	in, cuts []byte
	at       int
	mu       sync.Mutex
	out      bytes.Buffer
}

func (p *packets) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := len(p.in)
	if len(p.cuts) > 0 {
		n = min(n, 1+int(p.cuts[p.at%len(p.cuts)]))
		p.at++
	}
	n = copy(b, p.in[:n])
	p.in = p.in[n:]
	return n, nil
}

func (p *packets) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// countCommands returns how many commands the bytes have, up to the first quit.
func countCommands(data []byte) (n int) {
	r := protocol.NewReader(bytes.NewReader(data), fuzzJobSize)
	for {
		for c := (protocol.Command{}); r.Next(&c); n++ {
			if c.Fault == protocol.NoFault && c.Verb == protocol.Quit {
				return n
			}
		}
		if r.Fill() != nil {
			return n
		}
	}
}

// countReplies returns how many replies text has. It skips bodies and pages by the sizes in the replies.
func countReplies(t *testing.T, text []byte) (n int) {
	for ; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\r\n"))
		if !whole {
			t.Fatalf("half a reply: %q", text)
		}
		if size, ok := announced(line); ok {
			if len(rest) < size+2 || string(rest[size:size+2]) != "\r\n" {
				t.Fatalf("%q is followed by %q", line, rest)
			}
			rest = rest[size+2:]
		}
		if k, ok := strings.CutPrefix(string(line), "RESERVED_BATCH "); ok { // its jobs are part of the same reply
			jobs, err := strconv.Atoi(k)
			if err != nil {
				t.Fatal(err)
			}
			n -= jobs
		}
		text = rest
	}
	return n
}

// announced returns the size of the body or page after the first line of a reply, if it has one.
func announced(line []byte) (size int, ok bool) {
	words := bytes.Fields(line)
	if word := string(words[0]); word != "OK" && word != "RESERVED" && word != "FOUND" && word != "LEASED" {
		return 0, false
	}
	for _, digit := range words[len(words)-1] {
		size = 10*size + int(digit-'0')
	}
	return size, true
}
