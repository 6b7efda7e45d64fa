package vulns

import (
	"encoding/json"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// withTool reports whether govulncheck may be fetched and built, which takes a minute.
var withTool = flag.Bool("vulns", false, "run govulncheck on databases of our own")

// What the databases are about: a module that a small package of ours calls.
const (
	vulnerable = "golang.org/x/time"
	caller     = "./protocol/migrate"
	id         = "GO-0000-0001"
)

// write makes a file of JSON.
func write(t *testing.T, path string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type object = map[string]any

// database makes one in which the module is vulnerable, or in which nothing is. It returns its URL.
func database(t *testing.T, found bool) string {
	t.Helper()
	const then = "2026-01-01T00:00:00Z"
	dir, modules := t.TempDir(), []object{}
	if found {
		modules = append(modules, object{"path": vulnerable, "vulns": []object{{"id": id, "modified": then}}})
		write(t, filepath.Join(dir, "ID", id+".json"), object{
			"schema_version": "1.3.1", "id": id, "modified": then, "published": then, "summary": "made up for a test",
			"affected": []object{{
				"package":            object{"name": vulnerable, "ecosystem": "Go"},
				"ranges":             []object{{"type": "SEMVER", "events": []object{{"introduced": "0"}}}},
				"ecosystem_specific": object{"imports": []object{{"path": vulnerable + "/rate"}}},
			}},
		})
	}
	write(t, filepath.Join(dir, "index", "db.json"), object{"modified": then})
	write(t, filepath.Join(dir, "index", "modules.json"), modules)
	write(t, filepath.Join(dir, "index", "vulns.json"), []object{})
	return (&url.URL{Scheme: "file", Path: dir}).String()
}

// TestCheck: what is found fails, nothing found passes, a database that is not reached is said and
// passes, and one that is no database fails.
func TestCheck(t *testing.T) {
	if !*withTool {
		t.Skip("wants -vulns")
	}
	broken := t.TempDir()
	write(t, filepath.Join(broken, "index", "db.json"), "no database")
	for _, test := range []struct {
		name, database string
		passes         bool
		says           string
	}{
		{"found", database(t, true), false, id},
		{"none", database(t, false), true, "No vulnerabilities found"},
		{"not reached", "http://127.0.0.1:1", true, "NOT CHECKED"},
		{"broken", "file://" + broken, false, ""},
	} {
		cmd := exec.Command("sh", "check.sh", caller)
		cmd.Env = append(os.Environ(), "VULNDB="+test.database)
		out, err := cmd.CombinedOutput()
		if (err == nil) != test.passes || !strings.Contains(string(out), test.says) {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
		if test.name == "not reached" && strings.Count(string(out), "\n") != 1 {
			t.Errorf("more than a line: %s", out)
		}
	}
}
