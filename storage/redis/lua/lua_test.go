package lua

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestArrowsInBulk checks the assumptions of the script where it does not read or write the
// records of jobs: lua/call/take.lua, lua/fast/delete_held.lua, and package schema.
func TestArrowsInBulk(t *testing.T) {
	found := 0
	for _, a := range tube.Arrows() {
		switch {
		case a.Move == tube.Delete && a.From == tube.Reserved:
			if found++; !a.Held || a.To != tube.Gone || a.Counts != tube.NoCounter || a.Sets != tube.SetsNothing {
				t.Errorf("deleting a reserved job: %+v", a)
			}
		case a.Move == tube.Reserve:
			if found++; a.Held || a.From != tube.Ready || a.To != tube.Reserved || a.Sets != tube.SetsNothing {
				t.Errorf("reserving: %+v", a)
			}
		}
		into := a.To == tube.Reserved && a.From != tube.Reserved
		if into != (a.Counts == tube.Reserves) {
			t.Errorf("being reserved must count as such, and nothing else: %+v", a)
		}
	}
	if found != 2 {
		t.Errorf("found %d of 2 arrows", found)
	}
}

// TestAfterInLua: Lua computes the same as tube.Rules.After.
func TestAfterInLua(t *testing.T) {
	client, ctx := redistest.Start(t).Client(t), context.Background()
	text := after() + `
local function number(k) return tonumber(ARGV[k]) end
local rules = { retry = #ARGV > 7 and {} or nil, max = number(1), doubled = number(6) > 0 and number(6) or nil }
if number(7) > 0 then rules.jitter = number(7) - 1 end
for k = 8, #ARGV do rules.retry[k - 7] = number(k) end
local why, wait = after(rules, number(5), number(2), number(3), number(4))
return { why, string.format('%.0f', wait) }`
	const second, longest = time.Second, 10 * 365 * 24 * time.Hour
	for _, r := range []tube.Rules{
		{}, {Max: 1}, {Max: 3}, {Retry: []time.Duration{0}}, {Retry: []time.Duration{0, second, 4 * second}, Max: 2},
		{Retry: []time.Duration{second, longest, 3 * second}, Jitter: tube.JitterOf(100)}, {Retry: []time.Duration{second, 0}, Jitter: tube.JitterOf(33), Max: 4},
		{Retry: []time.Duration{second, time.Hour}, Doubled: 3}, {Retry: []time.Duration{time.Millisecond, longest}, Doubled: 250, Jitter: tube.JitterOf(0)},
		{Retry: []time.Duration{7 * time.Millisecond, longest}, Doubled: 250, Jitter: tube.JitterOf(100)},
	} {
		args := []any{r.Max, 0, 0, 0, 0, r.Doubled, uint8(r.Jitter)}
		for _, wait := range r.Retry {
			args = append(args, wait.Milliseconds())
		}
		for _, o := range []tube.Outcome{tube.Failure, tube.Lost, tube.Refused} {
			for _, failures := range []uint32{0, 1, 2, 3, 4, 60, 250, 251, 1<<32 - 1} {
				for deliveries := range uint32(5) {
					id := uint64(failures)*977 + 1<<uint64(deliveries*13)
					args[1], args[2], args[3], args[4] = int(o), failures, deliveries, id
					got, err := client.Eval(ctx, text, nil, args...).Slice()
					if err != nil {
						t.Fatal(err)
					}
					why, wait := tube.After(&r, id, o, failures, deliveries)
					if want := []any{int64(why), fmt.Sprint(wait.Milliseconds())}; !slices.Equal(got, want) {
						t.Errorf("%+v, job %d after %d, %d failures, %d deliveries: %v, want %v", r, id, o, failures, deliveries, got, want)
					}
				}
			}
		}
	}
}

// TestPlacementInLua: Lua finds the same partition of a tube as Go.
func TestPlacementInLua(t *testing.T) {
	client, ctx := redistest.Start(t).Client(t), context.Background()
	for _, of := range []int{1, 3, 16, 1024} {
		for n := range 30 {
			name := fmt.Sprint("tube-", n*n, "$")
			got, err := client.Eval(ctx, fmt.Sprintf("local partitions = %d\n", of)+placement()+"return partition_of(ARGV[1])", nil, name).Int()
			if err != nil || got != schema.PartitionOf(name, of) {
				t.Errorf("%s of %d: %d, %v, want %d", name, of, got, err, schema.PartitionOf(name, of))
			}
		}
	}
}

// TestPolicyFields checks that the scripts use no field of a policy that its text does not have: a misspelled one would
// be nil, which means that it is not set.
func TestPolicyFields(t *testing.T) {
	known := make(map[string]bool)
	for name := range schema.PolicyWords() {
		known["policy."+strings.ReplaceAll(name, "-", "_")] = true
	}
	for _, used := range regexp.MustCompile(`\bpolicy\.[a-z_]+`).FindAllString(MainText(), -1) {
		if !known[used] {
			t.Errorf("a script uses %s, and there is no such field", used)
		}
	}
}

// TestNamesInTables checks that the scripts use no function of one of their tables that no file defines. Such a name is
// nil until it is called, and SLOW would first define everything to find it.
func TestNamesInTables(t *testing.T) {
	used, defined := make(map[string]string), make(map[string]bool)
	for path, code := range lines(t) {
		for _, name := range inTable.FindAllString(code, -1) {
			used[name] = path
		}
		for _, name := range inTable.FindAllString(beforeAssignment.FindString(code), -1) {
			defined[name] = true
		}
	}
	if len(defined) < 100 {
		t.Fatalf("found %d definitions", len(defined))
	}
	for name, path := range used {
		if !defined[name] {
			t.Errorf("%s uses %s, which no file defines", path, name)
		}
	}
}

// inTable matches a name in one of the scripts' tables of functions; beforeAssignment, where such names are defined.
var (
	inTable          = regexp.MustCompile(`\b(SLOW|COMMANDS|STEPS|G|B)\.[a-z_]+`)
	beforeAssignment = regexp.MustCompile(`^\s*(function [^(]*\(|[^=]*=[^=])`)
)

// lines returns the lines of the scripts without their comments, each with its file.
func lines(t *testing.T) iter.Seq2[string, string] {
	return func(yield func(path, code string) bool) {
		err := fs.WalkDir(Files, ".", func(path string, _ fs.DirEntry, err error) error {
			text, _ := Files.ReadFile(path) // a directory has none
			for line := range strings.Lines(string(text)) {
				if code, _, _ := strings.Cut(line, "--"); !yield(path, code) {
					return fs.SkipAll
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWords checks that Go sends no operation that the script does not have, and that it has none which Go never sends.
// The operations job-batches and schedules have commands, which are the word behind; those of named/ are of both.
func TestWords(t *testing.T) {
	defined, sent, all := make(map[string]bool), make(map[string]bool), ""
	for path, code := range lines(t) {
		family := map[string]string{"jobbatches": "job-batches ", "schedules": "schedules ", "named": "named "}[filepath.Dir(path)]
		for _, m := range definedWord.FindAllStringSubmatch(code, -1) {
			switch {
			case m[2] != "":
				defined[family+m[2]] = true
			case m[1] != "" || path == "main.lua":
				defined[m[1]+m[3]] = true
			}
		}
	}
	files, err := filepath.Glob("../*.go")
	for _, path := range files {
		if text, _ := os.ReadFile(path); !strings.HasSuffix(path, "_test.go") {
			all += string(text)
		}
	}
	all = strings.ReplaceAll(all, "c.words(word, ", `c.words("named", `) // in named.go
	for _, m := range sentWord.FindAllStringSubmatch(all, -1) {
		sent[strings.TrimSpace(m[1]+" "+m[2])] = true
	}
	for kind := storage.Kind(0); kind.Spec().Name != ""; kind++ {
		if spec := kind.Spec(); spec.Change != nil {
			sent[spec.Name] = true
		}
	}
	for word := range sent {
		if !defined[word] {
			t.Errorf("Go sends %q, which is no operation", word)
		}
	}
	for word := range defined {
		if !sent[word] && word != "job-batches" && word != "schedules" {
			t.Errorf("no Go file sends %q", word)
		}
	}
	if err != nil || len(defined) < 70 {
		t.Errorf("%d operations, %v", len(defined), err)
	}
}

// definedWord matches where an operation, or a command of job-batches or schedules, is defined; sentWord where Go sends one.
var (
	definedWord = regexp.MustCompile(`\bOPERATIONS\['([a-z-]+)'\] =|function COMMANDS\.([a-z]+)|\bword == '([a-z-]+)'`)
	sentWord    = regexp.MustCompile(`(?:\bwords\(|\bc\.add\([^"\n]*|\t}, |Put: +|args := \[\]any\{)"([a-z][a-z-]*)"(?:, "([a-z]+)")?`)
)

// TestGlobals checks that the scripts use no name that is neither a local one nor one of Lua's and Redis's: a misspelled one would
// only be noticed when the script gets there. Redis compiles them, and the instructions say which names are global.
func TestGlobals(t *testing.T) {
	client, ctx := redistest.Start(t).Client(t), context.Background()
	var names []string
	all := ""
	for _, pattern := range []string{"*.lua", "check/*.lua"} {
		some, _ := fs.Glob(Files, pattern)
		for _, name := range some {
			text, _ := Files.ReadFile(name)
			names, all = append(names, name), all+string(text)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(all, include+name) })
	for _, name := range names {
		code, err := client.Eval(ctx, "return string.dump(assert(loadstring(ARGV[1])))", nil, source(name)).Text()
		if err != nil {
			t.Fatal(name, err)
		}
		r := &chunk{text: code[12:]} // behind the header
		r.function()
		for global := range r.globals {
			if !slices.Contains(known, global) {
				t.Errorf("%s uses %s, which is not defined", name, global)
			}
		}
		if len(r.globals) == 0 || len(r.text) > 0 {
			t.Errorf("%s was not understood", name)
		}
	}
	if len(names) < 13 {
		t.Errorf("%d scripts: %q", len(names), names)
	}
}

// known are the names that Lua and Redis define.
var known = strings.Fields("redis string table math struct bit KEYS ARGV call tonumber tostring ipairs pairs next type select unpack pcall error setmetatable")

// chunk is code that Lua 5.1 has compiled, on a machine with 8 bytes to a size, and 4 to an int and an instruction.
type chunk struct {
	text    string
	globals map[string]bool
}

func (c *chunk) bytes(n int) (b string) {
	b, c.text = c.text[:n], c.text[n:]
	return b
}

func (c *chunk) int() int { return int(binary.LittleEndian.Uint32([]byte(c.bytes(4)))) }

func (c *chunk) string() string {
	n := int(binary.LittleEndian.Uint64([]byte(c.bytes(8))))
	return strings.TrimSuffix(c.bytes(n), "\x00")
}

// function reads a function and those in it, and adds the names that they get or set as globals.
func (c *chunk) function() {
	c.string()      // its source
	c.bytes(12)     // its lines, how many upvalues and parameters it has
	var names []int // constants of the instructions GETGLOBAL, which is 5, and SETGLOBAL, which is 7
	for range c.int() {
		if op := c.int(); op&63 == 5 || op&63 == 7 {
			names = append(names, op>>14)
		}
	}
	constants := make([]string, c.int())
	for k := range constants {
		switch kind := c.bytes(1)[0]; kind {
		case 1: // a bool
			c.bytes(1)
		case 3: // a number
			c.bytes(8)
		case 4:
			constants[k] = c.string()
		}
	}
	for _, k := range names {
		if c.globals == nil {
			c.globals = make(map[string]bool)
		}
		c.globals[constants[k]] = true
	}
	for range c.int() {
		c.function()
	}
	c.bytes(4 * c.int()) // lines of the instructions
	for range c.int() {  // names of locals
		c.string()
		c.bytes(8)
	}
	for range c.int() { // names of upvalues
		c.string()
	}
}
