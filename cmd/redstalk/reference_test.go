package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

var update = flag.Bool("update", false, "write the reference, the man page and the completion anew")

const docs = "../../docs/"

// TestReference: the committed reference is the one generated from the definitions.
func TestReference(t *testing.T) {
	t.Parallel()
	const mark = "-update -->\n\n"
	page, err := os.ReadFile(docs + "cli.md")
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(page), mark)
	if !ok {
		t.Fatalf("docs/cli.md lacks the line that ends in %q", mark)
	}
	app := newApp(stdio{})
	app.Setup()
	wantFile(t, "cli.md", head+mark+reference(app))
	wantFile(t, "cli/redstalk.1", string(manPage(app)))
	for shell, script := range completionScripts {
		wantFile(t, "cli/redstalk."+shell, script)
	}
}

func wantFile(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(docs, name)
	if got, err := os.ReadFile(path); err == nil && string(got) == want {
		return
	}
	if !*update {
		t.Errorf("docs/%s is not what the definitions make: go test ./cmd/redstalk -run TestReference -args -update", name)
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEverythingIsSaid: every command and flag has a description, and flags with a value
// name it.
func TestEverythingIsSaid(t *testing.T) {
	t.Parallel()
	app := newApp(stdio{})
	app.Setup()
	for _, c := range app.VisibleCommands() {
		if c.Usage == "" || c.Category == "" || c.Action == nil {
			t.Errorf("%s says too little of itself", c.Name)
		}
		for _, f := range append(c.VisibleFlags(), app.VisibleFlags()...) {
			form, _, _, meaning := flagText(f)
			if meaning == "" || takesValue(f) && strings.HasSuffix(form, " ") {
				t.Errorf("%s %s says too little of itself", c.Name, form)
			}
		}
	}
}

// TestMan: a checker of man pages finds no faults.
func TestMan(t *testing.T) {
	t.Parallel()
	app := newApp(stdio{})
	app.Setup()
	page := string(manPage(app))
	for _, c := range app.VisibleCommands() {
		if !strings.Contains(page, `redstalk `+strings.ReplaceAll(c.Name, "-", `-`)) {
			t.Errorf("the man page lacks %s", c.Name)
		}
	}
	if path, err := exec.LookPath("groff"); err == nil {
		cmd := exec.Command(path, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--help": "COMMANDS:", "": "COMMANDS:", "put -h": "redstalk put", "--help put": "redstalk put", "-v": "redstalk version dev", "put x --help": "redstalk put",
	} {
		got := runIn(t.Context(), "", strings.Fields(args)...)
		if got.code != 0 || !strings.Contains(got.out, want) || got.err != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	on(t, addr)("put", "-t", "mails", "x")
	for _, c := range []struct {
		words string
		want  string // first words of the lines
	}{
		{"re", "reserve replay release reschedule"},
		{"put --ta", ""},
		{"put --tu", "--tube"},
		{"put --ser", "--server"},
		{"-s " + addr + " peek -t ", "default mails"},
		{"peek --server=" + addr + " --tube ma", "mails"},
		{"peek --server=unix:/nowhere --tube ma", ""},
		{"list --state ", "ready delayed reserved buried"},
		{"reserve --exec ", ""},
		{"completion ", "bash zsh fish"},
		{"put x --on-duplicate r", "replace"},
		{"-s " + addr + " put x --dead ma", "mails"},
		{"-s unix:/nowhere policy q", "quota-jobs: quota-bytes:"},
		{"-s " + addr + " move-from --to ", ""},
	} {
		got := runIn(t.Context(), "", append([]string{"complete", "--"}, strings.Split(c.words, " ")...)...)
		var words []string
		for line := range strings.Lines(got.out) {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
		}
		if strings.Join(words, " ") != c.want || got.err != "" {
			t.Errorf("%s: %q, want %q (%s)", c.words, words, c.want, got.err)
		}
	}
}

// TestShells: the completion scripts work in their shells, if these are installed. Candidates for
// bash are quoted; zsh and fish quote by themselves.
func TestShells(t *testing.T) {
	t.Parallel()
	addr, hostile := ours(t), "$(/nowhere);a;b"
	on(t, addr)("put", "-t", hostile, "x")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "redstalk")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ shell, commands, want string }{
		{"bash", `source <(redstalk completion bash); COMP_WORDS=(redstalk put --tu); COMP_CWORD=2; _redstalk; echo "${COMPREPLY[@]}"`, "--tube"},
		{"bash", `source <(redstalk completion bash); COMP_WORDS=(redstalk peek --tube '$'); COMP_CWORD=3; _redstalk; eval "echo ${COMPREPLY[0]}"`, hostile},
		{"zsh", `compdef() { true; }; _describe() { print -l -- $found; }; source <(redstalk completion zsh); words=(redstalk put --tu); CURRENT=3; _redstalk`, "--tube"},
		{"fish", `redstalk completion fish | source; complete -C 'redstalk put --tu'`, "--tube"},
	} {
		path, err := exec.LookPath(c.shell)
		if err != nil {
			continue
		}
		cmd := exec.Command(path, "-c", c.commands)
		cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "REDSTALK_SERVER="+addr)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%s: %v\n%s, want %s", c.shell, err, out, c.want)
		}
	}
}

// TestExamples: each command has examples in its help, whose flags exist.
func TestExamples(t *testing.T) {
	app := newApp(stdio{})
	for _, c := range app.VisibleCommands() {
		if len(examples[c.Name]) == 0 {
			t.Errorf("%s has no example", c.Name)
		}
		for _, example := range examples[c.Name] {
			_, line, found := strings.Cut(example, "redstalk "+c.Name)
			args := strings.Fields(c.Name + strings.NewReplacer("<", " ", ">", " ", "|", " ", ")", "", "'", "").Replace(line))
			own, _, _ := strings.Cut(line, "|")
			for _, arg := range strings.Fields(own) {
				name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
				named := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
				if strings.HasPrefix(arg, "-") && arg != "-" && !slices.ContainsFunc(slices.Concat(c.Flags, app.Flags), named) {
					t.Errorf("%s: there is no %s", example, arg)
				}
			}
			if got := runIn(t.Context(), "", append(args, "--help")...); !found || got.code != 0 || !strings.Contains(got.out, "EXAMPLES:\n   ") || !strings.Contains(got.out, example) {
				t.Errorf("%s: %+v", example, got)
			}
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "put"}, {"version"}} {
		flag := append([]string{"--" + args[0]}, args[1:]...)
		if got, want := runIn(t.Context(), "", args...), runIn(t.Context(), "", flag...); got != want || got.code != 0 || got.out == "" {
			t.Errorf("%v: %+v, want %+v", args, got, want)
		}
	}
	if got := runIn(t.Context(), "", "help", "nothing"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}
