// Package redstalk_test holds the map of the house: which package may know
// which. docs/architecture.md explains it.
package redstalk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
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
	"redstalk/protocol/conformance/compile":    nil,
	"redstalk/protocol/conformance/ledger":     {"github.com/beanstalkd/go-beanstalk"},
	"redstalk/protocol/conformance/transcript": nil,
	"redstalk/tube":                            nil,
	"redstalk/storage":                         {"redstalk/storage/body", "redstalk/storage/tally", "redstalk/tube"},
	"redstalk/storage/binlog":                  {"redstalk/tube"},
	"redstalk/storage/body":                    nil,
	"redstalk/storage/tally":                   nil,
	"redstalk/storage/throttle":                nil,
	"redstalk/storage/transfer":                {"redstalk/storage", "redstalk/storage/binlog", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/tube"},
	"redstalk/storage/embedded": {
		"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/storage/embedded/wal", "redstalk/tube",
		"github.com/cockroachdb/pebble/v2",
	},
	"redstalk/storage/embedded/wal": {"redstalk/storage/throttle", "github.com/cockroachdb/pebble/v2"},
	"redstalk/storage/redis": {
		"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube", "github.com/redis/go-redis/v9",
	},
	"redstalk/storage/enginetest": {
		"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube", "redstalk/storage/embedded", "redstalk/storage/embedded/wal",
		"redstalk/storage/redis", "redstalk/storage/redis/redistest", "github.com/cockroachdb/pebble/v2", "github.com/redis/go-redis/v9",
	},
	"redstalk/storage/storetest": {"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/tube"},
	"redstalk/server": {
		"redstalk/protocol", "redstalk/server/access", "redstalk/server/aio", "redstalk/server/bounds", "redstalk/server/queue", "redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube",
		"go.yaml.in/yaml/v3", "golang.org/x/crypto",
	},
	"redstalk/server/aio": nil,
	"redstalk/server/behind": {
		"redstalk/protocol/carry", "redstalk/protocol/client", "redstalk/server/queue", "redstalk/storage", "redstalk/storage/body",
		"redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube", "golang.org/x/time",
	},
	"redstalk/server/access": {"redstalk/storage/throttle", "go.yaml.in/yaml/v3", "golang.org/x/crypto"},
	"redstalk/server/push": {
		"redstalk/server/queue", "redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube", "github.com/sony/gobreaker/v2",
	},
	"redstalk/server/queue":       {"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube"},
	"redstalk/server/bounds":      nil,
	"redstalk/server/serving":     {"redstalk/server/bounds", "redstalk/storage/tally", "redstalk/storage/throttle"},
	"redstalk/server/web/console": nil,
	"redstalk/server/web": {
		"redstalk/protocol", "redstalk/server/access", "redstalk/server/bounds", "redstalk/server/queue", "redstalk/server/serving",
		"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube",
		"github.com/danielgtaylor/huma/v2", "github.com/go-json-experiment/json",
	},
	"redstalk/server/observe": {
		"redstalk/server/push", "github.com/sony/gobreaker/v2", "redstalk/server/bounds", "redstalk/server/queue", "redstalk/server/serving", "redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube",
		"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "golang.org/x/sync",
	},
	"redstalk/server/gateway":             gatewayMayImport,
	"redstalk/server/gateway/ouqiang":     append([]string{"redstalk/server/gateway", "gopkg.in/ini.v1"}, gatewayMayImport...),
	"redstalk/server/gateway/zywaited/pb": {"google.golang.org/grpc", "google.golang.org/protobuf"},
	"redstalk/server/gateway/zywaited": append([]string{
		"redstalk/server/gateway", "redstalk/server/gateway/zywaited/pb", "redstalk/server/push",
		"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/BurntSushi/toml", "github.com/sony/gobreaker/v2",
	}, gatewayMayImport...),
	"redstalk/server/gateway/ruffianjiang": append([]string{"redstalk/server/gateway"}, gatewayMayImport...),
}

// gatewayMayImport is what every gateway knows.
var gatewayMayImport = []string{
	"redstalk/protocol", "redstalk/server/access", "redstalk/server/bounds", "redstalk/server/queue", "redstalk/server/serving",
	"redstalk/storage", "redstalk/storage/body", "redstalk/storage/tally", "redstalk/storage/throttle", "redstalk/tube",
	"go.yaml.in/yaml/v3", "golang.org/x/crypto", "golang.org/x/sync",
}

// judges is the directory of the packages that judge any beanstalk server.
const judges = "redstalk/protocol/conformance"

// forTools are the directories that nothing the server is built of may import.
var forTools = []string{judges, "redstalk/protocol/client", "redstalk/storage/enginetest"}

// tools may import them, besides tests and the packages in these directories. To carry jobs from an
// old server means to be its client.
var tools = []string{"redstalk/protocol/carry", "redstalk/server/behind", "redstalk/cmd/redstalk", "redstalk/cmd/stalkbench", "redstalk/cmd/transcript", "redstalk/tools/attack"}

// onlyHere says which package alone may import a module directly.
var onlyHere = map[string][]string{
	"github.com/redis/go-redis/v9":        {"redstalk/storage/redis", "redstalk/storage/redis/redistest"},
	"github.com/cockroachdb/pebble/v2":    {"redstalk/storage/embedded", "redstalk/storage/embedded/wal"},
	"github.com/prometheus/client_golang": {"redstalk/server/observe"},
	"go.yaml.in/yaml/v3":                  {"redstalk/cmd/redstalk", "redstalk/server/access"},
	"golang.org/x/crypto":                 {"redstalk/server/access"},
	"gopkg.in/ini.v1":                     {"redstalk/server/gateway/ouqiang"},
	"github.com/danielgtaylor/huma/v2":    {"redstalk/server/web"},
	"github.com/sony/gobreaker/v2":        {"redstalk/server/push"},
	"github.com/urfave/cli/v2":            {"redstalk/cmd/redstalk", "redstalk/cmd/redstalkd", "redstalk/cmd/stalkbench", "redstalk/cmd/transcript"},
	"github.com/BurntSushi/toml":          {"redstalk/server/gateway/zywaited"},
	"google.golang.org/grpc":              {"redstalk/server/gateway/zywaited", "redstalk/server/gateway/zywaited/pb"},
	"google.golang.org/protobuf":          {"redstalk/server/gateway/zywaited", "redstalk/server/gateway/zywaited/pb"},
}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Standard   bool
	DepOnly    bool     // it is no package of ours
	Imports    []string // of the package itself, its tests left out
	Deps       []string // what it depends on, directly or not
}

// packages are ours and all that they depend on, by import path. The go command
// is asked once: each call of it takes a second.
var packages = sync.OnceValues(func() (map[string]*listed, error) {
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,DepOnly,Imports,Deps", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := make(map[string]*listed)
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := in.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list says: %w", err)
		}
		all[p.ImportPath] = p
	}
})

func listAll(t *testing.T) map[string]*listed {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ours returns the packages of the module at root and below.
func ours(t *testing.T, root string) []*listed {
	t.Helper()
	var found []*listed
	for path, p := range listAll(t) {
		if !p.DepOnly && within(path, root) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no package at %s", root)
	}
	return found
}

func TestHouse(t *testing.T) {
	all := listAll(t)
	for pkg, allowed := range mayImport {
		if all[pkg] == nil {
			t.Errorf("there is no package %s", pkg)
			continue
		}
		for _, dep := range all[pkg].Deps {
			if all[dep] != nil && all[dep].Standard {
				continue
			}
			if !slices.ContainsFunc(allowed, func(a string) bool { return dep == a || !within(a, "redstalk") && within(dep, a) }) && !indirect(dep, allowed) {
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
	for _, pkg := range ours(t, "redstalk") {
		for _, dep := range pkg.Imports {
			for module, rooms := range onlyHere {
				if within(dep, module) && !slices.Contains(rooms, pkg.ImportPath) {
					t.Errorf("%s must not import %s", pkg.ImportPath, dep)
				}
			}
		}
	}
}

// TestJudgesAreIndependent: what judges a server shares no code with it.
func TestJudgesAreIndependent(t *testing.T) {
	for _, pkg := range ours(t, judges) {
		for _, dep := range pkg.Imports {
			if within(dep, "redstalk") && !within(dep, judges) {
				t.Errorf("%s judges servers and must not import %s", pkg.ImportPath, dep)
			}
		}
	}
}

// TestToolsStayOutside: what was made for tools and tests is in no server. Tests
// may import it, so only what is built counts.
func TestToolsStayOutside(t *testing.T) {
	for _, pkg := range ours(t, "redstalk") {
		for _, dep := range pkg.Imports {
			for _, dir := range forTools {
				if within(dep, dir) && !within(pkg.ImportPath, dir) && !slices.Contains(tools, pkg.ImportPath) {
					t.Errorf("%s is neither a test nor a tool and must not import %s", pkg.ImportPath, dep)
				}
			}
		}
	}
}
