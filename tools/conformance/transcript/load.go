package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Load reads all transcripts (*.txt) of a folder, in the order of their names.
// The Name of each is its file name without the ending. An empty folder is an
// error, because a test that plays nothing passes.
func Load(dir string) ([]*Transcript, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no transcripts in %s", dir)
	}
	var all []*Transcript
	for _, f := range files {
		t, err := LoadFile(f)
		if err != nil {
			return nil, err
		}
		t.Name = strings.TrimSuffix(filepath.Base(f), ".txt")
		all = append(all, t)
	}
	return all, nil
}

// LoadFile reads one transcript; its Name is the path.
func LoadFile(path string) (*Transcript, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, string(text))
}
