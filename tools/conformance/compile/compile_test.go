package compile

import (
	"debug/buildinfo"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram: the program is what the packages have, and has the tags.
func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript")
	if err := Program(path, "redstalk/tools/conformance/play", "one", "two"); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if info.Path != "redstalk/tools/conformance/play" || settings["CGO_ENABLED"] != "0" || settings["-tags"] != "one,two" {
		t.Errorf("%s, %v", info.Path, settings)
	}
}

// TestProgramFails: the error says what the compiler did not like.
func TestProgramFails(t *testing.T) {
	err := Program(filepath.Join(t.TempDir(), "none"), "redstalk/cmd/none")
	if err == nil || !strings.Contains(err.Error(), "redstalk/cmd/none") {
		t.Error(err)
	}
}
