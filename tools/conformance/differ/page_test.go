package differ

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const jobPage = "---\nid: 1\ntube: t\nstate: reserved\nage: 1\ntime-left: 5\nfile: 0\n"

// TestComparePages: a page may differ in what is in the table and in nothing
// else.
func TestComparePages(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(jobPage, old, new, 1) }
	for _, c := range []struct{ got, why string }{
		{jobPage, ""},
		{swap("tube: t", `tube: "t"`), ""},
		{swap("age: 1", "age: 2"), ""},
		{swap("time-left: 5", "time-left: 4"), ""},
		{swap("file: 0", "file: 12"), ""},
		{jobPage + "more: 1\n", ""},
		{swap("age: 1", "age: 3"), "age: 3"},
		{swap("age: 1", "age: x"), "age: x"},
		{swap("file: 0", "file: "), "file: "},
		{swap("state: reserved", "state: ready"), "state: ready"},
		{swap("id: 1", "id: 2"), "id: 2"},
		{swap("age: 1\n", ""), "time-left: 5"},
		{swap("file: 0\n", ""), "the end of the page"},
		{jobPage + "age: 1\n", "age: 1"},
		{swap("age: 1", "age"), `the line "age"`},
		{strings.TrimSuffix(jobPage, "\n"), "no page"},
		{"", "no page"},
	} {
		why := ""
		if f := comparePages(readPage(jobPage), readPage(c.got), 1); f != nil {
			why = f.Got
		}
		if why != c.why {
			t.Errorf("%q: %q differs, want %q", c.got, why, c.why)
		}
	}
	ready := swap("state: reserved", "state: ready")
	if f := comparePages(readPage(ready), readPage(strings.Replace(ready, "time-left: 5", "time-left: 4", 1)), 1); f == nil {
		t.Error("time-left of a ready job may differ")
	}
}

// TestAge: if the machine has stood still since a step was begun, one of the two
// may have carried it out before that and the other after it. And a job's age
// begins with the line of its put for beanstalkd, with its body for the subject.
func TestAge(t *testing.T) {
	for _, c := range []struct {
		step, put time.Duration // ago, when they were begun
		age       int           // according to the judge; to the subject it is 0
		same      bool
	}{
		{0, 0, 1, true},
		{0, 0, 2, false},
		{38 * time.Second, 0, 38, true},
		{38 * time.Second, 0, 41, false},
		{0, 2 * time.Second, 3, true},
		{0, 2 * time.Second, 5, false},
	} {
		says := func(age int) *side {
			body := fmt.Sprintf("---\nid: 1\nstate: ready\nage: %d\n", age)
			replies := []reply{{head: "INSERTED 1"}, {head: "OK 9", body: body, data: true}}
			return &side{links: map[int]*link{1: {replies: replies}}}
		}
		now := time.Now()
		put := &sentCommand{verb: "put", line: "put 0 0 1 1", whole: true, since: now.Add(-c.put)}
		e := &episode{
			begun: now.Add(-c.step), judge: says(c.age), subject: says(0), covered: make(Coverage), log: []entry{{}},
			jobs: make(map[int]*job), byJudge: make(map[uint64]int), bySubject: make(map[uint64]int),
			conns: map[int]*conn{1: {pending: []*sentCommand{put, {verb: "stats-job", line: "stats-job 1"}}}},
		}
		if err := e.consume(map[int]int{1: 2}); err == nil != c.same {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestDifferencesAreShown: the table has every transcript in which beanstalkd
// and redstalk are written to differ, and names none that is not there.
func TestDifferencesAreShown(t *testing.T) {
	const folder = "../../../testdata/transcripts/"
	listed := make(map[string]bool)
	for _, d := range Differences {
		if d.Name == "" || d.Reason == "" || d.Means == "" {
			t.Errorf("%+v is not complete", d)
		}
		listed[d.Transcript] = true
		if _, err := os.Stat(folder + d.Transcript + ".txt"); d.Transcript != "" && err != nil {
			t.Error(err)
		}
	}
	files, err := filepath.Glob(folder + "*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if strings.Contains(string(text), "\nonly ") && !listed[name] {
			t.Errorf("%s.txt shows a difference that is not in the table", name)
		}
	}
}
