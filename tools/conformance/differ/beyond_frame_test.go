package differ

import (
	"slices"
	"strings"
	"testing"
)

// TestFramerBeyond: the same for what beanstalkd does not know: where a command ends, and
// which may wait.
func TestFramerBeyond(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ sent, want string }{
		{"put 0 0 1 3 key:a\r\nabc\r\nstats\r\n", "put stats"},
		{"put 0 0 1 3  max:x  key:a\r\nabc\r\n", "put"},
		{"put 0 0 1 3 key:a \r\nabc\r\n", "put! unknown"},
		{"put 0 0 1 3 key\r\nabc\r\n", "put! unknown"},
		{"put 0 0 1 3 quota-jobs:1\r\nabc\r\n", "put! unknown"},
		{"put 0 0 1 11 max:1\r\nabcdefghijk\r\nstats\r\n", "put! stats"},
		{"put 0 0 1 3 key:" + x(1006) + "\r\nabc\r\n", "put"},
		{"put 0 0 1 3 key:" + x(1007) + "\r\nabc\r\n", "unknown unknown"},
		{"put 0 0 1 3 " + x(300) + "\r\nabc\r\n", "unknown unknown"},
		{x(223) + "\r\n", "unknown"},
		{"find " + x(443) + "\r\nfind " + x(444) + "\r\n", "find unknown"},
		{"delete-batch" + strings.Repeat(" 1", 1000) + "\r\n", "delete-batch"},
		{"drain\r\ndrain \r\nundrainx\r\n", "drain unknown unknown"},
		{"reserve-lease 1\r\nreserve-lease 0\r\nreserve-lease\r\n", "reserve-lease... reserve-lease reserve"},
		{"reserve-batch 1 1\r\nreserve-batch 1\r\nreserve-batch 1001 1\r\n", "reserve-batch... reserve-batch reserve-batch"},
	} {
		for _, cut := range []int{1, 7, len(c.sent)} {
			f := framer{max: 10, beyond: true, sums: new(sums)}
			var got []string
			for part := range slices.Chunk([]byte(c.sent), cut) {
				for _, a := range f.feed(part, 0) {
					got = append(got, describe(a))
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%.60q in pieces of %d: %q, want %q", c.sent, cut, got, c.want)
			}
		}
	}
}

// TestTimesInTags: which times a line names, so that none is waited for unexpectedly.
func TestTimesInTags(t *testing.T) {
	const now = 1_700_000_000_000
	for _, c := range []struct {
		line  string
		times []uint64 // of a.seconds()
		later []uint64
	}{
		{"put 0 7 9 3 delay:2s", []uint64{2, 9}, nil},
		{"put 0 7 9 3 delay:2000ms retry:1,2m key-ttl:3s", []uint64{2, 9}, []uint64{1, 120, 3}},
		{"put 0 7 9 3 delay:1ms", []uint64{between, 9}, nil},
		{"put 0 7 9 3 at:1700000003000", []uint64{3, 9}, nil},
		{"put 0 7 9 3 at:5", []uint64{0, 9}, nil},
		{"put 0 7 9 3 key:delay:2", []uint64{7, 9}, nil},
		{"set-policy t retry:0,1500ms", nil, []uint64{0, between}},
		{"reschedule 5 1h", []uint64{3600}, nil},
		{"reserve-batch 5 2", []uint64{2}, nil},
		{"release-lease 5 x 1 2", []uint64{2}, nil},
	} {
		a := &sentCommand{line: c.line, verb: verbOf(c.line, verbsBeyond), whole: true, base: now}
		retry, keyTTL := a.later()
		if got := a.seconds(); !slices.Equal(got, c.times) {
			t.Errorf("%s: %v, want %v", c.line, got, c.times)
		}
		if got := append(retry, keyTTL...); !slices.Equal(got, c.later) {
			t.Errorf("%s: later %v, want %v", c.line, got, c.later)
		}
	}
}

// TestLists: pages of list-jobs are compared line by line: ids by job, in the order of
// the page except for reserved jobs.
func TestLists(t *testing.T) {
	e := &episode{byJudge: map[uint64]int{1: 10, 2: 20}, bySubject: map[uint64]int{7: 10, 9: 20}}
	page := func(next string, jobs ...string) string {
		text := "---\nnext: " + next + "\njobs:\n"
		for _, j := range jobs {
			text += "- {" + j + "}\n"
		}
		return text
	}
	const one, two = "id: 1, pri: 5, age: 3", "id: 2, pri: 6, age: 3"
	for _, c := range []struct{ name, line, got, fault string }{
		{"the same", "list-jobs t ready", page(`""`, "id: 7, pri: 5, age: 4", "id: 9, pri: 6, age: 2"), ""},
		{"other order", "list-jobs t ready", page(`""`, "id: 9, pri: 6, age: 3", "id: 7, pri: 5, age: 3"), "id"},
		{"other order of reserved", "list-jobs t reserved", page(`""`, "id: 9, pri: 6, age: 3", "id: 7, pri: 5, age: 3"), ""},
		{"other pri", "list-jobs t ready", page(`""`, "id: 7, pri: 6, age: 3", "id: 9, pri: 6, age: 3"), "pri"},
		{"too old", "list-jobs t ready", page(`""`, "id: 7, pri: 5, age: 5", "id: 9, pri: 6, age: 3"), "age"},
		{"one less", "list-jobs t ready", page(`""`, "id: 7, pri: 5, age: 3"), "2 jobs"},
		{"more to come", "list-jobs t ready", page("x", "id: 7, pri: 5, age: 3", "id: 9, pri: 6, age: 3"), "next"},
		{"an unknown job", "list-jobs t ready", page(`""`, "id: 8, pri: 5, age: 3", "id: 9, pri: 6, age: 3"), "id"},
		{"no list", "list-jobs t ready", "---\n", "a list"},
	} {
		f := e.differsList(&sentCommand{line: c.line}, page(`""`, one, two), c.got)
		switch {
		case f == nil && c.fault != "":
			t.Errorf("%s: nothing was found", c.name)
		case f != nil && (c.fault == "" || !strings.HasPrefix(f.Want, c.fault)):
			t.Errorf("%s: %v", c.name, f)
		}
	}
}

// TestLeaseGrows: a token has 20 digits, and is larger than the one before it.
func TestLeaseGrows(t *testing.T) {
	for _, c := range []struct {
		before, token string
		right         bool
	}{
		{"", "00000000000000000001", true},
		{"00000000000000000009", "00000000000000000010", true},
		{"00000000000000000009", "00000000000000000009", false},
		{"00000000000000000010", "00000000000000000009", false},
		{"", "0000000000000000001", false},
		{"", "0000000000000000000x", false},
	} {
		j := &job{leases: []pair{{subject: c.token}}}
		if c.before != "" {
			j.leases = []pair{{subject: c.before}, {subject: c.token}}
		}
		e := &episode{jobs: map[int]*job{1: j}, byJudge: map[uint64]int{5: 1}}
		if got := e.leaseGrows("5"); got != c.right {
			t.Errorf("%q after %q: %v", c.token, c.before, got)
		}
	}
}

// TestNewIDs: jobs that get an id by themselves are known by where they are first named.
func TestNewIDs(t *testing.T) {
	e := &episode{beyond: true, jobs: make(map[int]*job), byJudge: make(map[uint64]int), bySubject: make(map[uint64]int), fresh: unnamed}
	found := func(id string) reply { return reply{head: "FOUND " + id + " 1", body: "x", data: true} }
	a := &sentCommand{verb: "find", line: "find t k"}
	e.meetAll(a, found("3"), found("8"))
	for _, c := range []struct {
		judge, subject string
		same           bool
	}{{"3", "8", true}, {"3", "9", false}, {"4", "8", false}} {
		e.meetAll(a, found(c.judge), found(c.subject))
		if same := e.differs(a, found(c.judge), found(c.subject)) == nil; same != c.same {
			t.Errorf("%s and %s: the same job: %v", c.judge, c.subject, same)
		}
	}
}
