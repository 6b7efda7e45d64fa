package main

import (
	"encoding/json"
	"strings"
	"testing"
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
