package checks

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/protocol"
	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
	"redstalk/tube/field"
)

// docs_test.go checks README.md and the pages of docs/ against the programs:
// docs/testing.md lists the checks. A block of a page is the text between
// two fences; its language determines how it is checked.

// page is a file of the documentation.
type page struct {
	path   string
	prose  string  // without blocks
	blocks []block // in their order
}

type block struct {
	language string // the info string
	section  string // the heading above it
	line     int    // number of its first line of text
	text     string
}

// pages reads the whole documentation.
func pages(t *testing.T) []*page {
	t.Helper()
	var all []*page
	for _, path := range append(tracked(t, "docs/*.md"), "README.md", "CHANGELOG.md") {
		all = append(all, readPage(t, path))
	}
	return all
}

func readPage(t *testing.T, path string) *page {
	t.Helper()
	text, err := os.ReadFile(at(path))
	if err != nil {
		t.Fatal(err)
	}
	p, inside, section := &page{path: path}, false, ""
	for i, line := range strings.Split(string(text), "\n") {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !inside:
			p.blocks = append(p.blocks, block{language: language, section: section, line: i + 2})
		case !fence && inside:
			p.blocks[len(p.blocks)-1].text += line + "\n"
		case !fence:
			p.prose += line + "\n"
			if m := heading.FindStringSubmatch(line); m != nil {
				section = m[1]
			}
		}
		inside = inside != fence
	}
	return p
}

func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile(at("README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n < 120 || n > 220 {
		t.Errorf("README.md has %d lines", n)
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unspoken = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // what an anchor leaves out of its heading
)

// anchors returns the anchors of a page, as GitHub makes them from its headings.
func (p *page) anchors() []string {
	var names []string
	for _, h := range heading.FindAllStringSubmatch(p.prose, -1) {
		name := unspoken.ReplaceAllString(strings.ToLower(link.ReplaceAllString(h[1], "")), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestLinks(t *testing.T) {
	all := pages(t)
	for _, p := range all {
		for _, found := range link.FindAllStringSubmatch(p.prose, -1) {
			if !strings.Contains(found[1], "://") {
				checkLink(t, all, p, found[1])
			}
		}
	}
}

func checkLink(t *testing.T, all []*page, from *page, to string) {
	file, anchor, _ := strings.Cut(to, "#")
	path := from.path
	if file != "" {
		path = filepath.Join(filepath.Dir(from.path), file)
	}
	if _, err := os.Stat(at(path)); err != nil {
		t.Errorf("%s: %s leads to no file", from.path, to)
		return
	}
	at := slices.IndexFunc(all, func(p *page) bool { return p.path == path })
	if at < 0 && strings.HasSuffix(path, ".md") { // of a client
		all, at = []*page{readPage(t, path)}, 0
	}
	if anchor != "" && (at < 0 || !slices.Contains(all[at].anchors(), anchor)) {
		t.Errorf("%s: %s leads to no heading", from.path, to)
	}
}

// TestDocs checks the statements of the pages about the programs.
func TestDocs(t *testing.T) {
	dir := workshop(t)
	t.Run("flags", func(t *testing.T) { testFlags(t, dir) })
	for _, p := range pages(t) {
		if slices.ContainsFunc(p.blocks, func(b block) bool { return strings.HasPrefix(b.language, "console") }) {
			t.Run(filepath.Base(p.path), func(t *testing.T) { t.Parallel(); p.testFollow(t, dir) })
		}
		for _, b := range p.blocks {
			name := fmt.Sprintf("%s:%d", filepath.Base(p.path), b.line)
			switch {
			case b.language == "sh" && strings.Contains(b.text, "redis-cli"):
				t.Run(name, func(t *testing.T) { t.Parallel(); b.play(t, dir) })
			case b.language == "sh":
				t.Run(name, func(t *testing.T) { t.Parallel(); b.try(t, dir) })
			case strings.HasPrefix(b.text, "> "):
				t.Run(name, func(t *testing.T) { t.Parallel(); b.converse(t, dir) })
			}
		}
	}
}

// workshop returns a directory for running commands of the pages, with
// the programs in bin/.
func workshop(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	for into, packages := range map[string]string{
		bin + "/": module + "/cmd/...", bin + "/stalkbench": tools + "/bench", bin + "/transcript": conformance + "/play",
	} {
		if err := compile.Program(into, packages); err != nil {
			t.Fatal(err)
		}
	}
	err = os.Symlink(at("testdata"), filepath.Join(dir, "testdata"))
	for _, old := range []string{"delay-queue.conf", "config/config.toml"} { // of docs/gateways.md
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, old)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, old), nil, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// flagRow is a flag in the help or in the table of docs/flags.md.
type flagRow struct{ short, long, variable, initial string }

var (
	helpFlag  = regexp.MustCompile(`(?m)^  (?:(-\w), |    )(--[a-z-]+)(?: [A-Z=]+)?(?:  \[(REDSTALK_\w+)\])?$((?:\n          .*)*)`)
	helpValue = regexp.MustCompile(`\(default ([^)]*)\)$`)
	rowFlag   = regexp.MustCompile("(?m)^\\| (?:`(-\\w)[^|]*`)? ?\\| `(--[a-z-]+)[^|`]*` \\| (?:`(REDSTALK_\\w+)`)? ?\\| ([^|]*?) ?\\| ")
	flagUsed  = regexp.MustCompile("`(?:redstalkd (?:fsck )?)?(--[a-z-]+)[^`]*`")
	varUsed   = regexp.MustCompile(`REDSTALK_[A-Z_]+`)
)

// testFlags compares docs/flags.md with the help, and looks for flags and variables
// in other pages that do not exist.
func testFlags(t *testing.T, dir string) {
	help, known := helpOf(t, dir, "redstalkd", "-h"), []string{
		"--repair", "--from", "--dry-run", "--ids", "--to", "--format", "--at-once", "--rate", "--wait", "--argon", "--cost", "--cluster-pipeline", "--include", "--as", "REDSTALK_BEANSTALKD",
	}
	var want, got []flagRow
	for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
		row := flagRow{m[1], m[2], m[3], "off"}
		if value := helpValue.FindStringSubmatch(m[4]); value != nil {
			row.initial = value[1]
		}
		want, known = append(want, row), append(known, row.long, row.variable)
	}
	flags := readPage(t, "docs/flags.md")
	for _, m := range rowFlag.FindAllStringSubmatch(flags.prose, -1) {
		initial := strings.Trim(m[4], "`")
		if initial == "" {
			initial = "off"
		}
		got = append(got, flagRow{m[1], m[2], m[3], initial})
	}
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("the program has %+v, which docs/flags.md lacks or has otherwise", row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("docs/flags.md has %+v, which the program lacks or has otherwise", row)
		}
	}
	known = append(known, regexp.MustCompile(`--[a-z-]+`).FindAllString(helpOf(t, dir, "stalkbench", "run", "-h"), -1)...)
	for _, found := range []*regexp.Regexp{regexp.MustCompile(`--[a-z-]+`), varUsed} {
		known = append(known, found.FindAllString(helpOf(t, dir, "redstalk", "reference"), -1)...)
	}
	known = append(known, "REDSTALK_SECRET") // of redstalk, which has no flag for it
	for _, p := range pages(t) {
		used := varUsed.FindAllString(p.prose, -1)
		for _, m := range flagUsed.FindAllStringSubmatch(p.prose, -1) {
			used = append(used, m[1])
		}
		for _, name := range used {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no %s", p.path, name)
			}
		}
	}
}

func helpOf(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(dir, "bin", program), args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", program, args, err)
	}
	return string(out)
}

var (
	continued  = regexp.MustCompile(`\\\n\s*`)
	comment    = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	computed   = regexp.MustCompile(`"?\$\([^)]*\)"?`)
	variables  = regexp.MustCompile(`^(\s*\w+=\S+\s+)+`)
	makeAssign = regexp.MustCompile(`^(\w+)=`)
	redisURL   = regexp.MustCompile(`(rediss?(?:\+\w+)?://(?:[^/@\s]*@)?)[^/\s]+`)
)

// try checks the commands of a block that belong to this project.
func (b *block) try(t *testing.T, dir string) {
	text := comment.ReplaceAllString(continued.ReplaceAllString(b.text, " "), "")
	for line := range strings.Lines(text) {
		line = variables.ReplaceAllString(strings.TrimSpace(line), "")
		line = computed.ReplaceAllString(line, "1")
		program, rest, _ := strings.Cut(line, " ")
		switch program {
		case "make":
			tryMake(t, strings.Fields(rest))
		case "bin/redstalkd":
			tryServer(t, dir, line)
		case "bin/stalkbench":
			command, rest, _ := strings.Cut(rest, " ")
			tryCommand(t, dir, program+" "+command+" -h "+rest)
		case "bin/transcript":
			tryCommand(t, dir, line)
		case "redstalk", "redstalkd": // with -h they read their arguments, and do nothing
			line, _, _ = strings.Cut(line, " | ")
			line, _, _ = strings.Cut(line, " > ")
			tryCommand(t, dir, "bin/"+line+" -h")
		case "go":
			tryTest(t, strings.Fields(rest))
		}
	}
}

// tryMake runs make in dry-run mode.
func tryMake(t *testing.T, args []string) {
	makefile, err := os.ReadFile(at("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		if m := makeAssign.FindStringSubmatch(arg); m != nil && !regexp.MustCompile(`(?m)^`+m[1]+` *\?=`).Match(makefile) {
			t.Errorf("the Makefile knows no %s", m[1])
		}
	}
	cmd := exec.Command("make", append([]string{"-n"}, args...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("make %v: %v\n%s", args, err, out)
	}
}

// tryServer starts a server with these arguments on a free port, in a new
// directory, since others run at the same time with the same arguments. If the store is
// Redis, none is reachable.
func tryServer(t *testing.T, dir, line string) {
	elsewhere := redisURL.ReplaceAllString(line, "${1}127.0.0.1:1")
	cmd := exec.Command("sh", "-c", "exec "+elsewhere+" -p 0 -V")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "REDSTALK_STORE_TIMEOUT=100ms")
	if err := os.Symlink(filepath.Join(dir, "bin"), filepath.Join(cmd.Dir, "bin")); err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "msg=serving") {
			cmd.Process.Kill()
			cmd.Wait()
			return
		}
	}
	cmd.Wait()
	if line == elsewhere || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%s: %v\n%s", line, cmd.ProcessState, said)
	}
}

func tryCommand(t *testing.T, dir, line string) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PWD="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

// tryTest checks that a package has tests or benchmarks of that name.
func tryTest(t *testing.T, args []string) {
	var files []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "./") {
			files, _ = filepath.Glob(at(filepath.Join(arg, "*_test.go")))
		}
	}
	var text []byte
	for _, file := range files {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	for i, arg := range args {
		if name := strings.Trim(args[min(i+1, len(args)-1)], "'^$"); (arg == "-run" || arg == "-bench") && name != "" &&
			!regexp.MustCompile(`(?m)^func \w*`+name).Match(text) {
			t.Errorf("go %s: there is no %s", strings.Join(args, " "), name)
		}
	}
}

// server is a redstalkd on a free port.
func server(t *testing.T, dir, store string) (addr string) {
	t.Helper()
	addr, _ = serve(t, dir, store)
	return addr
}

// serve starts a redstalkd on a free port. With the flag --http it returns that address, too.
func serve(t *testing.T, dir, store string, flags ...string) (addr, http string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "bin/redstalkd"), append(flags, "--store", store, "-p", "0", "-V")...)
	cmd.Dir = t.TempDir()
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := regexp.MustCompile(`msg=listening listener=http addr=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			http = m[1]
		}
		if m := regexp.MustCompile(`msg=serving addr=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			return m[1], http
		}
	}
	t.Fatal("redstalkd does not serve")
	return "", ""
}

var (
	aging      = regexp.MustCompile(`(\bage"?|time-left): ?\d+`)
	leaseToken = regexp.MustCompile(`\b\d{20}\b`) // of a lease
)

// converse plays a session: lines with "> " are sent, the others are expected; … stands for anything.
func (b *block) converse(t *testing.T, dir string) {
	conn, err := net.Dial("tcp", server(t, dir, "embedded:jobs"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	replies, tokens := bufio.NewReader(conn), strings.NewReplacer()
	for line := range strings.Lines(b.text) {
		line = tokens.Replace(strings.TrimSuffix(line, "\n"))
		if command, typed := strings.CutPrefix(line, "> "); typed {
			fmt.Fprintf(conn, "%s\r\n", command)
			continue
		}
		got, err := replies.ReadString('\n')
		got = strings.TrimRight(got, "\r\n")
		if shown, real := leaseToken.FindString(line), leaseToken.FindString(got); shown != "" && real != "" {
			tokens = strings.NewReplacer(shown, real)
			line = tokens.Replace(line)
		}
		if err != nil || !matches(aging.ReplaceAllString(line, "$1"), aging.ReplaceAllString(got, "$1")) {
			t.Fatalf("%q came instead of %q (%v)", got, line, err)
		}
	}
}

var complaint = regexp.MustCompile(`(?m)^(ERR|WRONGTYPE|NOSCRIPT|Unrecognized) `)

// play runs a block on a Redis with jobs of a redstalkd.
func (b *block) play(t *testing.T, dir string) {
	bin, port := t.TempDir(), redisServer(t)
	shim := fmt.Sprintf("#!/bin/sh\nexec %s -p %s \"$@\"\n", look(t, "redis-cli"), port)
	if err := os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	putSomeJobs(t, server(t, dir, "redis://127.0.0.1:"+port))
	cmd := exec.Command(look(t, b.language), "-eu", "-c", b.text)
	cmd.Dir, cmd.Env = bin, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || complaint.Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

func look(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// redisServer starts a Redis without persistence, and returns its port.
func redisServer(t *testing.T) (port string) {
	t.Helper()
	port = child.FreePort()
	cmd := exec.Command(look(t, "redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "")
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return port
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("Redis does not answer")
	return ""
}

// putSomeJobs puts jobs into the tube mail: 1 is reserved, 2 delayed, 3 buried; 4 to
// 9, which were put together, are ready; 10 to 29 were reserved together, and 10 is deleted.
func putSomeJobs(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	replies := bufio.NewReader(conn)
	for _, step := range []struct{ commands, last string }{
		{"use mail\r\nwatch mail\r\nignore default\r\nput 1 0 600 5\r\nfirst\r\n", "INSERTED 1"},
		{"put 1 600 600 5\r\nlater\r\nput 1 0 600 3\r\nbad\r\n", "INSERTED 3"},
		{strings.Repeat("put 5 0 600 4\r\nmany\r\n", 6), "INSERTED 9"},
		{strings.Repeat("put 1 0 600 4\r\nmany\r\n", 20), "INSERTED 29"},
		{"reserve-job 3\r\n", "bad"},
		{"bury 3 1\r\nreserve-job 1\r\n", "first"},
		{strings.Repeat("reserve\r\n", 20), "RESERVED 29 4"},
		{"delete 10\r\n", "DELETED"},
	} {
		fmt.Fprint(conn, step.commands)
		for got := ""; got != step.last; {
			line, err := replies.ReadString('\n')
			if got = strings.TrimRight(line, "\r\n"); err != nil {
				t.Fatalf("%q did not come: %v", step.last, err)
			}
		}
	}
}

var (
	inline   = regexp.MustCompile("`([^`]+)`")
	fileName = regexp.MustCompile(`[\w/-]+\.(?:go|lua)\b`)
	funcName = regexp.MustCompile(`^(?:\w+\.)?([a-zA-Z]\w+)(?:\(\w*\))?$`)
	funcDecl = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|\t)(\w+)(?:\(| +func\()`) // of functions, methods of interfaces, and fields that are functions
)

// TestRights: the table of docs/access.md has each command beside the right that it needs. A word
// with … stands for all commands that begin with it.
func TestRights(t *testing.T) {
	documented := make(map[string]string)
	for line := range strings.Lines(readPage(t, "docs/access.md").prose) {
		cells := strings.Split(strings.Trim(line, "|\n"), " | ")
		if len(cells) != 3 || strings.Contains(cells[0], " and ") {
			continue
		}
		commands, _, _ := strings.Cut(cells[1], ";")
		for _, m := range regexp.MustCompile("`([a-z-]+)`(…?)").FindAllStringSubmatch(commands, -1) {
			for v := protocol.Unknown + 1; v < protocol.NumVerbs; v++ {
				if v.String() == m[1] || m[2] != "" && strings.HasPrefix(v.String(), m[1]+"-") {
					documented[v.String()] += strings.TrimSpace(cells[0])
				}
			}
		}
	}
	for v := protocol.Unknown + 1; v < protocol.NumVerbs; v++ {
		if want := rightCell(v.Spec().Need); documented[v.String()] != want {
			t.Errorf("%s needs %s; docs/access.md has it beside %q", v, want, documented[v.String()])
		}
	}
}

// rightCell returns how docs/access.md writes what a command needs.
func rightCell(n protocol.Need) string {
	switch {
	case n.Where == protocol.Free:
		return "none"
	case len(n.One.Words()) > 1:
		return "any"
	case n.Where == protocol.Everywhere:
		return "`" + n.One.String() + "` on `\"*\"`"
	}
	return "`" + n.One.String() + "`"
}

// TestTagTable: the table of docs/extensions.md and package protocol have the same tags of a put.
func TestTagTable(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t, "docs/extensions.md").prose, "| tag | value |")
	table, _, _ = strings.Cut(table, "\n\n")
	var got, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)`").FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	for _, tag := range protocol.TagsIn(field.InPut) {
		want = append(want, tag.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/extensions.md has the tags %v, package protocol %v", got, want)
	}
}

// TestNames: the files in docs/architecture.md exist, and so do the
// functions in its tables of paths.
func TestNames(t *testing.T) {
	files, known := tracked(t, "*.go", "*.lua"), map[string]bool{}
	for _, path := range files {
		text, err := os.ReadFile(at(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range funcDecl.FindAllSubmatch(text, -1) {
			known[string(m[1])] = true
		}
	}
	for line := range strings.Lines(readPage(t, "docs/architecture.md").prose) {
		cells := strings.Split(line, " | ")
		for _, name := range fileName.FindAllString(line, -1) {
			if !slices.ContainsFunc(files, func(path string) bool { return path == name || strings.HasSuffix(path, "/"+name) }) {
				t.Errorf("docs/architecture.md names %s, which is not there", name)
			}
		}
		if len(cells) != 3 || !fileName.MatchString(cells[2]) {
			continue
		}
		for _, m := range inline.FindAllStringSubmatch(cells[1], -1) {
			if f := funcName.FindStringSubmatch(m[1]); f != nil && !known[f[1]] && f[1] != "handlers" {
				t.Errorf("docs/architecture.md names the function %s, which is not there", m[1])
			}
		}
	}
}
