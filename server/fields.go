package server

import (
	"encoding/json"
	"io"
	"strings"

	"redstalk/protocol"
	"redstalk/tube/field"
)

// fieldInfo describes a tag, for the authors of clients and for their tests.
type fieldInfo struct {
	Name  string   `json:"name"`
	JSON  string   `json:"json"`  // its name over HTTP
	In    []string `json:"in"`    // the commands that know it
	Value string   `json:"value"` // the word that stands for its value in the pages
	Help  string   `json:"help"`
}

// commandsWithTags are the names of field.Commands.
var commandsWithTags = []struct {
	command field.Commands
	name    string
}{
	{field.InPut, "put"}, {field.InPolicy, "set-policy"}, {field.InGroup, "set-group"}, {field.InSchedule, "set-schedule"},
	{field.InPreview, "preview-schedule"}, {field.InRelease, "release"}, {field.InBury, "bury"}, {field.InTouch, "touch"}, {field.InCopy, "put of a copy"},
}

// WriteFields writes all tags of commands, and the word of kicks, as a JSON array: their names, where they are known, their kind of value and a line
// of help.
func WriteFields(to io.Writer) error {
	all := []fieldInfo{}
	for _, tag := range protocol.TagsIn(^field.Commands(0)) {
		f := fieldInfo{Name: tag.Name, JSON: strings.ReplaceAll(tag.Name, "-", "_"), Value: tag.Kind, Help: strings.ReplaceAll(tag.Help, "`", "")}
		for _, c := range commandsWithTags {
			if tag.In&c.command != 0 {
				f.In = append(f.In, c.name)
			}
		}
		all = append(all, f)
	}
	all = append(all, fieldInfo{
		Name: "keep-checkpoint", JSON: "keep_checkpoint", In: []string{"kick", "kick-job", "replay-job"},
		Help: "a word without a value: the jobs keep their last checkpoint",
	})
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(all)
}
