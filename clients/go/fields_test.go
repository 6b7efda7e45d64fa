package goclient_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"redstalk/clients/go/inspect"
	"redstalk/clients/go/redstalktest"
)

// TestFields: the tags that the code writes for puts, schedules and groups are those that the server knows. The Policy of
// inspect takes any tag.
func TestFields(t *testing.T) {
	known := knownTags(t)
	put := writtenTags(t, "client/putoptions.go", "client/jobbatch.go", "client/put.go")
	wantSame(t, "put", put, known["put"])
	ofJobs := slices.DeleteFunc(put, func(name string) bool { return name == "at" || name == "on-duplicate" }) // SetSchedule takes neither
	wantSame(t, "set-schedule", append(ofJobs, writtenTags(t, "client/schedule.go")...), known["set-schedule"])
	wantSame(t, "set-group", writtenTags(t, "inspect/groups.go"), known["set-group"])
	wantSame(t, "release", writtenTags(t, "client/job.go"), known["release"])
	wantSame(t, "bury", []string{"reason"}, known["bury"])
	wantSame(t, "touch", writtenTags(t, "client/checkpoint.go"), known["touch"])
	for _, command := range []string{"kick", "kick-job", "replay-job"} {
		wantSame(t, command, []string{string(inspect.KeepCheckpoint)}, known[command])
	}
}

// knownTags returns the names of the tags that the server knows, by commands.
func knownTags(t *testing.T) map[string][]string {
	program, err := redstalktest.Program()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(program, "--fields").Output()
	if err != nil {
		t.Fatal(err)
	}
	var fields []struct {
		Name string
		In   []string
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, f := range fields {
		for _, command := range f.In {
			names[command] = append(names[command], f.Name)
		}
	}
	return names
}

// tagName finds a name where code writes a tag: the first value of a function or a struct, or in a text before the value.
var tagName = regexp.MustCompile(`\b(?:tag|batchTag|add|ms|at)[({](?:name: )?"([a-z-]+)"|[" ]([a-z-]+):(?:["%]|no")`)

func writtenTags(t *testing.T, files ...string) (names []string) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range tagName.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1])+string(found[2]))
		}
	}
	return names
}

func wantSame(t *testing.T, command string, written, known []string) {
	t.Helper()
	written, known = slices.Compact(slices.Sorted(slices.Values(written))), slices.Compact(slices.Sorted(slices.Values(known)))
	if !slices.Equal(written, known) {
		t.Errorf("%s has the tags %q, the server %q", command, written, known)
	}
}
