package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// layers are the packages of the product from the lowest layer to the highest, each with
// the packages that it may import directly. A package imports only from layers below its
// own. It may always import storage/telemetry.
var layers = [][]importRule{
	{ // what both the protocol and the rules have to know
		{"tube/field", ""},
		{"tube/filter", ""},
	},
	{ // values and formats
		{"protocol", "tube/field"},
		{"tube", "tube/field"},
		{"tube/cron", ""},
		{"storage/body", ""},
		{"storage/telemetry", ""},
		{"storage/redact", ""},
		{"server/limits", ""},
		{"server/httpapi/console", ""},
		{"server/gateway/zywaited/pb", ""},
		{"protocol/client", ""},
	},
	{ // contracts
		{"storage", "tube storage/body"},
		{"storage/embedded/wal", ""},
		{"storage/embedded/ended", "tube"},
		{"storage/redis/conn", "storage/redact"},
		{"protocol/migrate", "protocol protocol/client tube/field"},
		{"protocol/outbox", "protocol protocol/client tube/field"},
		{"server/httpserve", "server/limits"},
		{"server/sight", "protocol tube"},
	},
	{ // data of engines, and users
		{"server/access", "protocol server/sight"},
		{"storage/embedded/tables", "storage/embedded/ended storage/embedded/wal tube tube/field"},
		{"storage/redis/schema", "storage tube tube/field"},
	},
	{
		{"storage/redis/lua", "storage/redis/conn storage/redis/schema tube tube/field"},
	},
	{
		{"storage/redis/fsck", "storage/redis/conn storage/redis/lua storage/redis/schema"},
	},
	{ // engines, and formats of stores
		{"storage/embedded", "storage storage/body storage/embedded/ended storage/embedded/tables storage/embedded/wal tube"},
		{"storage/redis", "storage storage/redis/conn storage/redis/lua storage/redis/schema tube"},
		{"storage/beanstalkd", "storage tube"},
	},
	{ // what all listeners share
		{"server/queue", "storage storage/body tube"},
	},
	{ // the schedules and batches of the store
		{"server/schedule", "server/queue storage tube tube/cron"},
		{"server/jobbatch", "server/queue storage tube"},
		{"server/tally", "server/queue storage tube"},
	},
	{ // what looks at the operations of the queue
		{"server/tracing", "storage tube"},
	},
	{ // the sockets of sessions
		{"server/netpoll", "protocol server/queue storage"},
	},
	{ // listeners, and what runs beside them
		{"server", "protocol server/access server/jobbatch server/limits server/netpoll server/queue server/schedule server/sight storage storage/body tube tube/field"},
		{"server/httpapi", "protocol server/access server/httpserve server/jobbatch server/limits server/queue server/schedule server/sight storage tube tube/field tube/filter"},
		{"server/webhook", "protocol server/queue storage tube"},
		{"server/upstream", "protocol protocol/client protocol/migrate server/queue storage tube"},
		{"server/gateway", "protocol server/access server/httpserve server/queue storage tube"},
	},
	{
		{"server/metrics", "server/httpserve server/jobbatch server/queue server/schedule server/webhook storage tube"},
		{"server/gateway/ouqiang", "server/gateway server/httpserve server/queue storage"},
		{"server/gateway/ruffianjiang", "protocol server/gateway server/httpserve server/queue storage tube tube/field"},
		{"server/gateway/zywaited", "server/access server/gateway server/gateway/zywaited/pb server/httpserve server/queue server/webhook tube"},
	},
	{ // programs
		{"cmd/redstalk", "protocol protocol/client protocol/migrate protocol/outbox tube/field tube/filter"},
		{"cmd/redstalkd", "protocol/migrate server server/access server/gateway server/gateway/ouqiang server/gateway/ruffianjiang server/gateway/zywaited " +
			"server/httpapi server/httpapi/console server/httpserve server/jobbatch server/limits server/metrics server/queue server/schedule server/sight server/tally server/tracing server/upstream server/webhook " +
			"storage storage/beanstalkd storage/embedded storage/redact storage/redis storage/redis/fsck storage/redis/schema tube"},
	},
}

// importRule is a package of the module, and the packages that it may import directly.
type importRule struct{ pkg, imports string }

// notProduct are the directories whose packages only tests and tools may import.
var notProduct = []string{tools, "redstalk/storage/storetest"}

// tools is the directory of what only tests and other tools may import.
const tools = "redstalk/tools"

// conformance is the directory of the judges, which can test any beanstalk server.
const conformance = "redstalk/tools/conformance"

// onlyHere lists the only packages that may import a module directly, or a part of it: the
// longest path that matches decides.
var onlyHere = map[string][]string{
	"github.com/redis/go-redis/v9":        {"redstalk/storage/redis/conn", "redstalk/tools/redistest"},
	"github.com/cockroachdb/pebble/v2":    {"redstalk/storage/embedded/tables"},
	"github.com/prometheus/client_golang": {"redstalk/server/metrics"},
	"go.yaml.in/yaml/v3":                  {"redstalk/cmd/redstalk", "redstalk/server/access"},
	"golang.org/x/crypto":                 {"redstalk/server/access"},
	"go.opentelemetry.io/otel":            {"redstalk/server/tracing"},
	"gopkg.in/ini.v1":                     {"redstalk/server/gateway/ouqiang"},
	"github.com/danielgtaylor/huma/v2":    {"redstalk/server/httpapi"},
	"github.com/sony/gobreaker/v2":        {"redstalk/server/webhook"},
	"github.com/urfave/cli/v2":            {"redstalk/cmd/redstalk", "redstalk/cmd/redstalkd", "redstalk/tools/bench", "redstalk/tools/conformance/play"},
	"github.com/BurntSushi/toml":          {"redstalk/server/gateway/zywaited"},
	"google.golang.org/grpc":              {"redstalk/server/gateway/zywaited", "redstalk/server/gateway/zywaited/pb"},
	"google.golang.org/protobuf":          {"redstalk/server/gateway/zywaited", "redstalk/server/gateway/zywaited/pb"},
	"github.com/jackc/pgx/v5":             {"redstalk/protocol/outbox"},
	"github.com/go-sql-driver/mysql":      {"redstalk/protocol/outbox"},
	"modernc.org/sqlite":                  {"redstalk/protocol/outbox"},

	// Pebble's interface of a file system
	"github.com/cockroachdb/pebble/v2/vfs": {"redstalk/storage/embedded", "redstalk/storage/embedded/tables", "redstalk/storage/embedded/wal"},
}

// listed is the output of go list for a package.
type listed struct {
	ImportPath string
	Standard   bool
	DepOnly    bool     // it is not in this module
	Imports    []string // of the package itself, its tests left out
	Deps       []string // what it depends on, directly or not
}

// packages returns the packages of this module and all their dependencies, by import path. It runs
// the go command only once, since each run takes a second.
var packages = sync.OnceValues(func() (map[string]*listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,DepOnly,Imports,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
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

// ours returns the packages of this module at root and below.
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

// TestLayers: each package imports only what its rule names, and rules name only packages
// of lower layers.
func TestLayers(t *testing.T) {
	all := listAll(t)
	known, lower := make(map[string]bool), []string{"storage/telemetry"}
	for _, layer := range layers {
		for _, rule := range layer {
			known[module+"/"+rule.pkg] = true
			allowed := append(strings.Fields(rule.imports), "storage/telemetry")
			for _, name := range allowed {
				if !slices.Contains(lower, name) {
					t.Errorf("%s is not in a layer below %s", name, rule.pkg)
				}
			}
			p := all[module+"/"+rule.pkg]
			if p == nil {
				t.Errorf("there is no package %s", rule.pkg)
				continue
			}
			for _, path := range p.Imports {
				if name, ours := strings.CutPrefix(path, module+"/"); ours && !slices.Contains(allowed, name) {
					t.Errorf("%s must not import %s", rule.pkg, name)
				}
			}
		}
		for _, rule := range layer {
			lower = append(lower, rule.pkg)
		}
	}
	for _, pkg := range ours(t, module) {
		if !known[pkg.ImportPath] && !isTool(pkg.ImportPath) {
			t.Errorf("%s is in no layer", pkg.ImportPath)
		}
	}
}

// module is the path of this module.
var module = func() string {
	text, _ := os.ReadFile(at("go.mod")) // if it is missing, no package is found
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimPrefix(line, "module ")
}()

// isTool reports whether a package is for tests and tools only.
func isTool(pkg string) bool {
	return slices.ContainsFunc(notProduct, func(dir string) bool { return within(pkg, dir) })
}

func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

func TestModulesAreKnownToOnePackage(t *testing.T) {
	for _, pkg := range ours(t, module) {
		for _, dep := range pkg.Imports {
			longest := ""
			for module := range onlyHere {
				if within(dep, module) && len(module) > len(longest) {
					longest = module
				}
			}
			if longest != "" && !slices.Contains(onlyHere[longest], pkg.ImportPath) {
				t.Errorf("%s must not import %s", pkg.ImportPath, dep)
			}
		}
	}
}

// TestJudgesAreIndependent: a judge shares no code with the server that it tests.
func TestJudgesAreIndependent(t *testing.T) {
	for _, pkg := range ours(t, conformance) {
		for _, dep := range pkg.Imports {
			if within(dep, module) && !within(dep, conformance) {
				t.Errorf("%s judges servers and must not import %s", pkg.ImportPath, dep)
			}
		}
	}
}

// TestToolsStayOutside: packages for tools and tests are not in programs that people
// install, and nothing outside tools needs a tool, except in tests.
func TestToolsStayOutside(t *testing.T) {
	for _, pkg := range ours(t, module) {
		for _, dep := range pkg.Imports {
			if isTool(dep) && !isTool(pkg.ImportPath) || within(dep, tools) && !within(pkg.ImportPath, tools) {
				t.Errorf("%s is neither a test nor a tool and must not import %s", pkg.ImportPath, dep)
			}
		}
	}
}
