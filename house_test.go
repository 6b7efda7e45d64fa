// Package redstalk_test holds the map of the house: which package may know
// which. docs/architecture.md explains it.
package redstalk_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport says which packages of the module, and which modules outside the
// standard library, a package may depend on, directly or not. A package of ours is
// not one with those below it: whoever knows storage knows no engine.
var mayImport = map[string][]string{
	"redstalk/protocol":                        nil,
	"redstalk/protocol/carry":                  {"redstalk/protocol/client", "golang.org/x/time"},
	"redstalk/protocol/client":                 nil,
	"redstalk/protocol/conformance":            nil,
	"redstalk/protocol/conformance/differ":     nil,
	"redstalk/protocol/conformance/busy":       nil,
	"redstalk/protocol/conformance/ledger":     {"github.com/beanstalkd/go-beanstalk"},
	"redstalk/protocol/conformance/transcript": nil,
	"redstalk/tube":                            nil,
	"redstalk/storage":                         {"redstalk/storage/body", "redstalk/tube"},
	"redstalk/storage/binlog":                  {"redstalk/tube"},
	"redstalk/storage/body":                    nil,
	"redstalk/storage/throttle":                nil,
	"redstalk/storage/transfer":                {"redstalk/storage", "redstalk/storage/binlog", "redstalk/storage/body", "redstalk/tube"},
	"redstalk/storage/embedded": {
		"redstalk/storage", "redstalk/storage/body", "redstalk/storage/throttle", "redstalk/storage/embedded/wal", "redstalk/tube",
		"github.com/cockroachdb/pebble/v2",
	},
	"redstalk/storage/embedded/wal": {"redstalk/storage/throttle", "github.com/cockroachdb/pebble/v2"},
	"redstalk/storage/redis": {
		"redstalk/storage", "redstalk/storage/body", "redstalk/storage/throttle", "redstalk/tube", "github.com/redis/go-redis/v9",
	},
	"redstalk/storage/storetest": {"redstalk/storage", "redstalk/storage/body", "redstalk/tube"},
	"redstalk/server": {
		"redstalk/protocol", "redstalk/server/queue", "redstalk/storage", "redstalk/storage/body", "redstalk/storage/throttle", "redstalk/tube",
	},
	"redstalk/server/behind": {
		"redstalk/protocol/carry", "redstalk/protocol/client", "redstalk/server/queue", "redstalk/storage", "redstalk/storage/body",
		"redstalk/storage/throttle", "redstalk/tube", "golang.org/x/time",
	},
	"redstalk/server/queue": {"redstalk/storage", "redstalk/storage/body", "redstalk/storage/throttle", "redstalk/tube"},
}

// judges is the directory of the packages that judge any beanstalk server.
const judges = "redstalk/protocol/conformance"

// forTools are the directories that nothing the server is built of may import.
var forTools = []string{judges, "redstalk/protocol/client"}

// tools may import them, besides tests and the packages in these directories. To carry jobs from an
// old server means to be its client.
var tools = []string{"redstalk/protocol/carry", "redstalk/server/behind", "redstalk/cmd/redstalk", "redstalk/cmd/stalkbench", "redstalk/cmd/transcript"}

// onlyHere says which package alone may import a module directly.
var onlyHere = map[string][]string{
	"github.com/redis/go-redis/v9":     {"redstalk/storage/redis", "redstalk/storage/redis/redistest"},
	"github.com/cockroachdb/pebble/v2": {"redstalk/storage/embedded", "redstalk/storage/embedded/wal"},
	"github.com/urfave/cli/v2":         {"redstalk/cmd/redstalk", "redstalk/cmd/redstalkd", "redstalk/cmd/stalkbench", "redstalk/cmd/transcript"},
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

// imports returns what a package imports itself, its tests left out.
func imports(t *testing.T, pkg string) []string {
	t.Helper()
	return list(t, "-f", `{{join .Imports "\n"}}`, pkg)
}

func TestHouse(t *testing.T) {
	const notStandard = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	for pkg, allowed := range mayImport {
		for _, dep := range list(t, "-deps", "-f", notStandard, pkg) {
			if dep != pkg && !slices.ContainsFunc(allowed, func(a string) bool { return dep == a || !within(a, "redstalk") && within(dep, a) }) && !indirect(dep, allowed) {
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
		for _, dep := range imports(t, pkg) {
			for module, rooms := range onlyHere {
				if within(dep, module) && !slices.Contains(rooms, pkg) {
					t.Errorf("%s must not import %s", pkg, dep)
				}
			}
		}
	}
}

// TestJudgesAreIndependent: what judges a server shares no code with it.
func TestJudgesAreIndependent(t *testing.T) {
	for _, pkg := range list(t, judges+"/...") {
		for _, dep := range imports(t, pkg) {
			if within(dep, "redstalk") && !within(dep, judges) {
				t.Errorf("%s judges servers and must not import %s", pkg, dep)
			}
		}
	}
}

// TestToolsStayOutside: what was made for tools and tests is in no server. Tests
// may import it, so only what is built counts.
func TestToolsStayOutside(t *testing.T) {
	for _, pkg := range list(t, "./...") {
		for _, dep := range imports(t, pkg) {
			for _, dir := range forTools {
				if within(dep, dir) && !within(pkg, dir) && !slices.Contains(tools, pkg) {
					t.Errorf("%s is neither a test nor a tool and must not import %s", pkg, dep)
				}
			}
		}
	}
}
