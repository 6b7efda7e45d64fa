// Package redstalk_test holds the map of the house: which package may know
// which. docs/architecture.md explains it.
package redstalk_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport says which packages of the module, and which others outside the
// standard library, a package may depend on, directly or not.
var mayImport = map[string][]string{
	"redstalk/protocol":             nil,
	"redstalk/tube":                 nil,
	"redstalk/storage":              {"redstalk/tube"},
	"redstalk/storage/throttle":     nil,
	"redstalk/storage/embedded":     {"redstalk/storage", "redstalk/tube", "github.com/cockroachdb/pebble/v2"},
	"redstalk/storage/embedded/wal": {"redstalk/storage/throttle", "github.com/cockroachdb/pebble/v2"},
	"redstalk/storage/redis":        {"redstalk/storage", "redstalk/tube", "github.com/redis/go-redis/v9"},
	"redstalk/storage/storetest":    {"redstalk/storage", "redstalk/tube"},
	"redstalk/server":               {"redstalk/protocol", "redstalk/storage", "redstalk/tube"},
	"redstalk/server/transcript":    nil,
	"redstalk/server/differ":        nil,
	"redstalk/server/ledger":        {"github.com/beanstalkd/go-beanstalk"},
}

// onlyHere says which package alone may import a module directly.
var onlyHere = map[string][]string{
	"github.com/redis/go-redis/v9":     {"redstalk/storage/redis", "redstalk/storage/redis/redistest"},
	"github.com/cockroachdb/pebble/v2": {"redstalk/storage/embedded", "redstalk/storage/embedded/wal"},
	"github.com/urfave/cli/v2":         {"redstalk/cmd/redstalkd", "redstalk/cmd/stalkbench", "redstalk/cmd/transcript"},
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

func TestHouse(t *testing.T) {
	const notStandard = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	for pkg, allowed := range mayImport {
		for _, dep := range list(t, "-deps", "-f", notStandard, pkg) {
			if dep != pkg && !slices.ContainsFunc(allowed, func(a string) bool { return within(dep, a) }) && !indirect(dep, allowed) {
				t.Errorf("%s must not depend on %s", pkg, dep)
			}
		}
	}
}

// indirect tells whether dep may be what an allowed module brings along:
// modules do not know ours, so only a package of ours is a breach then.
func indirect(dep string, allowed []string) bool {
	return !within(dep, "redstalk") && slices.ContainsFunc(allowed, func(a string) bool { return !within(a, "redstalk") })
}

func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

func TestModulesAreKnownToOneRoom(t *testing.T) {
	for _, pkg := range list(t, "./...") {
		for _, dep := range list(t, "-f", `{{join .Imports "\n"}}`, pkg) {
			for module, rooms := range onlyHere {
				if within(dep, module) && !slices.Contains(rooms, pkg) {
					t.Errorf("%s must not import %s", pkg, dep)
				}
			}
		}
	}
}
