package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
)

// TestPutMany: jobs come in their order, and each has its own result.
func TestPutMany(t *testing.T) {
	onEngines(t, func(t *testing.T, c *client.Client, on *testserver.Cluster) {
		ctx := limited(t)
		jobs := make([]client.NewJob, 2500) // several groups
		for i := range jobs {
			jobs[i] = client.NewJob{Tube: "many", Body: fmt.Append(nil, i)}
		}
		jobs[7].Tube = "not a tube"
		jobs[1200].Body = make([]byte, 70000)
		jobs[1300].Options = []client.PutOption{client.Key("k")}
		jobs[2000].Tube = "other"
		results, err := c.PutMany(ctx, jobs)
		failed := map[int]error{7: client.ErrInvalid, 1200: client.ErrTooBig}
		if !on.Leases() {
			failed[1300] = client.ErrUnsupported
		}
		if wantErr(t, err, client.ErrInvalid); len(results) != len(jobs) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("%d of 2500", len(failed))) {
			t.Fatalf("%d results, %v", len(results), err)
		}
		last := uint64(0)
		for i, r := range results {
			if want := failed[i]; want != nil {
				wantErr(t, r.Err, want)
				continue
			}
			if r.Err != nil || r.ID <= last {
				t.Errorf("job %d: %+v after %d", i, r, last)
			}
			last = r.ID
		}
		if body, err := c.Peek(ctx, results[2499].ID); err != nil || string(body) != "2499" {
			t.Errorf("%q, %v", body, err)
		}
		if results, err := c.PutMany(ctx, nil); err != nil || len(results) != 0 {
			t.Errorf("of none: %v, %v", results, err)
		}
	})
}

// TestPutManyLost: when connections are lost again and again, jobs with keys are put once, and others have an unknown outcome or
// are there.
func TestPutManyLost(t *testing.T) {
	testserver.CheckLeaks(t)
	on := testserver.Memory(t)
	proxy := testserver.NewProxy(t, on.Addr())
	c, direct := client.New(proxy.Addr), client.New(on.Addr())
	defer c.Close()
	defer direct.Close()
	jobs := make([]client.NewJob, 20000)
	for i := range jobs {
		jobs[i] = client.NewJob{Tube: "plain", Body: []byte("x")}
		if i%2 == 0 {
			jobs[i].Tube, jobs[i].Options = "keyed", []client.PutOption{client.Key(fmt.Sprint(i)), client.KeyTTL(time.Hour)}
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond << (n % 6)): // on a busy machine a group needs more than 20 ms
				proxy.CutOnReply()
			}
		}
	}()
	results, err := c.PutMany(limited(t), jobs)
	close(stop)
	<-stopped
	wantErr(t, err, client.ErrUnknownOutcome)
	put, unknown := 0, 0
	for i, r := range results {
		switch {
		case r.Err == nil && i%2 == 1:
			put++
		case r.Err != nil && i%2 == 1:
			wantErr(t, r.Err, client.ErrUnknownOutcome)
			unknown++
		case r.Err != nil:
			t.Errorf("job %d with a key: %v", i, r.Err)
		}
	}
	count := func(tube string) (n int) {
		reply, err := direct.Exec(limited(t), client.Command{Line: "flush-tube " + tube})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Sscan(reply.Args, &n)
		return n
	}
	t.Logf("%d put, %d unknown", put, unknown)
	if n := count("keyed"); n != len(jobs)/2 {
		t.Errorf("%d jobs with keys", n)
	}
	if n := count("plain"); n < put || n > put+unknown {
		t.Errorf("%d jobs without keys, of which %d were put and %d may have been", n, put, unknown)
	}
}
