package packages

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A client is how its package is built, installed and tried, by commands of sh: in an empty directory, with $BUILT, where
// the package is, $VERSION, $CLONE, a clone of this repository, and $RENAMED, one that has a public home.
type client struct {
	fetch    string // what comes from a registry, without which nothing is tried
	build    string
	prepare  string // makes the directory a project
	today    string // runs the code in the README that installs from a clone; without, the code is commands
	install  []string
	language string // of the program in the README
	program  string // its file
	marker   string // what tells it from other code there
	opening  string // before it
	run      string // prints the mail that it sends, and may go on
	check    string // what else must work with what was built
	place    string // where it is installed
	sources  string // directory of files that must be there
	compiled func(source string) []string
	pages    []string // other files that must be there
}

const (
	home        = "github.com/example/redstalk"
	buildScript = "sh $RENAMED/tools/packages/clients.sh $VERSION $BUILT "
)

var clients = map[string]client{
	"go": {
		// What the go command keeps of what it downloads from a repository is what a module proxy has.
		build:    "cd $RENAMED/clients/go && GOPROXY=direct GOMODCACHE=$BUILT go mod download " + home + "/clients/go@v$VERSION " + home + "/clients/go/otel@v$VERSION",
		prepare:  "go mod init example.org/mails",
		install:  []string{"go get " + home + "/clients/go@v$VERSION"},
		language: "go", program: "main.go", marker: "package main", run: "go mod tidy && go run .",
		check: "go get " + home + "/clients/go/otel@v$VERSION && go list -deps " + home + "/clients/go/otel",
		place: "../modules/" + home + "/clients/go@*", sources: "worker", pages: []string{"LICENSE"},
	},
	"python": {
		build:    buildScript + "python",
		prepare:  "[ -e ../bin ] || /usr/bin/python3 -m venv --system-site-packages ..",
		install:  []string{"pip install --force-reinstall $BUILT/*.whl", "pip install --force-reinstall $BUILT/*.tar.gz"},
		language: "python", program: "mails.py", marker: "App(", run: "python mails.py; python -m redstalk mails:app",
		check: "python -m mypy --strict mails.py; tar -xzOf $BUILT/*.tar.gz --wildcards '*/CHANGELOG.md'",
		place: "../lib/python3*/site-packages", sources: "redstalk", pages: []string{"redstalk-*.dist-info/METADATA", "redstalk-*.dist-info/LICENSE"},
	},
	"typescript": {
		fetch:    "cd $CLONE/clients/typescript && npm ci --ignore-scripts",
		build:    buildScript + "typescript",
		prepare:  "npm init --yes",
		install:  []string{"npm install --offline $BUILT/*.tgz"},
		language: "js", program: "mails.mjs", marker: "Worker(", run: "node mails.mjs",
		check: `node -e 'new (require("redstalk").Client)({ port: 1 })'
			echo 'import { Queue } from "redstalk"; const queue = new Queue("mail"); // @ts-expect-error
			queue.add(1, { to: 1 });' >esm.mts
			echo 'import redstalk = require("redstalk"); const client = new redstalk.Client(); // @ts-expect-error
			client.put(1);' >cjs.cts
			modules=$CLONE/clients/typescript/node_modules
			$modules/.bin/tsc --noEmit --strict --target es2022 --module node16 --types node --typeRoots $modules/@types esm.mts cjs.cts`,
		place: "node_modules/redstalk", sources: "src", pages: []string{"README.md", "CHANGELOG.md", "package.json", "LICENSE"},
		compiled: func(source string) (all []string) {
			for _, module := range []string{"dist/esm/", "dist/cjs/"} {
				name := module + strings.TrimSuffix(strings.TrimPrefix(source, "src/"), ".ts")
				all = append(all, name+".js", name+".d.ts")
			}
			return all
		},
	},
	"ruby": {
		build:    buildScript + "ruby",
		today:    "echo '%s' >Gemfile; bundle install --local",
		install:  []string{"gem install --local $BUILT/*.gem"},
		language: "ruby", program: "mails.rb", marker: "Worker.new(", run: "[ ! -e Gemfile ] || export RUBYOPT=-rbundler/setup; ruby -e '$stdout.sync = true; load \"mails.rb\"'",
		place: "gems/redstalk-*", sources: "lib", pages: []string{"README.md", "CHANGELOG.md", "LICENSE", "../../specifications/redstalk-*.gemspec"},
	},
	"php": {
		build: buildScript + "php",
		prepare: `echo {} >composer.json
			composer config repositories.packagist.org false
			composer config repositories.psr '{"type": "package", "package": {"name": "psr/log", "version": "1.1.4",
				"autoload": {"psr-4": {"Psr\\Log\\": ""}}, "dist": {"type": "path", "url": "/usr/share/php/Psr/Log"}}}'`,
		install:  []string{"composer config repositories.redstalk artifact $BUILT; composer require redstalk/redstalk"},
		language: "php", program: "mails.php", marker: "vendor/autoload.php", opening: "<?php ", run: "php mails.php",
		check: "composer validate --no-check-version vendor/redstalk/redstalk/composer.json",
		place: "vendor/redstalk/redstalk", sources: "src", pages: []string{"README.md", "CHANGELOG.md", "composer.json", "LICENSE"},
	},
}

// TestClientPackages: each client is installed in an empty directory, first as its README says, then from its package,
// and runs the quick start of the README there.
func TestClientPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the packages of all clients")
	}
	w := open(t)
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.of(t, name)
			if err := w.command(t.Context(), "", c.fetch).Run(); err != nil {
				t.Skipf("%s: %v", c.fetch, err)
			}
			w.try(t, c, "today", "$CLONE", w.today(t, c))
			w.sh(t, "", c.build)
			for i, install := range c.install {
				project := fmt.Sprint("built", i)
				w.try(t, c, project, "$RENAMED", install)
				w.sh(t, project, c.check)
				w.checkFiles(t, c, project)
			}
		})
	}
}

// today returns the commands that install a client from the clone, as the README says.
func (w *workshop) today(t *testing.T, c client) string {
	t.Helper()
	const place = "/path/of/the/clone"
	code := w.code(t, "$CLONE", "", place)
	if c.today != "" {
		code = fmt.Sprintf(c.today, code)
	}
	return strings.ReplaceAll(code, place, filepath.Join(w.root, "../clone"))
}

// block matches code, between fences or inline.
var block = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```|`([^`]*)`")

// code returns the first code in the README that has a text, in one language or any.
func (w *workshop) code(t *testing.T, repository, language, text string) string {
	t.Helper()
	readme := w.sh(t, "", "cat "+repository+"/clients/"+w.client+"/README.md")
	for _, found := range block.FindAllStringSubmatch(readme, -1) {
		if code := found[2] + found[3]; strings.Contains(code, text) && (language == "" || language == found[1]) {
			return code
		}
	}
	t.Fatalf("the README has no %s", text)
	return ""
}

// try installs a client in a project, and runs the quick start there.
func (w *workshop) try(t *testing.T, c client, project, repository, install string) {
	t.Helper()
	program := strings.ReplaceAll(w.code(t, repository, c.language, c.marker), "11300", w.serve(t))
	w.write(t, filepath.Join(project, c.program), c.opening+program)
	w.sh(t, project, c.prepare)
	w.sh(t, project, install)
	w.await(t, project, c.run, "ada@example.com")
}

// relative matches a link of a page to another file of its repository.
var relative = regexp.MustCompile(`\]\((\.|docs/|clients/|[\w-]+\.md)[^)]*\)`)

// checkFiles looks for the files of an installed client, and at the links of its pages.
func (w *workshop) checkFiles(t *testing.T, c client, project string) {
	t.Helper()
	place := w.find(t, project, c.place)
	for _, source := range strings.Fields(w.sh(t, "", "cd $CLONE/clients/"+w.client+" && git ls-files "+c.sources+" | grep -v _test.go")) {
		files := []string{source}
		if c.compiled != nil {
			files = c.compiled(source)
		}
		for _, file := range files {
			w.find(t, place, file)
		}
	}
	for _, page := range c.pages {
		file := w.find(t, place, page)
		text := w.sh(t, "", "cat "+file)
		if found := relative.FindString(text); found != "" || strings.Contains(text, ".invalid/") {
			t.Errorf("%s has the link %s", file, found)
		}
		if filepath.Base(page) != "LICENSE" && !strings.Contains(text, "https://"+home) {
			t.Errorf("%s does not name %s", file, home)
		}
	}
}
