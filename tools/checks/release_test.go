package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVersion: the version in the Makefile is the newest of CHANGELOG.md, and that of the examples and clients.
func TestVersion(t *testing.T) {
	find := func(path, expression string) string {
		text, err := os.ReadFile(at(path))
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)` + expression).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no version", path)
		}
		return string(m[1])
	}
	version := find("Makefile", `^VERSION \?= (\S+)$`)
	if got := find("CHANGELOG.md", `^## \[(.*)\] - \d{4}-\d\d-\d\d$`); got != version {
		t.Errorf("the newest version in CHANGELOG.md is %s, want %s", got, version)
	}
	const deploy = "tools/deploy/kubernetes/"
	for path, expression := range map[string]string{
		deploy + "kustomize/redis/kustomization.yaml": `newTag: (\S+)$`, deploy + "kustomize/embedded/kustomization.yaml": `newTag: (\S+)$`,
		deploy + "kustomize/backup/kustomization.yaml": `newTag: (\S+)$`, deploy + "kustomize/restore/kustomization.yaml": `newTag: (\S+)$`,
		deploy + "helm/redstalk/Chart.yaml": `^appVersion: (\S+)$`,
		"clients/python/pyproject.toml":     `^version = "(\S+)"$`, "clients/typescript/package.json": `^  "version": "(\S+)",$`,
		"clients/ruby/lib/redstalk/version.rb": `^  VERSION = "(\S+)"$`,
		"clients/go/otel/go.mod":               `^\tredstalk/clients/go v(\S+)$`,
	} {
		if got := find(path, expression); got != version {
			t.Errorf("the version in %s is %s, want %s", path, got, version)
		}
	}
}

// TestRenameModule: after tools/rename-module.sh all packages are found under the new path, and with -short not set also
// build; nothing of the clients names the home that does not exist.
func TestRenameModule(t *testing.T) {
	dir := t.TempDir()
	for _, path := range tracked(t, "*") {
		text, err := os.ReadFile(at(path))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in := func(command ...string) string {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		return string(out)
	}
	in("sh", "tools/rename-module.sh", "example.org/queues/redstalk")
	for _, module := range []string{".", "clients/go", "clients/go/otel"} {
		for path := range strings.FieldsSeq(in("go", "list", "-C", module, "-deps", "-test", "./...")) {
			if within(path, "redstalk") {
				t.Errorf("%s still has the old path", path)
			}
		}
	}
	if left := in("sh", "-c", "grep -rE 'example\\.invalid|[^/]redstalk/clients/go' clients docs tools/packages || true"); left != "" {
		t.Errorf("not renamed:\n%s", left)
	}
	if !testing.Short() {
		in("go", "build", "./...")
	}
}
