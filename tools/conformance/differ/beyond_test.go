package differ_test

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/compile"
	"redstalk/tools/conformance/differ"
	"redstalk/tools/conformance/transcript"
)

var subject = flag.String("program", "", "the redstalkd to play on with what beanstalkd does not know; built if empty")

// built is the directory of the program, "" if none was built.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// redstalkd builds the program once, and returns where it is.
var redstalkd = sync.OnceValues(func() (string, error) {
	if *subject != "" {
		return *subject, nil
	}
	dir, err := os.MkdirTemp("", "differ")
	if err != nil {
		return "", err
	}
	built = dir
	file := filepath.Join(dir, "redstalkd")
	return file, compile.Program(file, "redstalk/cmd/redstalkd")
})

// inMemory starts the program with its jobs in memory.
func inMemory(t *testing.T) func(flags ...string) (differ.Server, error) {
	binary, err := redstalkd()
	if err != nil {
		t.Fatal(err)
	}
	return func(flags ...string) (differ.Server, error) {
		dir := t.TempDir()
		srv, err := transcript.Start("redstalk", binary, dir, append([]string{"--store", "memory:"}, flags...)...)
		if err != nil {
			return differ.Server{}, err
		}
		target := srv.Target()
		return differ.Server{Dial: target.Dial, Signal: target.Signal, Stop: srv.Stop}, nil
	}
}

// TestAgainstItselfBeyond: the same for what beanstalkd does not know.
func TestAgainstItselfBeyond(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	report := compare(t, differ.Config{
		Judge: inMemory(t), Subject: inMemory(t), Beyond: true, Seed: *seed, Plain: *plain, Timed: *timed,
		Log: t.Logf, Shrink: 20 * time.Second,
	})
	for _, f := range report.Found {
		t.Error(f)
	}
	t.Logf("%d plain, %d timed, %d scripts, %d voided, %d doubtful\n%v\nnever seen: %q",
		report.Plain, report.Timed, report.Scripts, report.Voided, report.Doubtful, report.Coverage, report.Coverage.MissingBeyond())
}

// TestFindsForgeriesBeyond: a server that differs in one thing that beanstalkd does not
// know is found out.
func TestFindsForgeriesBeyond(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	start := inMemory(t)
	for i, c := range []struct {
		name   string
		change []string
	}{
		{"state of a duplicate", []string{" READY\r\n", " DELAYED\r\n"}},
		{"duplicate", []string{"DUPLICATE ", "DUPLICATE 1"}},
		{"body by key", []string{"FOUND 2 ", "FOUND 1 "}},
		{"lease", []string{"LEASED 1 00001", "LEASED 1 00002"}},
		{"size of a batch", []string{"RESERVED_BATCH 2\r\n", "RESERVED_BATCH 1\r\n"}},
		{"job of a batch", []string{"RESERVED 2 ", "RESERVED 1 "}},
		{"batch", []string{"DELETED_BATCH 1 1\r\n", "DELETED_BATCH 2 0\r\n"}},
		{"moved", []string{"MOVED 1\r\n", "MOVED 2\r\n"}},
		{"flushed", []string{"FLUSHED 1\r\n", "FLUSHED 0\r\n"}},
		{"policy", []string{"on-duplicate: fail\n", "on-duplicate: keep\n"}},
		{"order of policies", []string{"- t\n- u\n", "- u\n- t\n"}},
		{"next page", []string{"next: \"\"\njobs:\n", "next: 1.1\njobs:\n"}},
		{"job of a list", []string{"- {id: 2, ", "- {id: 1, "}},
		{"end of a list", []string{", kicks: 0}\n", "}\n"}},
		{"due", []string{"due-ms: 0, ", "due-ms: 900, "}},
		{"where from", []string{"from-id: ", "from-id: 9"}},
		{"parked", []string{"parked: deliveries\n", "parked: retries\n"}},
		{"quota", []string{"OUT_OF_MEMORY\r\n", "DRAINING\r\n"}},
		{"dead letters", []string{"current-jobs-buried: 1\n", "current-jobs-buried: 0\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if i%18 != 0 && !*everyForgery {
				t.Skip("-every-forgery")
			}
			t.Parallel()
			report := compare(t, differ.Config{
				Judge: start, Subject: forged(start, c.change...), Beyond: true, Seed: *seed, Plain: 100_000,
				Patience: busy.Times(400 * time.Millisecond), Shrink: time.Second,
			})
			if len(report.Found) == 0 {
				t.Fatal("it was not found out")
			}
			found := report.Found[0]
			if _, err := transcript.Parse(c.name, found.Transcript); err != nil {
				t.Error(err, found)
			}
		})
	}
}
