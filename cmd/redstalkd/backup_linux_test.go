package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/ledger"
)

// backedUpServer is a server with an HTTP API.
type backedUpServer struct {
	*process
	args []string
	dir  string // has the store, in jobs
	port string
	http string
}

func startBackedUp(t *testing.T) *backedUpServer {
	t.Helper()
	s := &backedUpServer{dir: t.TempDir(), port: child.FreePort(), http: "127.0.0.1:" + child.FreePort()}
	s.args = []string{"-p", s.port, "-s", "1048576", "--http", s.http}
	s.start(t, "jobs")
	return s
}

// start serves from a directory.
func (s *backedUpServer) start(t *testing.T, jobs string) {
	t.Helper()
	s.process, _ = serve(t, append(s.args, "-b", filepath.Join(s.dir, jobs))...)
}

// backup runs redstalkd backup.
func (s *backedUpServer) backup(t *testing.T, to string) (code int, output string) {
	t.Helper()
	code, stdout, stderr := run(t, command("backup", "--server", s.http, "--to", to))
	return code, stdout + stderr
}

func mustRun(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := run(t, command(args...))
	if code != 0 {
		t.Fatalf("%v: %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// TestBackupUnderLoad makes a backup while bursts of puts and deletes go on, and windows are written. When it is asked
// for, another load has just ended. A server on what is restored has exactly the jobs of that one.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	s := startBackedUp(t)
	addrs := []string{"127.0.0.1:" + s.port}
	judged := ledger.New(ledger.Config{Addrs: addrs, Seed: 1, Producers: 6, Consumers: 4, Kickers: 1, Bursters: 2, Leasers: 4})
	others := ledger.New(ledger.Config{Addrs: addrs, Seed: 2, Name: "others", Bursters: 6, MaxBody: 100, Backlog: 100_000})
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() { others.Run(ctx) })
	defer load.Wait()
	defer stop()

	first, end := context.WithTimeout(ctx, 2*time.Second)
	judged.Run(first)
	end()
	before, begun := others.Report(), time.Now()
	to := filepath.Join(s.dir, "backup")
	if code, output := s.backup(t, to); code != 0 {
		t.Fatal(output)
	}
	during, took := others.Report(), time.Since(begun)
	stop()
	load.Wait()
	t.Logf("the backup took %v; %d puts and %d deletes were acknowledged meanwhile", took, during.PutsAcked-before.PutsAcked, during.DeletesAcked-before.DeletesAcked)
	s.signal(t, syscall.SIGTERM)
	s.code(t)

	mustRun(t, "verify", "--from", to)
	mustRun(t, "restore", "--from", to, "--to", filepath.Join(s.dir, "restored"))
	s.start(t, "restored")
	audit, end := context.WithTimeout(t.Context(), auditLimit)
	defer end()
	if err := judged.Check(audit); err != nil {
		t.Error(err)
	}
	if err := judged.Drain(audit); err != nil {
		t.Error(err)
	}
	if r := judged.Report(); r.PutsAcked < 100 || r.DeletesAcked < 50 || during.PutsAcked == before.PutsAcked {
		t.Errorf("that was no load: %v", r)
	}
}

// TestKillDuringBackup kills the server or the command while a backup is written. There is either a whole backup or none, the
// store is as it was, and the next backup to the same path works.
func TestKillDuringBackup(t *testing.T) {
	t.Parallel()
	s := startBackedUp(t)
	c := dial(t, "127.0.0.1:"+s.port)
	c.ask("use mine\r\n", "USING mine")
	body := strings.Repeat("x", 60_000)
	const jobs = 100
	for i := range jobs {
		c.ask("put 1 0 600 60000\r\n"+body+"\r\n", fmt.Sprint("INSERTED ", i+1))
	}
	rng, whole := rand.New(rand.NewPCG(1, 0)), 0
	for round := range 6 {
		to := filepath.Join(s.dir, fmt.Sprint("backup", round))
		asking := start(t, command("backup", "--server", s.http, "--to", to))
		<-time.After(time.Duration(rng.IntN(20*(round+1))) * time.Millisecond)
		if round%2 == 0 {
			s.signal(t, syscall.SIGKILL)
			s.code(t)
			asking.code(t)
			s.start(t, "jobs")
		} else {
			asking.Kill() // it may have ended
			asking.code(t)
		}
		if _, err := os.Stat(to); err == nil {
			whole++
			mustRun(t, "verify", "--from", to)
			continue
		}
		for limit := time.Now().Add(patience); ; {
			code, output := s.backup(t, to)
			if code == 0 {
				break
			}
			if complete := strings.Contains(output, "not empty"); complete { // the server was not killed, and had finished
				break
			}
			if time.Now().After(limit) || !strings.Contains(output, "another backup") {
				t.Fatal(output)
			}
		}
		mustRun(t, "verify", "--from", to)
		if left, _ := filepath.Glob(filepath.Join(s.dir, "*.partial")); len(left) > 0 {
			t.Errorf("%v was left", left)
		}
	}
	t.Logf("%d of 6 were complete when something was killed", whole)
	dial(t, "127.0.0.1:"+s.port).ask(fmt.Sprintf("peek %d\r\n", jobs), fmt.Sprintf("FOUND %d 60000", jobs), body)
}

// TestBackupDiskFull writes a backup to another disk, which is too small at first.
func TestBackupDiskFull(t *testing.T) {
	t.Parallel()
	disk := mountDisk(t, 2*mib)
	s := startBackedUp(t)
	c := dial(t, "127.0.0.1:"+s.port)
	body := strings.Repeat("x", 60_000)
	for i := range 100 {
		c.ask("put 1 0 600 60000\r\n"+body+"\r\n", fmt.Sprint("INSERTED ", i+1))
	}
	to := filepath.Join(disk, "backup")
	if code, output := s.backup(t, to); code != exitFailure || !strings.Contains(output, "507") || !strings.Contains(output, "no space left") {
		t.Errorf("%d: %s", code, output)
	}
	if left, _ := filepath.Glob(disk + "/*"); len(left) > 0 {
		t.Errorf("%v was left", left)
	}
	c.ask("put 1 0 600 1\r\nx\r\n", "INSERTED 101")
	growDisk(t, disk, 64*mib)
	if code, output := s.backup(t, to); code != 0 {
		t.Fatal(output)
	}
	mustRun(t, "restore", "--from", to, "--to", filepath.Join(s.dir, "restored"), "--as", "buried")
	s.signal(t, syscall.SIGTERM)
	s.code(t)
	s.start(t, "restored")
	c = dial(t, "127.0.0.1:"+s.port)
	c.ask("peek 101\r\n", "FOUND 101 1", "x")
	c.ask("peek-buried\r\n", "FOUND 1 60000", body)
	c.ask("kick 1000\r\n", "KICKED 101")
}

// TestBackupEveryNight: with --dir a backup has the time as its name, older ones go, and the metric says when it was made. The address
// of the server can come from its own settings.
func TestBackupEveryNight(t *testing.T) {
	t.Parallel()
	s := startBackedUp(t)
	dial(t, "127.0.0.1:"+s.port).ask("put 1 0 600 1\r\nx\r\n", "INSERTED 1")
	if _, text := ask(t, "GET", "http://"+s.http+"/metrics", ""); strings.Contains(text, "\nredstalk_last_backup") {
		t.Error("there is a time of a backup before the first")
	}
	dir := filepath.Join(s.dir, "backups")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	older := []string{"redstalk-20200101T020000Z", "redstalk-20200102T020000Z"}
	for _, name := range older {
		if code, output := s.backup(t, filepath.Join(dir, name)); code != 0 {
			t.Fatal(output)
		}
	}
	asking := command("backup", "--dir", dir, "--keep", "2")
	asking.Env = append(os.Environ(), "REDSTALK_HTTP="+s.http)
	code, stdout, stderr := run(t, asking)
	if code != 0 || !strings.Contains(stdout, "complete and verified: "+dir+"/redstalk-20") || !strings.Contains(stdout, "removed: 1") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	names, err := filepath.Glob(dir + "/*")
	if err != nil || len(names) != 2 || filepath.Base(names[0]) != older[1] {
		t.Errorf("%v, %v", names, err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "jobs", "backup.last"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, "http://"+s.http, fmt.Sprint("redstalk_last_backup_timestamp_seconds ", made.Unix()))
}

// TestBackupUsage: what is missing or contradicts is named, before the server is asked.
func TestBackupUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--to /x":                             "REDSTALK_HTTP",
		"--server :1":                         "either --to or --dir",
		"--server :1 --to /x --dir /y":        "either --to or --dir",
		"--server :1 --to /x --keep 7":        "--keep is for --dir",
		"--server :1 --dir /x --keep 0":       "not a number of backups",
		"--server :1 --to /x --user somebody": "REDSTALK_SECRET",
	} {
		code, _, stderr := run(t, command(append([]string{"backup"}, strings.Fields(args)...)...))
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("backup %s: %d: %s", args, code, stderr)
		}
	}
}
