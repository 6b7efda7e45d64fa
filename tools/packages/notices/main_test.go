package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServer: the notices of the server have its license and those of all its modules, each
// time the same.
func TestServer(t *testing.T) {
	t.Parallel()
	var one, two bytes.Buffer
	for _, out := range []*bytes.Buffer{&one, &two} {
		if err := run(out, []string{"redstalk/cmd/redstalkd"}); err != nil {
			t.Fatal(err)
		}
	}
	if one.String() != two.String() {
		t.Error("they differ from run to run")
	}
	for _, name := range []string{"The Go standard library, go", "github.com/cockroachdb/pebble/v2 v", "github.com/redis/go-redis/v9 v"} {
		if !strings.Contains(one.String(), "\n"+name) {
			t.Errorf("they lack %s", name)
		}
	}
}

// TestTexts: the licenses of a module are those beside and above its packages; one for the whole
// module there must be.
func TestTexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &module{dir: dir, packages: []string{filepath.Join(dir, "a", "b")}}
	for path, content := range map[string]string{"a/b/LICENSE.txt": "of b\r\n", "a/License": "of a", "c/LICENSE": "of c", "a/license.go": "code", "a/README": "none"} {
		path = filepath.Join(dir, path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(content), 0o644)
	}
	if texts, err := m.texts(); err == nil {
		t.Errorf("a module without a license: %v", texts)
	}
	os.WriteFile(filepath.Join(dir, "COPYING"), []byte("of all"), 0o644)
	texts, err := m.texts()
	if err != nil || len(texts) != 3 || texts[0] != (text{"COPYING", "of all"}) || texts[1] != (text{"a/License", "of a"}) || texts[2] != (text{"a/b/LICENSE.txt", "of b"}) {
		t.Errorf("%v, %v", texts, err)
	}
}
