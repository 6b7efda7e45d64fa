package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// variables are those of the server, by the table of its flags, which a test compares with its help.
func variables(t *testing.T) []string { return variablesOn(t, "../../docs/flags.md") }

// variablesOn are the variables that a page names.
func variablesOn(t *testing.T, page string) []string {
	t.Helper()
	return regexp.MustCompile(`REDSTALK_\w+`).FindAllString(read(t, page), -1)
}

// TestVariables: every variable that an example sets is one that a program reads.
func TestVariables(t *testing.T) {
	known := append(variables(t), variablesOn(t, "../../docs/cli.md")...) // of redstalk
	for _, path := range files(t) {
		for _, name := range regexp.MustCompile(`REDSTALK_\w+`).FindAllString(read(t, path), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no variable %s", path, name)
			}
		}
	}
}

// files are all examples.
func files(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*file", "*/*.yaml", "kubernetes/*/*/*.yaml", "kubernetes/*/*/*.env", "kubernetes/helm/redstalk/templates/*", "*/*.cfg", "*/*.zone", "../packages/*.env", "../packages/*.service", "../packages/*.socket", "../packages/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// documents are those of a file of YAML.
func documents(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader([]byte(read(t, path))))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, doc)
	}
}

// at returns what is in a document at a path of names; nil if there is nothing.
func at(doc any, path ...string) any {
	for _, name := range path {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[name]
	}
	return doc
}

// TestCompose: each file has servers of redstalk whose store is one that is known, and services that
// depend on such as exist.
func TestCompose(t *testing.T) {
	paths, _ := filepath.Glob("compose/*.yaml")
	if len(paths) != 3 {
		t.Fatal(paths)
	}
	for _, path := range paths {
		services, _ := at(documents(t, path)[0], "services").(map[string]any)
		instances := 0
		for name, s := range services {
			if at(s, "image") == nil {
				t.Errorf("%s: %s has no image", path, name)
			}
			var needs []string
			switch on := at(s, "depends_on").(type) {
			case []any:
				for _, one := range on {
					needs = append(needs, one.(string))
				}
			case map[string]any:
				for one := range on {
					needs = append(needs, one)
				}
			}
			for _, one := range needs {
				if services[one] == nil {
					t.Errorf("%s: %s depends on %s, which there is not", path, name, one)
				}
			}
			store, ok := at(s, "environment", "REDSTALK_STORE").(string)
			if !ok {
				continue
			}
			instances++
			for _, host := range regexp.MustCompile(`[a-z]+-?\d*:\d+`).FindAllString(store, -1) {
				if before, _, _ := strings.Cut(host, ":"); services[before] == nil {
					t.Errorf("%s: the store of %s is at %s, which there is not", path, name, host)
				}
			}
		}
		if instances != 2 {
			t.Errorf("%s has %d instances", path, instances)
		}
		accepts(t, "docker-compose", "-f", path, "config", "-q")
	}
}

// accepts has a program look at an example, if it is here.
func accepts(t *testing.T, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Logf("there is no %s", program)
		return
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v: %s", program, args, err, out)
	}
}

// TestDockerfile: its instructions are known, none needs a network, it copies what build.sh makes, and
// it ends unprivileged, with a health check.
func TestDockerfile(t *testing.T) {
	last, build := make(map[string]string), read(t, "../packages/build.sh")
	for line := range strings.Lines(read(t, "Dockerfile")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || strings.HasPrefix(word, "#") {
			continue
		}
		if !slices.Contains(strings.Fields("FROM WORKDIR COPY ARG USER VOLUME ENV EXPOSE HEALTHCHECK ENTRYPOINT"), word) {
			t.Errorf("there is no instruction %s", word)
		}
		last[word] = rest
		for _, m := range regexp.MustCompile(`linux_\S+/(\S+)`).FindAllStringSubmatch(rest, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b.*"\$OUT/linux_\$ARCH/"\n|\$OUT/linux_\$ARCH/` + m[1] + `"\n`).MatchString(build) {
				t.Errorf("build.sh makes no %s", m[0])
			}
		}
	}
	if !strings.HasPrefix(last["USER"], "65532") || !strings.Contains(last["HEALTHCHECK"], "healthcheck") {
		t.Errorf("%v", last)
	}
}

// section matches a line that begins a section of a unit, and setting one with a value.
var (
	section = regexp.MustCompile(`^\[(Unit|Service|Socket|Timer|Install)\]$`)
	setting = regexp.MustCompile(`^[A-Z][A-Za-z]+=\S.*$`)
)

// TestUnits: the units are in the form of units, and systemd finds nothing wrong if it is here.
func TestUnits(t *testing.T) {
	paths, _ := filepath.Glob("../packages/redstalk*.*")
	units := 0
	for _, path := range paths {
		if ext := filepath.Ext(path); ext != ".service" && ext != ".socket" && ext != ".timer" {
			continue
		}
		units++
		for line := range strings.Lines(read(t, path)) {
			line = strings.TrimSuffix(line, "\n")
			if line != "" && line[0] != '#' && !section.MatchString(line) && !setting.MatchString(line) {
				t.Errorf("%s: %q", path, line)
			}
		}
		verify(t, path)
	}
	if units != 6 {
		t.Errorf("%d units: %v", units, paths)
	}
}

// verify has systemd look at a unit, with a program that exists in place of ours.
func verify(t *testing.T, path string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil || strings.Contains(path, "@") {
		return
	}
	name := filepath.Join(t.TempDir(), filepath.Base(path))
	text := strings.NewReplacer("/usr/bin/redstalkd", "/bin/true", "/usr/bin/redstalk ", "/bin/true ").Replace(read(t, path))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"redstalk.service", "redstalk-backup.service"} { // which other units name
		os.WriteFile(filepath.Join(filepath.Dir(name), other), []byte(strings.ReplaceAll(read(t, "../packages/"+other), "/usr/bin/redstalkd", "/bin/true")), 0o600)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", name).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, filepath.Base(path)+":") || strings.Contains(line, "Unknown") {
			t.Errorf("%s: %s (%v)", path, line, err)
		}
	}
}

// TestHAProxy: HAProxy takes the configuration, if it is here.
func TestHAProxy(t *testing.T) {
	text := read(t, "haproxy/haproxy.cfg")
	for _, want := range []string{"mode tcp", "timeout client", "on-marked-down shutdown-sessions"} {
		if !strings.Contains(text, want) {
			t.Errorf("haproxy.cfg lacks %q", want)
		}
	}
	accepts(t, "haproxy", "-c", "-f", "haproxy/haproxy.cfg")
}

// TestZone: each line of the zone is a directive or a record.
func TestZone(t *testing.T) {
	record := regexp.MustCompile(`^(;.*|\$(ORIGIN|TTL) \S+|\S+ +IN (A [0-9.]+|SRV \d+ \d+ \d+ \S+))$`)
	for line := range strings.Lines(read(t, "dns/redstalk.zone")) {
		if line = strings.TrimSpace(line); line != "" && !record.MatchString(line) {
			t.Errorf("%q", line)
		}
	}
	// They are records for a zone that has its own head.
	const head = "example.com. 30 IN SOA ns.example.com. host.example.com. 1 60 60 60 60\nexample.com. 30 IN NS ns.example.com.\nns.example.com. 30 IN A 192.0.2.1\n"
	whole := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(whole, []byte(head+read(t, "dns/redstalk.zone")), 0o600); err != nil {
		t.Fatal(err)
	}
	accepts(t, "named-checkzone", "example.com", whole)
}

// TestPackage: what is in the packages exists, or is built by build.sh; its scripts are those of a
// shell.
func TestPackage(t *testing.T) {
	doc := documents(t, "../packages/nfpm.yaml")[0]
	build := read(t, "../packages/build.sh")
	for _, c := range doc["contents"].([]any) {
		src := at(c, "src").(string)
		if at(c, "type") == "symlink" {
			continue
		}
		if name, built := strings.CutPrefix(src, "${STAGE}/"); built {
			if !strings.Contains(build, filepath.Base(strings.TrimSuffix(name, ".gz"))) && !strings.HasPrefix(name, "redstalk.") {
				t.Errorf("build.sh builds no %s", name)
			}
			continue
		}
		if _, err := os.Stat(filepath.Join("../..", src)); err != nil {
			t.Error(err)
		}
	}
	scripts, _ := filepath.Glob("../packages/*.sh")
	if len(scripts) == 0 {
		t.Error("there are none")
	}
	for _, path := range scripts {
		if out, err := exec.Command("sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", path, err, out)
		}
	}
	settings := read(t, "../packages/redstalkd.env")
	for _, name := range variables(t) {
		// The first is the same as REDSTALK_STORE, and the unit sets the user.
		if name != "REDSTALK_BINLOG" && name != "REDSTALK_USER" && !regexp.MustCompile(`(?m)^#?`+name+`=.`).MatchString(settings) {
			t.Errorf("redstalkd.env does not name %s", name)
		}
	}
	for line := range strings.Lines(settings) {
		if !regexp.MustCompile(`^(#.*|REDSTALK_[A-Z_]+=\S*|)$`).MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("redstalkd.env: %q", line)
		}
	}
}
