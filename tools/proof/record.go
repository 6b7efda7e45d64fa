package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Results of a run.
const (
	passedRun  = "passed"
	failedRun  = "failed"  // something was found
	voidRun    = "void"    // a test could not be played, or nothing was counted
	stoppedRun = "stopped" // before its end
)

// record is what came of a run: a line of the file of records.
type record struct {
	Part    string         `json:"part"`
	Time    time.Time      `json:"time"` // when it began
	Commit  string         `json:"commit"`
	Changed bool           `json:"changed,omitempty"` // the tree was not that of the commit
	Seed    uint64         `json:"seed,omitempty"`    // 0: it makes no choices
	Again   string         `json:"again"`             // how to do the same once more
	Seconds int            `json:"seconds"`
	Result  string         `json:"result"`
	Counts  map[string]int `json:"counts,omitempty"`
	Kinds   map[string]int `json:"kinds,omitempty"`
	Said    []string       `json:"said,omitempty"`
	Found   []string       `json:"found,omitempty"` // what went wrong, or why it is void
	Load    string         `json:"load"`            // load averages at the beginning and at the end
	Machine machine        `json:"machine"`

	// Remark is written by hand: what became of what was found.
	Remark string `json:"remark,omitempty"`
}

// machine is what a run was made on.
type machine struct {
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Beanstalkd string `json:"beanstalkd"`
	Redis      string `json:"redis"`
}

// newRecord begins the record of a run.
func newRecord(p *part, o options) (*record, error) {
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return nil, fmt.Errorf("asking git for the commit: %w", err)
	}
	// The records themselves change with every run.
	changes, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!docs/proof.md", ":!docs/proof.jsonl").Output()
	if err != nil {
		return nil, fmt.Errorf("asking git for changes: %w", err)
	}
	r := &record{
		Part: p.name, Time: time.Now().UTC().Truncate(time.Second), Commit: strings.TrimSpace(string(commit)),
		Changed: len(changes) > 0, Again: p.again(o), Load: loadAverage(), Machine: thisMachine(),
	}
	if p.seeded {
		r.Seed = o.seed
	}
	return r, nil
}

// thisMachine asks what is here.
func thisMachine() machine {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m := machine{Cores: runtime.NumCPU(), Kernel: strings.TrimSpace(string(kernel)), Go: strings.TrimPrefix(runtime.Version(), "go")}
	m.Beanstalkd = strings.TrimPrefix(version("beanstalkd", "-v"), "beanstalkd ")
	for field := range strings.FieldsSeq(version("redis-server", "--version")) {
		if is, found := strings.CutPrefix(field, "v="); found {
			m.Redis = is
		}
	}
	return m
}

// version is what a program says of itself, "none" if it is not here.
func version(program, flag string) string {
	out, err := exec.Command(program, flag).Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// loadAverage is that of the last minute; empty where the system does not tell.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// String is the record in a line.
func (r *record) String() string {
	s := fmt.Sprintf("%s: %s after %v", r.Part, r.Result, time.Duration(r.Seconds)*time.Second)
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		s += fmt.Sprintf(", %s %s", name, thousands(r.Counts[name]))
	}
	for _, line := range r.Found {
		s += "\n  " + line
	}
	return s
}

// readRecords reads the file of records; there are none if it is not there.
func readRecords(path string) (all []*record, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the records: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		r := new(record)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, number, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// appendRecord adds a record to the file.
func appendRecord(path string, r *record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the records: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return nil
}
