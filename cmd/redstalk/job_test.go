package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tube/field"
)

// TestTagsOfJob: a line of an export can set each tag of a put.
func TestTagsOfJob(t *testing.T) {
	t.Parallel()
	var j job
	line := make(map[string]any)
	for _, tag := range plainTags() {
		var value any = "1"
		switch tag.Kind {
		case "DURATIONS":
			value = []string{"1"}
		case "N":
			value = 1
		case "NAME=VALUE":
			value = map[string]string{"a": "1"}
		}
		line[strings.ReplaceAll(tag.Name, "-", "_")] = value
	}
	text, _ := json.Marshal(line)
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	tags, err := j.tags()
	if len(tags) != len(line) || err != nil {
		t.Errorf("%s has the tags %v, %v", text, tags, err)
	}
}

// TestSaysMore: what is said of a job comes with it through put, bury, export and import; and a
// wrong tag is explained.
func TestSaysMore(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	addr, other := ours(t), ours(t)
	on(t, addr)("put", "--meta", `a=x, "y"`, "--meta", "B-1=ä\nz", "--trace", trace, "body")
	on(t, addr)("bury", "1", "--reason", `550 "no" such user`)
	on(t, addr)("put", "--delay", "30", "--expire", "250h", "--on-expire", "park", "late")
	want := []string{`"expire":"9000`, `"on_expire":"park"`, `"meta":{"B-1":"ä\nz","a":"x, \"y\""}`, `"trace":"` + trace + `"`, `"reason":"550 \"no\" such user"`}
	exported := on(t, addr)("export")
	if got := runIn(t.Context(), exported, "import", "-s", other); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, text := range []string{exported, on(t, other)("export")} {
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s is not in %s", part, text)
			}
		}
	}
	for _, args := range [][]string{{"put", "--retry", "10x", "x"}, {"put", "--meta", "a.b=c", "x"}, {"policy", "t", "retry:10x"}} {
		tag := map[bool]string{true: "meta", false: "retry"}[args[1] == "--meta"]
		if got := runIn(t.Context(), "", append(args, "-s", addr)...); got.code == 0 || !strings.Contains(got.err, "the tag "+tag+" needs") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// TestAttempts: a job in JSON has its attempts, the newest first; a copy begins without them.
func TestAttempts(t *testing.T) {
	t.Parallel()
	addr, other := ours(t), ours(t)
	on(t, addr)("put", "body")
	on(t, addr)("bury", "1", "--reason", `say "no"`)
	on(t, addr)("kick", "--id", "1")
	on(t, addr)("bury", "1", "--reason", "again, {x: y}")
	want := regexp.MustCompile(`"attempts":\[{"ended_ms":\d{13},"how":"buried",("holder":"[^"]+",)?"reason":"again, {x: y}"},{"ended_ms":\d{13},"how":"buried",("holder":"[^"]+",)?"reason":"say \\"no\\""}\]`)
	exported := on(t, addr)("export")
	for _, got := range []string{exported, on(t, addr)("peek", "--json", "1")} {
		if !want.MatchString(got) {
			t.Errorf("%s does not match %v", got, want)
		}
	}
	if got := runIn(t.Context(), exported, "import", "-s", other); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := on(t, other)("export"); strings.Contains(got, "attempts") {
		t.Errorf("a copy has attempts: %s", got)
	}
}

// TestReasonInAnyState: import restores the reason of the last failure, and its time, of jobs in every
// state.
func TestReasonInAnyState(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	lines := ""
	for i, state := range []string{"ready", "delayed", "buried"} {
		lines += fmt.Sprintf(`{"tube":"t","state":%q,"priority":%d,"at":4000000000000,"reason":"say \"%s\"","failed_ms":123456789%d,"body":"x"}`+"\n", state, i, state, i)
	}
	if got := runIn(t.Context(), lines, "import", "-s", addr); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	exported := on(t, addr)("export")
	for i, state := range []string{"ready", "delayed", "buried"} {
		if want := fmt.Sprintf(`"reason":"say \"%s\"","failed_ms":123456789%d`, state, i); !strings.Contains(exported, want) {
			t.Errorf("%s is not in %s", want, exported)
		}
	}
}

// TestExportDropsPolicyTags: what a job has from the policy of its tube, or of a prefix, is not exported
// as its own.
func TestExportDropsPolicyTags(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	on(t, addr)("policy", "*", "max:9", "dead:all", "on-expire:park", "jitter:3", "keep:1d")
	on(t, addr)("policy", "mai*", "max:8", "retry:exp(1s,1m,5)")
	on(t, addr)("policy", "mail", "dead:own")
	on(t, addr)("put", "-t", "mail", "--expire", "1h", "plain")
	on(t, addr)("policy", "spread", "retry:exp(1s,1m,5)")
	on(t, addr)("put", "-t", "mail", "--max", "9", "--dead", "all", "--retry", "1s", "--jitter", "7", "--on-expire", "delete", "--expire", "1h", "--keep", "2h", "own")
	exported := strings.Split(on(t, addr)("export"), "\n")
	for _, rule := range field.OfRules {
		if rule.In&field.InPut == 0 || rule.Name == "key-ttl" { // the page of a job does not show it
			continue
		}
		if member := `"` + rule.JSON() + `":`; strings.Contains(exported[0], member) || !strings.Contains(exported[1], member) {
			t.Errorf("%s of a policy is exported, or that of a job is not: %s", rule.Name, exported)
		}
	}
	on(t, addr)("policy", "--remove", "*")
	on(t, addr)("put", "-t", "spread", "plain")
	on(t, addr)("put", "-t", "spread", "--retry", "exp(1s,1m,5)", "--jitter", "7", "own")
	spread := strings.Split(on(t, addr)("export", "-t", "spread"), "\n")
	if strings.Contains(spread[0], "jitter") || !strings.Contains(spread[1], `"jitter":"7"`) {
		t.Errorf("the jitter of a policy's retry is exported, or that of a job is not: %s", spread)
	}
	for _, part := range []string{`"retry":["1s"]`, `"max":9`, `"dead":"all"`, `"on_expire":"delete"`} {
		if !strings.Contains(exported[1], part) {
			t.Errorf("%s is not in %s", part, exported[1])
		}
	}
}

// TestReasonOfCommand: the last line of standard error of a failed command is the reason, or else
// how it ended.
func TestReasonOfCommand(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	for command, want := range map[string]string{
		"echo first >&2; echo; printf 'the last one\n\n' >&2; exit 3": "the last one", "echo out; exit 4": "exit status 4",
	} {
		on(t, addr)("put", "-t", "e", "x")
		got := runIn(t.Context(), "", "reserve", "-t", "e", "-s", addr, "--exec", command)
		if got.code != exitJobs || strings.Contains(command, "first") != strings.Contains(got.err, "first") {
			t.Errorf("%+v", got)
		}
		if page := on(t, addr)("export", "--state", "buried", "-t", "e"); !strings.Contains(page, `"reason":"`+want+`"`) {
			t.Errorf("%s is not in %s", want, page)
		}
		on(t, addr)("flush", "-t", "e", "--yes")
	}
}

// TestWaitingJobIsCopied: an export and an import keep the delay and the time of a job that waits for a batch, which both begin later.
func TestWaitingJobIsCopied(t *testing.T) {
	e := &entry{job: new(job)}
	e.readPage(client.Page("---\nstate: delayed\ndelay: 30\ntime-left: 0\nafter: \"b\"\nexpires-ms: 20000\non-expire: delete\n"))
	tags, err := e.job.tags()
	if e.tags = tags; err != nil || e.At != 0 {
		t.Errorf("due at %d, %v", e.At, err)
	}
	if got := string(e.appendPut(nil, time.Now())); got != "put 0 30 0 0 expire:20000ms on-expire:delete after:b\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

// TestUnreadable: whoever may list jobs but not read them gets an error, and not an export without them or a filter of reasons
// that matches none.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users.yml")
	if err := os.WriteFile(users, []byte(`users: [{name: anonymous, rights: [{tubes: ["*"], may: [put, list]}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := startServer(t, redstalkd, "--store", "memory:", "--access", users)
	on(t, addr)("put", "hello")
	for _, command := range []string{"export", "list default --reason timeout", "list default --meta a=b", "search --reason timeout"} {
		if got := runIn(t.Context(), "", append([]string{"-s", addr}, strings.Fields(command)...)...); got.code != exitForbidden || command == "export" && got.out != "" {
			t.Errorf("%s: %+v", command, got)
		}
	}
	on(t, addr)("put", "--key", "hell", "good bye")
	if got := runIn(t.Context(), "", "-s", addr, "search", "hell"); strings.Count(got.out, "\n") != 2 || !strings.Contains(got.err, "not searched where you lack the right read") {
		t.Errorf("a text that one job has in its body, and one in its key: %+v", got)
	}
}
