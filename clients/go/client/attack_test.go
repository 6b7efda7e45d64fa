package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
)

// TestFrozenReserve: a reserve from a server that hangs ends with its context, and a job that it was about to get is not
// lost.
func TestFrozenReserve(t *testing.T) {
	testserver.CheckLeaks(t)
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		consumer := c.Consume("frozen")
		defer consumer.Close()
		id := mustPut(t, c, "frozen", "x", client.TTR(time.Second))
		if jobs, err := consumer.ReserveBatch(limited(t), 10, time.Second); err != nil || jobs[0].GiveBack(limited(t)) != nil {
			t.Fatal(err)
		}
		for _, s := range on.Servers {
			s.Freeze()
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		begin := time.Now()
		_, err := consumer.ReserveBatch(ctx, 10, time.Minute)
		if wantErr(t, err, context.DeadlineExceeded); time.Since(begin) > patience+slack {
			t.Errorf("it took %v", time.Since(begin))
		}
		for _, s := range on.Servers {
			s.Thaw()
		}
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			if job, err := consumer.Reserve(limited(t), time.Second); err == nil && job.ID == id {
				if err := job.Delete(limited(t)); err != nil {
					t.Error(err)
				}
				return
			}
		}
		t.Error("the job did not come again")
	})
}

// garbage are replies that no server sends.
var garbage = []string{
	"", "\r\n", "\n", "INSERTED\r\n", "INSERTED x\r\n", "INSERTED -1\r\n", "INSERTED 99999999999999999999999\r\n", "OK\r\n", "OK -1\r\n", "OK 5\r\nabc",
	"OK 3\r\nabcde\r\n", "OK 18446744073709551615\r\n", "OK 1073741825\r\n", "FOUND 1\r\n", "FOUND 1 x\r\n", "RESERVED 1\r\n", "LEASED 1 2 3 4 5\r\nabc\r\n",
	"RESERVED_BATCH 99999999999\r\n", "RESERVED_BATCH 2\r\nLEASED 1 2 1\r\nx\r\n", "RESERVED_BATCH 1\r\nLEASED 1 2 0 9\r\n\r\n{broken}\r\n", "RESERVED_BATCH\r\n",
	"RESERVED_BATCH 1\r\nRESERVED_BATCH 1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", strings.Repeat("x", 100_000), "DELETED\r\nDELETED\r\n", "\x00\xff\r\n", "BURIED\r\n",
	"TIMED_OUT extra\r\n", "USING\r\n", "WATCHING x\r\n",
}

// TestGarbage: whatever a server replies, calls end with an error, or with what it means, and the client goes on.
func TestGarbage(t *testing.T) {
	testserver.CheckLeaks(t)
	t.Parallel()
	for i, reply := range garbage {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := client.New(garbageServer(t, reply), client.ReplyTimeout(50*time.Millisecond))
			defer c.Close()
			for _, m := range methods {
				if strings.HasPrefix(m.name, "Job.") {
					continue
				}
				ctx, stop := context.WithTimeout(t.Context(), 60*time.Millisecond)
				begin := time.Now()
				m.call(ctx, c, nil)
				if stop(); time.Since(begin) > slack {
					t.Errorf("%s took %v", m.name, time.Since(begin))
				}
			}
		})
	}
}

// garbageServer answers the handshake as redstalkd, and then each read with the same bytes.
func garbageServer(t *testing.T, reply string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	const page = "---\n- put-tags\n- meta\n- reason\n- lease\n- batch\n- info\n"
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				in.ReadString('\n')
				fmt.Fprintf(conn, "OK %d\r\n%s\r\n", len(page), page)
				for buf := make([]byte, 4096); ; {
					if _, err := in.Read(buf); err != nil {
						return
					}
					if reply == "" {
						return
					}
					conn.Write([]byte(reply))
				}
			})
		}
	})
	return l.Addr().String()
}

// TestSlowServer: if a server does not read, puts wait for room and end with their contexts.
func TestSlowServer(t *testing.T) {
	testserver.CheckLeaks(t)
	server := redstalktest.Start(t, "-z", "2000000")
	c := client.New(server.Addr, client.Connections(1))
	defer c.Close()
	mustPut(t, c, "slow", "x")
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer server.Thaw()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	begin := time.Now()
	var wg sync.WaitGroup
	var notSent atomic.Int32
	for range 40 {
		wg.Go(func() {
			_, err := c.Put(ctx, "slow", make([]byte, 1<<20))
			if wantErr(t, err, context.DeadlineExceeded); !errors.Is(err, client.ErrUnknownOutcome) {
				notSent.Add(1)
			}
		})
	}
	wg.Wait()
	if d := time.Since(begin); d > patience+slack {
		t.Errorf("it took %v", d)
	}
	if notSent.Load() == 0 {
		t.Error("all bodies were buffered")
	}
}

// TestSmallerLimit: after a restart with a smaller limit for bodies, larger jobs that are there still come.
func TestSmallerLimit(t *testing.T) {
	store := "embedded:" + t.TempDir()
	server := redstalktest.Start(t, "--store", store)
	_, port, _ := net.SplitHostPort(server.Addr)
	c := client.New(server.Addr)
	defer c.Close()
	body := bytes.Repeat([]byte("b"), 5000)
	for range 3 {
		mustPut(t, c, "large", string(body))
	}
	server.Stop()
	redstalktest.Start(t, "--store", store, "-p", port, "-z", "100")
	_, err := c.Put(limited(t), "large", body)
	wantErr(t, err, client.ErrTooBig)
	consumer := c.Consume("large")
	defer consumer.Close()
	for n := 0; n < 3; {
		jobs, err := consumer.ReserveBatch(limited(t), 10, 5*time.Second)
		if err != nil || len(jobs) == 0 {
			t.Fatalf("%d jobs, then %v", n, err)
		}
		for _, job := range jobs {
			if n++; !bytes.Equal(job.Body, body) || job.Delete(limited(t)) != nil {
				t.Errorf("job %d has %d bytes", job.ID, len(job.Body))
			}
		}
	}
}

// TestCancelledAnywhere: contexts that end at any time leave the client in order, and what calls say is true.
func TestCancelledAnywhere(t *testing.T) {
	testserver.CheckLeaks(t)
	t.Parallel()
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		var put, unknown, taken atomic.Int64
		var producers, consumers sync.WaitGroup
		for range 8 {
			producers.Go(func() {
				for range 100 {
					ctx, stop := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
					switch _, err := c.Put(ctx, "any", []byte("x")); {
					case err == nil:
						put.Add(1)
					case errors.Is(err, client.ErrUnknownOutcome):
						unknown.Add(1)
					case !errors.Is(err, context.DeadlineExceeded):
						t.Error(err)
					}
					stop()
				}
			})
		}
		ended := make(chan struct{})
		for range 4 {
			consumers.Go(func() {
				consumer := c.Consume("any")
				defer consumer.Close()
				for last := false; ; {
					patience := rand.N(20 * time.Millisecond)
					select {
					case <-ended:
						last, patience = true, 30*time.Second
					default:
					}
					ctx, stop := context.WithTimeout(t.Context(), patience)
					jobs, err := consumer.ReserveBatch(ctx, 5, 2*time.Second) // longer than a job that was given up takes to come again
					stop()
					for _, job := range jobs {
						if err := job.Delete(limited(t)); err != nil {
							t.Error(err)
						}
						taken.Add(1)
					}
					if last && len(jobs) == 0 && err == nil {
						return
					}
				}
			})
		}
		producers.Wait()
		close(ended)
		consumers.Wait()
		if n := taken.Load(); n < put.Load() || n > put.Load()+unknown.Load() {
			t.Errorf("%d jobs came, %d were put and %d may have been", n, put.Load(), unknown.Load())
		}
	})
}

// TestCloseAnywhere: Close ends every call soon, whatever is under way.
func TestCloseAnywhere(t *testing.T) {
	testserver.CheckLeaks(t)
	on := testserver.Memory(t)
	for range 20 {
		c := client.New(on.Addr())
		var wg sync.WaitGroup
		until := func(f func() error) {
			wg.Go(func() {
				for {
					if err := f(); errors.Is(err, client.ErrClosed) {
						return
					} else if err != nil && !errors.Is(err, client.ErrNotFound) {
						t.Error(err)
						return
					}
				}
			})
		}
		ctx := context.Background()
		for range 5 {
			until(func() error { _, err := c.Put(ctx, "a", []byte("x")); return err })
			until(func() error { _, err := c.PutMany(ctx, newJobs("a", 50)); return err })
			until(func() error { _, err := c.JobStats(ctx, 1); return err })
			consumer := c.Consume("a", "b")
			until(func() error {
				jobs, err := consumer.ReserveBatch(ctx, 10, time.Minute)
				for _, job := range jobs {
					err = errors.Join(err, job.Delete(ctx))
				}
				return err
			})
		}
		time.Sleep(rand.N(30 * time.Millisecond))
		begin := time.Now()
		c.Close()
		wg.Wait()
		if d := time.Since(begin); d > slack {
			t.Errorf("it took %v", d)
		}
	}
}

// newJobs returns n jobs.
func newJobs(tube string, n int) []client.NewJob {
	jobs := make([]client.NewJob, n)
	for i := range jobs {
		jobs[i].Tube = tube
	}
	return jobs
}
