package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// pairsFolder has a folder for each language of clients, with two programs: put puts a job with a type and prints its result, and
// work handles such jobs.
const pairsFolder = "../../testdata/pairs/"

// A pairLanguage has the command lines of its programs, to which address, tube and the language are added.
type pairLanguage struct{ put, work []string }

// pairLanguages returns the languages whose clients are tried with each other.
func pairLanguages(t *testing.T) map[string]pairLanguage {
	t.Helper()
	languages := map[string]pairLanguage{"go": {buildPair(t, "put"), buildPair(t, "work")}}
	for name, program := range map[string]struct{ runs, suffix string }{
		"php": {"php", "php"}, "python": {"/usr/bin/python3", "py"}, "ruby": {"ruby", "rb"}, "typescript": {"node", "mjs"},
	} {
		put, work := pairsFolder+name+"/put."+program.suffix, pairsFolder+name+"/work."+program.suffix
		if _, err := os.Stat("../../clients/typescript/dist"); err != nil && name == "typescript" {
			t.Log("clients/typescript was not built, so it is not tried")
			continue
		}
		languages[name] = pairLanguage{[]string{program.runs, put}, []string{program.runs, work}}
	}
	return languages
}

// buildPair builds a program in Go, and returns its command line.
func buildPair(t *testing.T, name string) []string {
	t.Helper()
	source, program := must(filepath.Abs(pairsFolder+"go/"+name+"/main.go"))(t), filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, source)
	cmd.Dir = "../../clients/go"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", source, err, out)
	}
	return []string{program}
}

// TestPairs: a job with a type that the client of one language puts is handled by a worker of each, with all that it has: its data,
// key, meta, trace, batch and group, a retry with a checkpoint and a reason, and its result.
func TestPairs(t *testing.T) {
	atLength(t)
	languages := pairLanguages(t)
	for engine, store := range map[string]string{"embedded": "embedded:" + t.TempDir(), "redis": redistest.Start(t).URL()} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			_, addr := serve(t, "-p", "0", "--store", store)
			workers := map[string]*process{}
			for to, language := range languages {
				workers[to] = start(t, exec.Command(language.work[0], append(language.work[1:], addr, "to-"+to, to)...))
			}
			pairUp(t, languages, addr)
			for to, w := range workers {
				if w.signal(t, syscall.SIGTERM); w.codeWithin(t, 10*time.Second) != 0 {
					t.Errorf("the worker in %s ended with %d", to, w.code(t))
				}
				if t.Failed() {
					t.Logf("the worker in %s said:\n%s%s", to, w.stdout, w.stderr)
				}
			}
		})
	}
}

// pairUp lets each language put a job for the worker of each, some at a time.
func pairUp(t *testing.T, languages map[string]pairLanguage, addr string) {
	var all sync.WaitGroup
	turns := make(chan bool, 4)
	for _, from := range slices.Sorted(maps.Keys(languages)) {
		for _, to := range slices.Sorted(maps.Keys(languages)) {
			all.Go(func() {
				turns <- true
				defer func() { <-turns }()
				if err := tryPair(t.Context(), languages[from].put, addr, from, to); err != nil {
					t.Errorf("a job put in %s for a worker in %s: %v", from, to, err)
				}
			})
		}
	}
	all.Wait()
}

// tryPair puts a job, and compares its result.
func tryPair(ctx context.Context, put []string, addr, from, to string) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	tube := "to-" + to
	cmd := exec.CommandContext(ctx, put[0], append(put[1:len(put):len(put)], addr, tube, from)...)
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w; its output: %s", err, said)
	}
	var result map[string]any
	if err := json.Unmarshal(said, &result); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	want := map[string]any{
		"to": to, "from": from, "n": 8.0, "text": "é\n", "step": 1.0, "key": "pair-" + from + "-" + tube, "request": "4711", "type": "application/json",
		"trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "group": "acme", "batch": "batch-" + tube,
		"reason": "first try of " + to,
	}
	if text, ok := result["reason"].(string); ok && strings.HasSuffix(text, ": first try of "+to) {
		want["reason"] = text // in some languages with the name of the exception
	}
	var wrong []string
	for field := range maps.Keys(merged(want, result)) {
		if !reflect.DeepEqual(want[field], result[field]) {
			wrong = append(wrong, fmt.Sprintf("%s is %#v, not %#v", field, result[field], want[field]))
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

func merged(a, b map[string]any) map[string]any {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}
