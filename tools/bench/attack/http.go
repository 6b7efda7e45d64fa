package attack

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// overHTTP are the attacks on the HTTP API.
var overHTTP = []attack{
	{"http-rate", "50 connections put, reserve and finish over HTTP, one job and 100 in a request", "25,000 requests/s in memory, 15,000 embedded; 10 times that in jobs by batches", httpRate},
	{"http-idle", "10,000 HTTP connections do nothing, then close, three times", "memory as before, and no more each time; others as without", httpIdle},
	{"http-polls", "5,000 reserves over HTTP wait; a tenth goes away; then there are jobs", "200 MB; each that is left gets a job, none is lost", httpPolls},
	{"scrape", "scrapes of /metrics with 1,000 tubes, under load", "at most 50 ms; others as without", scrape},
}

// rateFor is how long each load of http-rate lasts.
const rateFor = 5 * time.Second

func httpRate(r *run) error {
	return r.onEach([]engine{memory, embedded}, []string{withHTTP}, func(s *cluster) error {
		for _, of := range []struct{ load, unit string }{{"http", "requests"}, {"http-p100", "jobs by 100 in a request"}} {
			res, err := r.bench(s.instances[0].web, of.load, rateFor)
			if err != nil {
				return err
			}
			r.report("%s: %.0f %s/s; p99 %s", s.engine, res.OpsPerSec, of.unit, format(time.Duration(res.Latency.P99*1e3)))
		}
		return nil
	})
}

// benched is the part of a result of stalkbench that is used.
type benched struct {
	OpsPerSec float64 `json:"ops_per_s"`
	Latency   struct {
		P99 float64 `json:"p99_us"`
	} `json:"latency"`
}

// bench runs a load on an address with stalkbench, which is in the same directory as the server.
func (r *run) bench(addr, load string, d time.Duration) (res benched, err error) {
	cmd := exec.Command(filepath.Join(filepath.Dir(r.bin), "stalkbench"), "run", "--addr", addr, "--load", load, "--duration", d.String(), "--json")
	out, err := cmd.Output()
	if err != nil {
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s %s", err, failed.Stderr, out)
		}
		return res, fmt.Errorf("stalkbench on %s: %w", load, err)
	}
	return res, json.Unmarshal(out, &res)
}

// A caller is a minimal HTTP connection: there are thousands of them.
type caller struct {
	net.Conn
	in *bufio.Reader
}

func call(addr string) (*caller, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("connecting for HTTP: %w", err)
	}
	return &caller{c, bufio.NewReaderSize(c, 1024)}, nil
}

// send sends a request without a body.
func (c *caller) send(method, path string) error {
	_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: a\r\nX-Redstalk: 1\r\nContent-Length: 0\r\n\r\n", method, path)
	return err
}

// answer reads a response.
func (c *caller) answer() (status int, body []byte, err error) {
	reply, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	body, err = io.ReadAll(reply.Body)
	return reply.StatusCode, body, err
}

// callers makes n connections, each of which sends a request.
func callers(addr string, n int, method, path string) (all []*caller, err error) {
	for range n {
		c, err := call(addr)
		if err != nil {
			return all, err
		}
		all = append(all, c)
		if err := c.send(method, path); err != nil {
			return all, err
		}
	}
	return all, nil
}

func closeAll(all []*caller) {
	for _, c := range all {
		c.Close()
	}
}

// idleRounds is how often the idle connections come and go: memory that remains after the first
// round is reused by the next ones, and must not grow.
const idleRounds = 3

func httpIdle(r *run) error {
	return r.on(memory, 1, []string{withHTTP}, func(s *cluster) error {
		before, err := s.instances[0].resident()
		if err != nil {
			return err
		}
		r.report("before: %d MiB", before>>20)
		for range idleRounds {
			if err := r.idle(s, before); err != nil {
				return err
			}
		}
		return nil
	})
}

// idle makes connections, leaves them idle, and closes them.
func (r *run) idle(s *cluster, before int64) error {
	const n = 10_000
	at := s.instances[0]
	var all []*caller
	defer func() { closeAll(all) }()
	t, err := s.during(at, func() (err error) {
		if all, err = callers(at.web, n, "GET", "/healthz"); err != nil {
			return err
		}
		for _, c := range all {
			if status, _, err := c.answer(); status != http.StatusOK {
				return fmt.Errorf("a connection got %d: %v", status, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	with, _ := at.resident()
	quiet, err := s.quiet(at, 2*time.Second)
	closeAll(all)
	least, after := memoryAfter(at, before+before/2)
	r.report("coming: %v; there for 2 s: others waited %s; %d MiB with them, %.1f KiB each; gone: %d MiB after %s",
		t, format(quiet.waited), with>>20, float64(with-before)/n/1024, least>>20, format(after))
	return err
}

// memoryAfter waits until an instance uses no more memory than enough, at most three minutes. It
// returns the least that it used, and when.
func memoryAfter(i *instance, enough int64) (least int64, after time.Duration) {
	least = 1 << 62
	for begun := time.Now(); least > enough && time.Since(begun) < 3*time.Minute; time.Sleep(time.Second) {
		if now, err := i.resident(); err == nil && now < least {
			least, after = now, time.Since(begun)
		}
	}
	return least, after
}

func httpPolls(r *run) error {
	const n, leave = 5000, 500
	return r.on(memory, 1, []string{withHTTP}, func(s *cluster) error {
		at := s.instances[0]
		all, err := callers(at.web, n, "POST", "/v1/reserve?tube=polled&wait=10m")
		defer func() { closeAll(all) }()
		if err != nil {
			return err
		}
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		time.Sleep(time.Second)
		with, _ := at.resident()
		t, err := s.quiet(at, 2*time.Second)
		r.report("waiting: %d MiB; others waited %s", with>>20, format(t.waited))
		if err != nil {
			return err
		}
		closeAll(all[:leave])
		t, err = s.during(at, func() error { return serveAll(c, all[leave:]) })
		r.report("%d went away, %d were served: %v", leave, n-leave, t)
		if err != nil {
			return err
		}
		page, err := c.Page("stats-tube polled")
		left, _ := page.Value("current-jobs-ready")
		r.report("jobs ready after that: %s", left)
		return err
	})
}

// serveAll puts a job for each waiting caller, and checks that each gets a different one.
func serveAll(c *client.Conn, all []*caller) error {
	if err := putMany(c, "polled", len(all), 10, 0, 600); err != nil {
		return err
	}
	seen := make(map[uint64]bool)
	for _, one := range all {
		status, body, err := one.answer()
		var jobs []struct{ ID uint64 }
		if err == nil && status == http.StatusOK {
			err = json.Unmarshal(body, &jobs)
		}
		if err != nil || status != http.StatusOK || len(jobs) != 1 || seen[jobs[0].ID] {
			return fmt.Errorf("a waiting request was answered %d %.80q: %v", status, body, err)
		}
		seen[jobs[0].ID] = true
	}
	return nil
}

func scrape(r *run) error {
	return r.onEach(engines, []string{withHTTP}, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(at.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := spread(c, 1000, 10); err != nil {
			return err
		}
		without, err := s.during(at, func() error { _, err := r.bench(at.addr, "50c", scrapeFor); return err })
		if err != nil {
			return err
		}
		var took []time.Duration
		var size int
		t, err := s.during(at, func() error { return r.scraping(at, &took, &size) })
		if err != nil {
			return err
		}
		slices.Sort(took)
		r.report("%s: %d scrapes of %d KiB: median %s, most %s; others: p99 %s, most %s (without scrapes %s, %s)", s.engine, len(took), size>>10,
			format(quantile(took, 0.5)), format(quantile(took, 1)), format(t.usual), format(t.waited), format(without.usual), format(without.waited))
		return nil
	})
}

const (
	// scrapeFor is the duration of the scrapes.
	scrapeFor = 15 * time.Second

	// scrapeEach is the time between scrapes: so long that each of them asks the store
	// and none shows cached figures.
	scrapeEach = 1050 * time.Millisecond
)

// scraping scrapes under load.
func (r *run) scraping(at *instance, took *[]time.Duration, size *int) error {
	var load sync.WaitGroup
	var failed error
	ended := make(chan struct{})
	load.Go(func() {
		_, failed = r.bench(at.addr, "50c", scrapeFor)
		close(ended)
	})
	defer load.Wait()
	for {
		select {
		case <-ended:
			return failed
		case <-time.After(scrapeEach):
		}
		begun := time.Now()
		reply, err := http.Get("http://" + at.web + "/metrics")
		if err != nil {
			return fmt.Errorf("scraping: %w", err)
		}
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != http.StatusOK {
			return fmt.Errorf("scraping: status %d: %v", reply.StatusCode, err)
		}
		*took, *size = append(*took, time.Since(begun)), len(text)
	}
}
