package differ_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"redstalk/protocol/conformance/differ"
	"redstalk/protocol/conformance/transcript"
)

var subject = flag.String("program", "", "the redstalkd to play on with what beanstalkd does not know; built if empty")

// program builds redstalk once, and returns where it is.
var program = sync.OnceValues(func() (string, error) {
	if *subject != "" {
		return *subject, nil
	}
	dir, err := os.MkdirTemp("", "differ")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "redstalkd")
	out, err := exec.Command("go", "build", "-o", file, "redstalk/cmd/redstalkd").CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return file, err
})

// inMemory starts the program with its jobs in memory.
func inMemory(t *testing.T) func(flags ...string) (differ.Server, error) {
	binary, err := program()
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
