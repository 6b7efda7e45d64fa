package main

import (
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestReadListed: lines of list-jobs are read as a YAML decoder reads them, whatever is in them.
func TestReadListed(t *testing.T) {
	for _, lines := range []string{
		"", `- {id: 7, pri: 10, due-ms: -3, size: 0, key: "k"}`, `- {id: 7, key: "a, b: {c}", held: rate, failed-ms: 12}` + "\n" + `- {id: 8, reason: "it's #1 [x]", new: 4}`,
		`- {id: 7, reason: "a \"quoted\" \u00e9\\"}`, `- {id: 7, held: 'x', list: [1, 2], key: "k"}`, `- {}`, `- {id: 18446744073709551615, from-id: 9, progress: ""}`,
	} {
		page := "---\nnext: \"c1\"\njobs:\n" + lines + "\n"
		if lines == "" {
			page = "---\nnext: \"c1\"\njobs: []\n"
		}
		var want struct {
			Next string
			Jobs []listedJob
		}
		if err := yaml.Unmarshal([]byte(page), &want); err != nil {
			t.Fatal(err)
		}
		jobs, next, err := readListed(page)
		if err != nil || next != want.Next || len(jobs) != len(want.Jobs) || len(jobs) > 0 && !reflect.DeepEqual(jobs, want.Jobs) {
			t.Errorf("%s\nis read as %+v, %q, %v\nwant       %+v", page, jobs, next, err, want)
		}
	}
	if _, _, err := readListed("---\njobs:\n- {id: x}\n"); err == nil {
		t.Error("an id that is no number is read")
	}
}
