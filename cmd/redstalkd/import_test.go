package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	raw "redstalk/protocol/client"
	"redstalk/storage/beanstalkd"
	"redstalk/tools/conformance/child"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// oldQueue writes a binlog with so many jobs, of all states and in three tubes.
func oldQueue(t *testing.T, jobs int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "old")
	now := tube.Instant(time.Now().UnixNano())
	var seq iter.Seq2[beanstalkd.Job, error] = func(yield func(beanstalkd.Job, error) bool) {
		for i := range jobs {
			j := beanstalkd.Job{
				ID: uint64(3*i + 7), Tube: fmt.Sprint("old", i%3), State: []tube.State{tube.Ready, tube.Delayed, tube.Buried}[i/3%3],
				Pri: uint32(i), TTR: 100, Created: now, Counters: tube.Counters{1, 2, 3, 4, 5}, Body: fmt.Appendf(nil, "body of %d", i),
			}
			if j.State == tube.Delayed {
				j.Delay, j.Due = 1_000_000, now+1_000_000_000_000_000
			}
			if !yield(j, nil) {
				return
			}
		}
	}
	if _, err := beanstalkd.Write(dir, seq, uint64(3*jobs+100)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// dialOld connects to a server that a test has started.
func dialOld(t *testing.T, addr string) *raw.Conn {
	t.Helper()
	c, err := raw.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = patience
	t.Cleanup(func() { c.Close() })
	return c
}

// wantOldQueue checks a few values of each state on a server with the jobs of oldQueue.
func wantOldQueue(t *testing.T, addr string, jobs, id int) {
	t.Helper()
	c := dialOld(t, addr)
	page, err := c.Page("stats")
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]int{"ready": jobs / 3, "delayed": jobs / 3, "buried": jobs / 3} {
		if got, _ := page.Value("current-jobs-" + state); got != fmt.Sprint(want) {
			t.Errorf("%s %s jobs, want %d", got, state, want)
		}
	}
	page, err = c.Page(fmt.Sprint("stats-job ", id))
	for key, want := range map[string]string{"tube": "old0", "state": "delayed", "pri": "3", "ttr": "100", "releases": "3", "kicks": "5", "delay": "1000000"} {
		if got, _ := page.Value(key); got != want || err != nil {
			t.Errorf("%s of job %d is %s, want %s: %v", key, id, got, want, err)
		}
	}
}

// TestImport imports into each engine, into an empty one and one with other jobs, and once more.
func TestImport(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 900)
	code, out, text := run(t, command("import", "--from", dir, "--dry-run"))
	if code != 0 || out != "" || !strings.Contains(text, "901 records") && !strings.Contains(text, "900 jobs") || !strings.Contains(text, "300 ready, 300 delayed (0 of them due by now), 300 buried, in 3 tubes") {
		t.Errorf("%d, %q, %q", code, out, text)
	}
	for name, args := range map[string][]string{
		"embedded": {"--store", "embedded:" + filepath.Join(t.TempDir(), "new")},
		"redis":    {"--store", redistest.Start(t).URL()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, says := range []string{"imported 900 jobs", "imported 0 jobs"} {
				code, out, text := run(t, command(append([]string{"import", "--from=" + dir}, args...)...))
				if code != 0 || out != "" || !strings.Contains(text, says) || !strings.Contains(text, "have the ids that they had") {
					t.Errorf("%d, %q, %q", code, out, text)
				}
			}
			p, addr := serve(t, append([]string{"-p0"}, args...)...)
			wantOldQueue(t, addr, 900, 3*3+7)
			c := dialOld(t, addr)
			c.Ask([]byte("put 0 0 1 1\r\nx\r\n"), 1, func(r *raw.Reply) error {
				if r.ID != 3*900+101 {
					t.Errorf("the next job is %d", r.ID)
				}
				return nil
			})
			p.signal(t, syscall.SIGTERM)
			p.code(t)

			other := oldQueue(t, 90)
			code, out, text := run(t, command(append([]string{"import", "--from", other}, args...)...))
			if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 91 || lines[0] != fmt.Sprint("7 ", 7+3*900+101) || !strings.Contains(text, "other ids") {
				t.Errorf("%d, %q, %q", code, lines[0], text)
			}
		})
	}
}

func TestImportDamaged(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	path := filepath.Join(dir, "binlog.1")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(path, 0o600)
	os.Truncate(path, info.Size()/2)
	code, _, text := run(t, command("import", "--from", dir, "--store", "embedded:"+filepath.Join(t.TempDir(), "new")))
	if code != 4 || !strings.Contains(text, "damaged: "+path+", byte ") || !strings.Contains(text, "imported 4") {
		t.Errorf("%d, %s", code, text)
	}
}

func TestImportUsage(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 3)
	for _, test := range []struct {
		says string
		code int
		args []string
	}{
		{"import needs --from", 5, []string{"import", "--store", "memory:"}},
		{"flag --from needs a value", 5, []string{"import", "--from"}},
		{"there is no binlog", 1, []string{"import", "--from", t.TempDir(), "--store", "memory:"}},
		{"export needs --to", 5, []string{"export", "--store", "memory:"}},
		{"is not binlog", 5, []string{"export", "--to", "x", "--format", "json", "--store", "memory:"}},
		{"there is a binlog already", 5, []string{"export", "--to", dir, "--store", "memory:"}},
		{"takes no value", 5, []string{"import", "--from", dir, "--dry-run=1"}},
	} {
		if code, _, text := run(t, command(test.args...)); code != test.code || !strings.Contains(text, test.says) {
			t.Errorf("%q: %d, %s", test.args, code, text)
		}
	}
}

// TestServeOldDirectory: -b with a directory of beanstalkd imports at the first start, and serves the same jobs at the next.
func TestServeOldDirectory(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	before := contents(t, dir)
	for nth := range 2 {
		cmd := command("-V", "-p0", "-b", dir)
		cmd.Env = cmd.Env[:1]
		p := start(t, cmd)
		addr := p.serving(t)
		wantOldQueue(t, addr, 90, 3*3+7)
		if warned := strings.Contains(p.stderr.String(), "the old files stay as they are"); warned != (nth == 0) {
			t.Errorf("start %d: %s", nth, p.stderr)
		}
		p.signal(t, syscall.SIGTERM)
		p.code(t)
	}
	if got := contents(t, dir); got != before {
		t.Errorf("the binlog has changed: %s, want %s", got, before)
	}
}

// TestServeChangedDirectory: a copy of the binlog with other times is the same binlog. One to which
// beanstalkd has written since is refused, by an import into the store as well: jobs that were
// finished here would come back.
func TestServeChangedDirectory(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	p := start(t, onOld(dir))
	p.serving(t)
	p.end(t)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "binlog.1"), later, later); err != nil {
		t.Fatal(err)
	}
	p = start(t, onOld(dir))
	wantOldQueue(t, p.serving(t), 90, 3*3+7)
	p.end(t)
	addr, old := trueProcess(t, "-b", dir)                   // writes a new file at its start
	dial(t, addr).ask("list-tube-used\r\n", "USING default") // it has the lock by then
	old.signal(t, syscall.SIGTERM)
	old.code(t)
	for what, cmd := range map[string]*exec.Cmd{"serving": onOld(dir), "import": command("import", "--from", dir, "-b", dir)} {
		if code, _, text := run(t, cmd); code != exitFailure || !strings.Contains(text, "beanstalkd has written to it since") {
			t.Errorf("%s: %d, %s", what, code, text)
		}
	}
}

// onOld is the binary on a directory of beanstalkd.
func onOld(dir string, args ...string) *exec.Cmd {
	cmd := command(append([]string{"-V", "-p0", "-b", dir}, args...)...)
	cmd.Env = cmd.Env[:1]
	return cmd
}

// end ends a server in good order.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Errorf("%d, %s", code, p.stderr)
	}
}

// TestServeOldDirectoryOccupied: if the destination of the import exists, it is used if it is an empty
// directory, and otherwise refused and not changed, unless an import has made it.
func TestServeOldDirectoryOccupied(t *testing.T) {
	t.Parallel()
	for what, occupy := range map[string]func(path string) error{
		"other": func(path string) error { return os.MkdirAll(filepath.Join(path, "other"), 0o755) },
		"file":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link":  func(path string) error { return os.Symlink("nowhere", path) },
		"empty": func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		dir := oldQueue(t, 90)
		if err := occupy(filepath.Join(dir, insideName)); err != nil {
			t.Fatal(err)
		}
		if what == "empty" {
			wantOldQueue(t, start(t, onOld(dir)).serving(t), 90, 3*3+7)
			continue
		}
		if code, _, text := run(t, onOld(dir)); code != 1 || !strings.Contains(text, "not made from the binlog in "+dir) {
			t.Errorf("%s: %d, %s", what, code, text)
		}
		if _, err := os.Lstat(filepath.Join(dir, insideName)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestServeOldDirectoryAnew: the remains of an interrupted import are removed: here they are of another binlog.
func TestServeOldDirectoryAnew(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	half := filepath.Join(dir, insideName+unfinishedMark)
	if code, _, text := run(t, command("import", "--from", oldQueue(t, 30), "--store", "embedded:"+half)); code != 0 {
		t.Fatal(text)
	}
	wantOldQueue(t, start(t, onOld(dir)).serving(t), 90, 3*3+7)
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", half, err)
	}
}

// TestServeOldDirectoryLater: the store is found when the old files have been removed, and where an earlier
// version has made it.
func TestServeOldDirectoryLater(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	p := start(t, onOld(dir))
	p.serving(t)
	p.end(t)
	beside := dir + siblingSuffix
	for _, change := range []func() error{
		func() error { return os.Rename(filepath.Join(dir, insideName), beside) },
		func() error { return os.Remove(filepath.Join(dir, "binlog.1")) },
		func() error { return os.Rename(beside, filepath.Join(dir, insideName)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		p := start(t, onOld(dir))
		wantOldQueue(t, p.serving(t), 90, 3*3+7)
		_, err := os.Stat(beside)
		if warned := strings.Contains(p.stderr.String(), "where an earlier version made it"); warned != (err == nil) {
			t.Errorf("%v: %s", err, p.stderr)
		}
		p.end(t)
		code, out, text := run(t, command("export", "--store", "embedded:"+dir, "--to", filepath.Join(t.TempDir(), "back")))
		if code != 0 || !strings.Contains(out, "exported 90 jobs") {
			t.Errorf("export: %d, %s%s", code, out, text)
		}
	}
}

// TestServeOldDirectoryOfBoth: a directory with both a binlog and jobs of redstalk is refused.
func TestServeOldDirectoryOfBoth(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "both")
	p := start(t, onOld(dir))
	p.serving(t)
	p.end(t)
	if err := os.Rename(filepath.Join(oldQueue(t, 3), "binlog.1"), filepath.Join(dir, "binlog.1")); err != nil {
		t.Fatal(err)
	}
	if code, _, text := run(t, onOld(dir)); code != 1 || !strings.Contains(text, "a binlog of beanstalkd and jobs of redstalk") {
		t.Errorf("%d, %s", code, text)
	}
	if err := os.Rename(filepath.Join(dir, "binlog.1"), filepath.Join(oldQueue(t, 3), "binlog.1")); err != nil {
		t.Fatal(err)
	}
	other := oldQueue(t, 3)
	p = start(t, onOld(other))
	p.serving(t)
	p.end(t)
	if err := os.Rename(filepath.Join(other, insideName), filepath.Join(dir, insideName)); err != nil {
		t.Fatal(err)
	}
	if code, _, text := run(t, onOld(dir)); code != 1 || !strings.Contains(text, "both "+dir+" and") {
		t.Errorf("%d, %s", code, text)
	}
}

// TestServeOldDirectoryInUse: while beanstalkd or another import uses the binlog, nothing is imported.
func TestServeOldDirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	lock, err := lockImport(dir)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, text := run(t, onOld(dir)); code != exitLocked || !strings.Contains(text, "another process uses the directory") {
		t.Errorf("%d, %s", code, text)
	}
	lock.Close()
	trueServer(t, "-b", dir)
	if code, _, text := run(t, onOld(dir)); code != exitLocked || !strings.Contains(text, "a beanstalkd uses the directory") {
		t.Errorf("%d, %s", code, text)
	}
	if _, err := os.Stat(filepath.Join(dir, insideName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a store: %v", err)
	}
}

// TestKeepsBeanstalkdOut: while its jobs are served from a store, no beanstalkd starts on a directory
// where one has run.
func TestKeepsBeanstalkdOut(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	addr, old := trueProcess(t, "-b", dir)
	dial(t, addr).ask("list-tube-used\r\n", "USING default") // it has the lock by then
	old.signal(t, syscall.SIGTERM)
	old.code(t)
	for range 2 { // the first start imports
		p := start(t, onOld(dir))
		p.serving(t)
		again := start(t, exec.Command("beanstalkd", "-l", "127.0.0.1", "-p", child.FreePort(), "-b", dir))
		if code := again.code(t); code == 0 || !strings.Contains(again.stderr.String(), "lock") {
			t.Errorf("beanstalkd: %d, %s", code, again.stderr)
		}
		p.end(t)
	}
}

// TestServeOldDirectoryAsItsOwner: as on Debian, the user may write in the directory, but not in its parent.
func TestServeOldDirectoryAsItsOwner(t *testing.T) {
	t.Parallel()
	nobody := needRoot(t)
	uid, _ := strconv.Atoi(nobody.Uid)
	dir := oldQueue(t, 90)
	for _, path := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "binlog.1")} {
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	wantOldQueue(t, start(t, onOld(dir, "-u", "nobody")).serving(t), 90, 3*3+7)
}

// TestServeInsideOldDirectory: the program warns that a new store inside beanstalkd's directory does not have its jobs.
func TestServeInsideOldDirectory(t *testing.T) {
	t.Parallel()
	dir := oldQueue(t, 90)
	for nth := range 2 {
		p := start(t, onOld(filepath.Join(dir, "redstalk")))
		p.serving(t)
		if warned := strings.Contains(p.stderr.String(), "whose jobs are not imported"); warned != (nth == 0) {
			t.Errorf("start %d: %s", nth, p.stderr)
		}
		p.end(t)
	}
}

// trueServer starts the real beanstalkd on a unix socket, and returns its address.
func trueServer(t *testing.T, args ...string) (addr string) {
	addr, _ = trueProcess(t, args...)
	return addr
}

// trueProcess is trueServer with the process.
func trueProcess(t *testing.T, args ...string) (addr string, p *process) {
	t.Helper()
	judge, addr := child.Beanstalkd(t, args...)
	return addr, &process{judge, output{judge.Stdout}, output{judge.Stderr}}
}

// contents are the names of the files of a directory, when they were changed, and sums of their bytes. It
// leaves out directories.
func contents(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		info, statErr := e.Info()
		if err := errors.Join(readErr, statErr); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&s, "%s %v %v %x\n", e.Name(), info.Mode(), info.ModTime(), sha256.Sum256(b))
	}
	return s.String()
}

// TestExport: the real beanstalkd opens an exported binlog, and another import gets its jobs back.
func TestExport(t *testing.T) {
	t.Parallel()
	dir, store := oldQueue(t, 360), "embedded:"+filepath.Join(t.TempDir(), "new")
	if code, _, text := run(t, command("import", "--from", dir, "--store", store)); code != 0 {
		t.Fatal(text)
	}
	back := filepath.Join(t.TempDir(), "back")
	if code, out, text := run(t, command("export", "--format", "binlog", "--store", store, "--to", back)); code != 0 || !strings.Contains(out, "exported 360 jobs") {
		t.Fatal(code, out, text)
	}
	if info, err := os.Stat(filepath.Join(back, "binlog.1")); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("its mode is not that of beanstalkd's files: %v, %v", info.Mode(), err)
	}
	addr := trueServer(t, "-b", back)
	wantOldQueue(t, addr, 360, 3*3+7)
	c := dialOld(t, addr)
	c.Ask([]byte("put 0 0 1 1\r\nx\r\n"), 1, func(r *raw.Reply) error {
		if r.ID != 3*360+101 {
			t.Errorf("beanstalkd goes on with job %d", r.ID)
		}
		return nil
	})
}

// TestImportMany imports very many jobs, -import-jobs 1000000, and says how long it takes. That
// fails only if -import-within says so, for a machine on which nothing else runs.
func TestImportMany(t *testing.T) {
	if *importJobs == 0 {
		t.Skip("-import-jobs says how many")
	}
	dir := oldQueue(t, *importJobs)
	for name, store := range map[string]string{
		"embedded": "embedded:" + filepath.Join(t.TempDir(), "new"),
		"redis":    redistest.Start(t).URL(),
	} {
		began := time.Now()
		code, _, text := run(t, command("import", "--from", dir, "--store", store))
		took := time.Since(began)
		t.Logf("%d jobs into %s in %v", *importJobs, name, took)
		if code != 0 || *importWithin > 0 && took > *importWithin {
			t.Errorf("code %d, %v: %s", code, took, text)
		}
	}
}

var (
	importJobs   = flag.Int("import-jobs", 0, "how many jobs TestImportMany imports; 0: none")
	importWithin = flag.Duration("import-within", 0, "how long that may take; 0: as long as it does")
)

// TestImportKilled: an import that is killed repeatedly, and then run once more, imports each job once: with the
// command, and at the start of a server with -b.
func TestImportKilled(t *testing.T) {
	atLength(t)
	t.Parallel()
	const jobs = 45_000
	dir := oldQueue(t, jobs)
	for name, store := range map[string]string{
		"embedded": "embedded:" + filepath.Join(t.TempDir(), "new"),
		"redis":    redistest.Start(t).URL(),
		"inside":   "embedded:" + dir,
	} {
		t.Run(name, func(t *testing.T) {
			// Small segments, so that much is in the tables.
			args := []string{"import", "--from", dir, "--store", store, "-s", "1048576"}
			if name == "inside" {
				args = []string{"-p0", "--store", store, "-s", "1048576"}
			}
			killed := 0
			for kill := range 5 {
				p := start(t, command(args...))
				select {
				case <-p.Ended:
				case <-time.After(time.Duration(kill+1) * 60 * time.Millisecond):
					killed++
				}
				p.Cmd.Process.Kill()
				<-p.Ended
				if strings.Contains(p.stderr.String(), "level=ERROR") {
					t.Errorf("%s", p.stderr)
				}
			}
			if code, _, text := run(t, command("import", "--from", dir, "--store", store)); name != "inside" && (code != 0 || strings.Contains(text, "level=ERROR")) {
				t.Fatal(code, text)
			} else if name != "inside" {
				t.Logf("killed %d times, then: %s", killed, text)
			}
			_, addr := serve(t, "-p0", "--store", store)
			wantOldQueue(t, addr, jobs, 3*3+7)
		})
	}
}
