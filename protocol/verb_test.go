package protocol

import (
	"slices"
	"strings"
	"testing"
)

// The match order of the reference (1.2), with the extensions: _ is the required space.
const matchOrder = "put_, peek_, peek-ready, peek-delayed, peek-buried, reserve-with-timeout_, reserve-job_, reserve-batch_, reserve-lease_, reserve, " +
	"delete_, delete-batch_, delete-lease_, delete-key_, finish_, finish-lease_, wait-job_, release_, release-lease_, bury_, bury-lease_, kick_, kick-job_, touch_, touch-lease_, checkpoint_, checkpoint-lease_, get-checkpoint_, stats-job_, stats-tube_, stats-group_, stats-batch_, stats-ended_, stats, use_, watch_, ignore_, list-tubes-watched, " +
	"list-tube-used, list-tubes, quit, pause-tube, drain, undrain, capabilities, reschedule_, set-priority_, set-policy_, get-policy_, list-policies, list-jobs_, list-ended_, find_, flush-tube_, move-jobs_, replay-job_, take-back_, auth_, client_, list-clients, close-client_, list-hung, " +
	"set-group_, get-group_, list-groups_, pause-group_, flush-group_, " +
	"set-schedule_, get-schedule_, list-schedules, delete-schedule_, pause-schedule_, resume-schedule_, run-schedule_, preview-schedule_, " +
	"seal-batch_, list-batches, list-members_, cancel-batch_, history-tube_, history_"

// extensions are the words that beanstalkd does not know.
var extensions = []string{
	"reserve-batch_", "delete-batch_", "drain", "undrain", "capabilities", "reschedule_", "set-priority_",
	"reserve-lease_", "delete-lease_", "touch-lease_", "release-lease_", "bury-lease_", "set-policy_", "get-policy_", "list-policies",
	"list-jobs_", "find_", "delete-key_", "flush-tube_", "move-jobs_", "replay-job_", "auth_", "client_", "list-clients",
	"set-group_", "get-group_", "stats-group_", "list-groups_", "pause-group_", "flush-group_",
	"set-schedule_", "get-schedule_", "list-schedules", "delete-schedule_", "pause-schedule_", "resume-schedule_", "run-schedule_", "preview-schedule_",
	"seal-batch_", "stats-batch_", "list-batches", "list-members_", "cancel-batch_", "history-tube_", "history_",
	"finish_", "finish-lease_", "wait-job_", "stats-ended_", "list-ended_", "checkpoint_", "checkpoint-lease_", "get-checkpoint_", "take-back_", "close-client_", "list-hung",
}

func TestTable(t *testing.T) {
	words := strings.Split(matchOrder, ", ")
	if len(words) != int(NumVerbs)-1 {
		t.Fatalf("%d words, %d verbs", len(words), NumVerbs-1)
	}
	for i, w := range words {
		v := Verb(i + 1)
		if got := v.Spec().Prefix; got != strings.ReplaceAll(w, "_", " ") {
			t.Errorf("verb %d is %q, want %q", v, got, w)
		}
		if got := v.String(); got != strings.TrimSuffix(w, "_") {
			t.Errorf("verb %d is called %q", v, got)
		}
		if c := v.Counter(); c != "" && c != "cmd-"+v.String() {
			t.Errorf("%v is counted as %q", v, c)
		}
		if v.Spec().Extension != slices.Contains(extensions, w) {
			t.Errorf("%v is an extension: %v", v, v.Spec().Extension)
		}
		if v.Spec().Exact && v.Spec().parse != nil {
			t.Errorf("%v takes no arguments, but has a parser", v)
		}
	}
	for _, v := range []Verb{Unknown, NumVerbs, 255} {
		if v.String() != "unknown" || v.Counter() != "" {
			t.Errorf("verb %d: %q %q", uint8(v), v, v.Counter())
		}
	}
}

// TestLookup checks that the index by first byte finds the same as a search of the whole
// table.
func TestLookup(t *testing.T) {
	slow := func(line string) Verb {
		for v := Unknown + 1; v < NumVerbs; v++ {
			s := &table[v]
			if strings.HasPrefix(line, s.Prefix) && (line == s.Prefix || !s.Extension || strings.HasSuffix(s.Prefix, " ") || !s.Exact && line[len(s.Prefix)] == ' ') {
				return v
			}
		}
		return Unknown
	}
	for v := Unknown + 1; v < NumVerbs; v++ {
		p := table[v].Prefix
		if slow(p) != v {
			t.Errorf("%q is hidden by %v", p, slow(p))
		}
		for n := range len(p) + 1 {
			for _, end := range []string{"", " ", "x", "-", " 1", "\t"} {
				line := p[:n] + end
				if got, want := lookup([]byte(line)), slow(line); got != want {
					t.Errorf("%q is %v, want %v", line, got, want)
				}
			}
		}
	}
}

func TestStatVerbs(t *testing.T) {
	var keys []string
	seen := map[Verb]bool{}
	for _, v := range StatVerbs() {
		keys = append(keys, v.Counter())
		seen[v] = true
	}
	const want = "cmd-put, cmd-peek, cmd-peek-ready, cmd-peek-delayed, cmd-peek-buried, cmd-reserve, cmd-reserve-with-timeout, cmd-delete, cmd-release, cmd-use, cmd-watch, cmd-ignore, cmd-bury, cmd-kick, cmd-touch, cmd-stats, cmd-stats-job, cmd-stats-tube, cmd-list-tubes, cmd-list-tube-used, cmd-list-tubes-watched, cmd-pause-tube"
	if got := strings.Join(keys, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for v := Unknown; v < NumVerbs; v++ {
		if seen[v] != (v.Counter() != "") {
			t.Errorf("%v: counter %q, on the page: %v", v, v.Counter(), seen[v])
		}
	}
}
