//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/ledger"
)

// putOnlyLoad is a load of puts. refused is called for each refused put.
func putOnlyLoad(port string, refused func(error)) *ledger.Ledger {
	return ledger.New(ledger.Config{
		Addrs: []string{"127.0.0.1:" + port}, Producers: hoarders, Backlog: 1 << 20,
		MinBody: 1000, MaxBody: 60_000, Refused: refused, Patience: 2 * time.Second,
	})
}

const hoarders = 4

// TestDiskReserve repeatedly fills the disk down to the reserve. Then
// puts are refused and everything else works, including a start after a kill. When
// jobs have been deleted there is room for others.
func TestDiskReserve(t *testing.T) {
	atLength(t)
	t.Parallel()
	const size, reserve = 64 * mib, 32 * mib
	dir, port := mountDisk(t, size), child.FreePort()
	args := []string{"-p", port, "-b", dir + "/jobs", "-s", strconv.Itoa(mib), "--disk-reserve", strconv.Itoa(reserve)}
	p, addr := serve(t, args...)
	c := dial(t, addr)
	c.ask("use mine\r\nwatch mine\r\nignore default\r\n", "USING mine", "WATCHING 2", "WATCHING 1")
	for i := range 3 {
		c.ask(fmt.Sprintf("put %d 0 600 1\r\nx\r\n", i), fmt.Sprint("INSERTED ", i+1))
	}
	refused := make(chan error, 1)
	record := putOnlyLoad(port, func(err error) {
		select {
		case refused <- err:
		default:
		}
	})
	fill := func() {
		t.Helper()
		putUntilRefused(t, record, refused)
		free, waited := awaitFree(t, dir, reserve/2)
		t.Logf("%d MiB of %d are free after %v, %d are to be: %v", free/mib, size/mib, waited, reserve/mib, record.Report())
		if free < reserve/2 {
			t.Errorf("%d bytes are free, %d were to be", free, reserve)
		}
	}
	drain := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
		defer cancel()
		if err := record.Drain(ctx); err != nil {
			t.Fatal(err)
		}
	}

	fill()
	workWithoutPuts(c)
	drain()
	awaitRoom(t, dir, addr, 300)
	fill()
	p.signal(t, syscall.SIGKILL)
	p.code(t)
	_, addr = serve(t, args...)
	dial(t, addr).ask("peek 2\r\n", "FOUND 2 1", "x")
	drain()
	if r := record.Report(); r.PutsAcked < 500 {
		t.Errorf("that was no load: %v", r)
	}
}

// awaitFree waits until so much is free, for some time, and returns how much is, and after how
// long. There is no event to wait for: files that are rewritten by compaction take space from the
// reserve until the old ones are removed.
func awaitFree(t *testing.T, dir string, want int) (free int, waited time.Duration) {
	t.Helper()
	begun := time.Now()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for free = freeOn(t, dir); free < want && waited < 5*time.Second; waited = time.Since(begun) {
		<-look.C
		free = freeOn(t, dir)
	}
	return free, waited
}

// putUntilRefused runs the load until puts have been refused for a while:
// compaction can make room for a few more at first.
func putUntilRefused(t *testing.T, record *ledger.Ledger, refused <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() { record.Run(ctx) })
	defer load.Wait()
	defer stop()
	for range 100 {
		receive(t, refused)
	}
}

// workWithoutPuts does the work of a worker, with the jobs 1 to 3 of the watched tube.
func workWithoutPuts(c *client) {
	c.t.Helper()
	big := strings.Repeat("x", 60_000)
	c.ask("use big\r\n", "USING big")
	c.refused(fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", len(big), big))
	c.ask("use mine\r\n", "USING mine")
	c.ask("reserve\r\n", "RESERVED 1 1", "x")
	c.ask("touch 1\r\n", "TOUCHED")
	c.ask("release 1 5 0\r\n", "RELEASED")
	c.ask("reserve\r\n", "RESERVED 2 1", "x")
	c.ask("bury 2 7\r\n", "BURIED")
	c.ask("kick 10\r\n", "KICKED 1")
	c.ask("reserve\r\n", "RESERVED 3 1", "x")
	c.ask("release 3 0 1000\r\n", "RELEASED")
	c.ask("kick-job 3\r\n", "KICKED")
	c.ask("pause-tube mine 0\r\n", "PAUSED")
	c.ask("delete 3\r\n", "DELETED")
}

// refused repeats a put until it is refused, which is at once unless old files
// have just been removed.
func (c *client) refused(put string) {
	c.t.Helper()
	line := ""
	for range 1000 {
		c.send(put)
		if line = c.line(); line == "OUT_OF_MEMORY" {
			return
		}
	}
	c.t.Fatalf("a put is answered %q", line)
}

// awaitRoom repeats puts until n jobs of 60,000 bytes are accepted:
// the log removes files in its own time, and there is no event to
// wait for.
func awaitRoom(t *testing.T, dir, addr string, n int) {
	t.Helper()
	c, begun, accepted := dial(t, addr), time.Now(), 0
	put := fmt.Sprintf("put 0 0 60 60000\r\n%s\r\n", strings.Repeat("x", 60_000))
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for time.Since(begun) < patience*3/4 {
		c.send(put)
		if !strings.HasPrefix(c.line(), "INSERTED ") {
			<-again.C
			continue
		}
		if accepted++; accepted == 1 || accepted == n {
			t.Logf("%v after the last job was deleted %d puts have been accepted; %d MiB are free",
				time.Since(begun), accepted, freeOn(t, dir)/mib)
		}
		if accepted == n {
			return
		}
	}
	t.Errorf("%v after every job was deleted %d puts have been accepted, want %d; %d MiB are free",
		time.Since(begun), accepted, n, freeOn(t, dir)/mib)
}

// TestDiskFull fills the disk to the last byte. Either the program
// ends with a line that says why, or nobody gets a reply. It does not flood the log.
// When there is room again it has every job that it had acknowledged.
func TestDiskFull(t *testing.T) {
	atLength(t)
	t.Parallel()
	for _, flags := range [][]string{
		{"-f", "0", "-s", strconv.Itoa(mib)}, {"-f", "50", "-s", strconv.Itoa(mib)}, {"-f", "0", "-s", strconv.Itoa(4 * mib)},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			dir, port := mountDisk(t, 16*mib), child.FreePort()
			args := append([]string{"-p", port, "-b", dir, "--disk-reserve", "0"}, flags...)
			p, _ := serve(t, args...)
			record := putOnlyLoad(port, nil)
			ended := fillUp(t, p, dir, record)
			t.Logf("ended: %v; %v", ended, record.Report())
			if ended {
				verifyLastLine(t, p)
				p = startOnFullDisk(t, args)
			}
			growDisk(t, dir, 64*mib)
			serving := strings.Contains(p.stderr.String(), "msg=serving")
			if !serving && p.endsWithin(5*time.Second) || p.endsWithin(100*time.Millisecond) {
				p, _ = serve(t, args...)
			}
			p.serving(t)
			verifyLedger(t, record)
			if n := len(p.stderr.String()); n > 64<<10 {
				t.Errorf("%d bytes on standard error", n)
			}
		})
	}
}

// fillUp puts until the program has ended, or no client gets a reply any more.
func fillUp(t *testing.T, p *process, dir string, record *ledger.Ledger) (ended bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { record.Run(ctx) })
	defer load.Wait()
	defer stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for broken := 0; ; {
		select {
		case <-p.Ended:
			return true
		case <-ctx.Done():
			t.Fatalf("the disk does not get full: %v", record.Report())
		case <-look.C:
			switch now := record.Report().Broken; {
			case freeOn(t, dir) > mib:
				broken = now // because of something else
			case now >= broken+hoarders:
				return p.endsWithin(time.Second)
			}
		}
	}
}

func (p *process) endsWithin(d time.Duration) bool {
	select {
	case <-p.Ended:
		return true
	case <-time.After(d):
		return false
	}
}

// verifyLastLine checks the last line of a program that ended because of a full
// disk: an operator must find the cause there.
func verifyLastLine(t *testing.T, p *process) {
	t.Helper()
	text := p.stderr.String()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if code := p.code(t); code != 1 || !strings.Contains(last, "no space left on device") ||
		strings.Contains(text, "goroutine ") || len(text) > 64<<10 {
		t.Errorf("exit code %d, and the last of %d bytes on standard error are:\n%s", code, len(text), text[max(0, len(text)-1500):])
	}
}

// startOnFullDisk starts the program on a full disk, and returns when
// it has reported that.
func startOnFullDisk(t *testing.T, args []string) *process {
	t.Helper()
	p := start(t, command(append([]string{"-V"}, args...)...))
	p.stderr.await(t, `no space left on device|msg=serving`)
	return p
}

// verifyLedger takes out all jobs and checks the ledger.
func verifyLedger(t *testing.T, record *ledger.Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	if err := record.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if r := record.Report(); r.PutsAcked < 100 || r.PutsUnknown == 0 || r.DeletesAcked < r.PutsAcked {
		t.Errorf("that was no load: %v", r)
	}
}

// TestSyncedByTimer traces system calls: with -f 100 a single write is
// synced without another one after it.
func TestSyncedByTimer(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is needed to see what is synced")
	}
	p, addr := serve(t, "-p0", "-b", t.TempDir(), "-f", "100")
	c := dial(t, addr)
	tracer := start(t, exec.Command(strace, "-f", "-y", "-e", "trace=fsync,fdatasync,sync_file_range", "-p", strconv.Itoa(p.Pid())))
	select {
	case <-tracer.Ended:
		t.Skipf("strace cannot attach here: %s", tracer.stderr)
	case <-tracer.attached(p.Pid()):
	case <-time.After(patience):
		t.Fatalf("strace does not attach: %s", tracer.stderr)
	}
	const synced = `(?:fsync|fdatasync|sync_file_range)\([^)]*/[^/)]*log[^/)]*>`
	pattern := synced
	for i := range 3 {
		// The sync of the put before has just begun, and this one comes
		// after it.
		c.ask("put 0 0 60 1\r\nx\r\n", fmt.Sprint("INSERTED ", i+1))
		tracer.stderr.await(t, pattern)
		pattern += `[\s\S]*` + synced
	}
}

// attached is closed when strace reports that it is.
func (p *process) attached(pid int) <-chan struct{} {
	attached := make(chan struct{})
	go func() {
		if _, err := p.stderr.Await(patience, fmt.Sprintf("Process %d attached", pid)); err == nil {
			close(attached)
		}
	}()
	return attached
}
