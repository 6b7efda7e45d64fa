package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/child"
)

const realServer = "/usr/bin/beanstalkd"

// beanstalkd starts the real beanstalkd on a free loopback port for one test.
func beanstalkd(t *testing.T) *running {
	t.Helper()
	needBeanstalkd(t)
	s := server{name: "beanstalkd", argv: []string{realServer, "-l", "127.0.0.1", "-p", "{port}"}}
	r, err := s.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

func needBeanstalkd(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(realServer); err != nil {
		t.Skipf("the real beanstalkd is not installed: %v", err)
	}
}

// jobsLeft reads how many ready, reserved, delayed and buried jobs a server has.
func jobsLeft(t *testing.T, addr string) (sum int) {
	t.Helper()
	c, err := (&target{addr: addr}).dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	page, err := c.Page("stats")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		value, _ := page.Value("current-jobs-" + state)
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func TestEveryModeOnBeanstalkd(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	r := beanstalkd(t)
	for name, change := range map[string]func(*load){
		"cycle":        func(*load) {},
		"pipelined":    func(l *load) { l.Pipeline = 16 },
		"put":          func(l *load) { l.Mode, l.Pipeline = modePut, 8 },
		"pc":           func(l *load) { l.Mode = modePC },
		"pc pipelined": func(l *load) { l.Mode, l.Pipeline, l.Tubes = modePC, 4, 3 },
		"delayed":      func(l *load) { l.Mode, l.Rate = modeDelayed, 500 },
		"tubes":        func(l *load) { l.Tubes, l.IdleTubes, l.Backlog = 4, 300, 1000 },
		"same":         func(l *load) { l.Tubes, l.Backlog, l.BacklogSame = 2, 1001, true },
		"big bodies":   func(l *load) { l.Body, l.Pipeline = 60_000, 20 },
		"blocking":     func(l *load) { l.Blocking, l.Pipeline = true, 2 },
		"blocking pc":  func(l *load) { l.Blocking, l.Mode = true, modePC },
		"threads":      func(l *load) { l.Threads, l.Mode = 2, modePC },
	} {
		t.Run(name, func(t *testing.T) {
			l := baseLoad()
			l.Conns, l.Duration = 11, busy.Times(100*time.Millisecond)
			change(&l)
			res, err := runUntilDone(target{addr: r.addr}, l, r.pids())
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, res)
			if n := jobsLeft(t, r.addr); n != 0 {
				t.Errorf("%d jobs are left behind", n)
			}
		})
	}
}

// runUntilDone runs a load, and again for longer if the machine was too busy for one operation.
func runUntilDone(to target, l load, pids []int) (*result, error) {
	res, err := runLoad(context.Background(), to, l, pids)
	for err == nil && res.Ops == 0 && l.Duration < time.Minute {
		l.Duration *= 3
		res, err = runLoad(context.Background(), to, l, pids)
	}
	return res, err
}

// checkResult checks that a result has figures and no errors.
func checkResult(t *testing.T, res *result) {
	t.Helper()
	if err := res.verdict(); err != nil {
		t.Errorf("%v: %v", err, res.Samples)
	}
	if res.Ops == 0 || res.OpsPerSec == 0 || res.Latency.P50 <= 0 || res.Latency.P99 < res.Latency.P50 {
		t.Errorf("no figures: %+v", res)
	}
	if len(res.Procs) != 2 || res.Procs[0].Name != "beanstalkd" || res.Procs[0].RSS == 0 {
		t.Errorf("processes: %+v", res.Procs)
	}
	for _, p := range []*percentiles{res.Delivery, res.Lateness} {
		if p != nil && (p.Count != uint64(res.Jobs.Put) || p.P50 <= 0) {
			t.Errorf("of %d jobs: %+v", res.Jobs.Put, p)
		}
	}
}

func TestRunOnUnixSocket(t *testing.T) {
	needBeanstalkd(t)
	p, addr := child.Beanstalkd(t)
	l := baseLoad()
	l.Conns, l.Duration = 5, busy.Times(100*time.Millisecond)
	res, err := runLoad(context.Background(), target{addr: addr}, l, []int{p.Pid()})
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, res)
}

func TestCancelCleansUp(t *testing.T) {
	r := beanstalkd(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	l := baseLoad()
	l.Mode, l.Duration = modePut, time.Minute
	res, err := runLoad(ctx, target{addr: r.addr}, l, nil)
	if err != nil || res.verdict() != nil || res.Seconds > 5 || jobsLeft(t, r.addr) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestKeep(t *testing.T) {
	r := beanstalkd(t)
	l := baseLoad()
	l.Mode, l.Duration, l.Keep, l.Backlog = modePut, busy.Times(50*time.Millisecond), true, 10
	res, err := runLoad(context.Background(), target{addr: r.addr}, l, nil)
	if err != nil || res.verdict() != nil {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := jobsLeft(t, r.addr); int64(n) != res.Jobs.Put {
		t.Errorf("%d jobs are left of %d", n, res.Jobs.Put)
	}
}

func TestRunCommandPrintsJSON(t *testing.T) {
	r := beanstalkd(t)
	var out bytes.Buffer
	app := newApp()
	app.Writer = &out
	err := app.Run([]string{"stalkbench", "run", "--addr", r.addr, "--load", "50c-p16", "--conns", "3", "--duration", busy.Times(100 * time.Millisecond).String(), "--json"})
	if err != nil {
		t.Fatal(err)
	}
	var res result
	if err := json.Unmarshal(out.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	if res.Load.Conns != 3 || res.Load.Pipeline != 16 || res.Ops == 0 {
		t.Errorf("%+v", res)
	}
	res.writeText(&out)
	if !strings.Contains(out.String(), "per stage of 16") {
		t.Errorf("text: %s", out.String())
	}
}

func TestCompareOnBeanstalkd(t *testing.T) {
	needBeanstalkd(t)
	dir := t.TempDir()
	md, svg := filepath.Join(dir, "c.md"), filepath.Join(dir, "c.svg")
	command := realServer + " -l 127.0.0.1 -p {port}"
	var out bytes.Buffer
	app := newApp()
	app.Writer, app.ErrWriter = &out, io.Discard
	err := app.Run(spreadServers([]string{"stalkbench", "compare",
		"--servers", "plain=" + command, "wal=pre: " + realServer + " -l 127.0.0.1 -p {port2} ;; " + command + " -b {dir}",
		"--rounds", "2", "--duration", "50ms", "--loads", "1c,50c-p16", "--markdown", md, "--svg", svg}))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("the table has %d lines:\n%s", n, out.String())
	}
	table, err := os.ReadFile(md)
	if err != nil || !strings.Contains(string(table), "| 50c-p16 | wal |") || !strings.Contains(string(table), "(beanstalkd 1.12") {
		t.Errorf("%v, Markdown:\n%s", err, table)
	}
	plot, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	if err := wellFormed(plot); err != nil {
		t.Errorf("SVG: %v", err)
	}
}

// wellFormed reads XML to its end.
func wellFormed(raw []byte) error {
	d := xml.NewDecoder(bytes.NewReader(raw))
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	s := server{name: "bad", argv: []string{"/bin/sh", "-c", "echo it is broken; exit 3"}}
	_, err := s.start(context.Background())
	if err == nil || !strings.Contains(err.Error(), "it is broken") {
		t.Errorf("error %v does not tell what the server said", err)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "stalkbench-bad-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestParseServer(t *testing.T) {
	for spec, want := range map[string]server{
		"a=b -c 'd e' \"\"":                 {name: "a", argv: []string{"b", "-c", "d e", ""}},
		"r=pre: redis --save '' ;; s --o=1": {name: "r", argv: []string{"s", "--o=1"}, helper: []string{"redis", "--save", ""}},
	} {
		if got, err := parseServer(spec); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", spec, got, err)
		}
	}
	for _, spec := range []string{"", "a", "=b", "a=", "a=b 'c", "a=pre: b", "a=pre: ;; b", "a/b=c"} {
		if _, err := parseServer(spec); err == nil {
			t.Errorf("%q: no error", spec)
		}
	}
}

func TestSpreadServers(t *testing.T) {
	got := spreadServers(strings.Fields("x compare --servers a=1 b=2 --rounds 3 --servers c=3"))
	want := strings.Fields("x compare --servers a=1 --servers b=2 --rounds 3 --servers c=3")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestParseStat(t *testing.T) {
	raw := "42 (a ) (b) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 5 6 7"
	if cpu, name, err := parseStat([]byte(raw)); err != nil || cpu != 2*time.Second || name != "a ) (b" {
		t.Errorf("%v, %q, %v", cpu, name, err)
	}
	for _, raw := range []string{"", "42 (a) S 1 2", "42 a S", "1 (a) S 1 42 42 0 -1 4194560 100 0 0 0 x 50 0"} {
		if _, _, err := parseStat([]byte(raw)); err == nil {
			t.Errorf("%q: no error", raw)
		}
	}
}

func TestLoadsAreGood(t *testing.T) {
	for _, n := range namedLoads {
		l, err := loadNamed(n.name)
		if err = errors.Join(err, l.check()); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
	}
	for _, name := range strings.Split(defaultLoads, ",") {
		if _, err := loadNamed(name); err != nil {
			t.Error(err)
		}
	}
	for _, change := range []func(*load){
		func(l *load) { l.Mode = "x" },
		func(l *load) { l.Conns = 0 },
		func(l *load) { l.Body = -1 },
		func(l *load) { l.Mode, l.Body = modePC, 7 },
		func(l *load) { l.Mode, l.Conns = modePC, 1 },
		func(l *load) { l.Mode, l.Rate = modeDelayed, 0 },
		func(l *load) { l.Mode, l.TTR = modeExpire, 0 },
		func(l *load) { l.Duration = 0 },
	} {
		l := baseLoad()
		change(&l)
		if l.check() == nil {
			t.Errorf("%+v: no error", l)
		}
	}
}

func TestMedianAndRows(t *testing.T) {
	made := func(ops float64) *result {
		return &result{OpsPerSec: ops, Procs: []procUse{{PerOp: 6}, {PerOp: 2}}}
	}
	c := comparison{servers: []server{{name: "a"}, {name: "b"}, {name: "c"}}, loads: []load{{Name: "l"}, {Name: "m"}}, results: map[cell][]*result{
		{0, 0}: {made(30), made(10), made(20), nil},
		{1, 0}: {made(90), made(20), nil, made(1000)},
		{2, 0}: {nil, nil, nil, nil},
		{0, 1}: {nil, nil, nil, nil},
		{1, 1}: {made(50), made(30), nil, nil},
	}}
	rows := c.rows()
	if len(rows) != 3 || rows[0].ops != 20 || rows[0].min != 10 || rows[0].max != 30 || rows[0].ratio != 1 ||
		rows[1].ops != 90 || rows[1].ratio != 2.5 || rows[1].cpu != 6 || rows[1].generator != 2 ||
		rows[2].ops != 40 || rows[2].ratio != 0 {
		t.Errorf("%+v", rows)
	}
}
