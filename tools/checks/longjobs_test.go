package checks

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// longjobs_test.go does what docs/long-jobs.md says, with fewer rows.

const (
	rowsOfImport = 200_000 // 20 s: the workers need some time to start
	rowsOfChunk  = 1000
)

// TestLongJobs runs the import of the page in each language. Its first worker is killed, its second is stopped while a third waits, and
// then the server is killed.
func TestLongJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute, and longer beside other tests")
	}
	dir := workshop(t)
	page := readPage(t, "docs/long-jobs.md")
	for language, commands := range map[string]struct{ prepare, put, work string }{
		"Go":     {"go build", "redstalk put --tube imports --ttr 5s rows.csv", "./rows"},
		"Python": {"true", "python3 rows.py", "python3 -m redstalk rows:app"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			look(t, languages[language])
			im := newImport(t, page, dir, language)
			im.do(commands.prepare)
			im.do("seq " + strconv.Itoa(rowsOfImport) + " > rows.csv")
			im.do(commands.put)
			im.surviveAll(commands.work)
		})
	}
}

// An imported is an import that is under way.
type imported struct {
	*reader
	t      *testing.T
	server *exec.Cmd
	start  func() *exec.Cmd // starts the server
}

func newImport(t *testing.T, p *page, dir, language string) *imported {
	im := &imported{reader: newReader(t, dir), t: t}
	port, store := child.FreePort(), t.TempDir()
	im.here = strings.NewReplacer("127.0.0.1:11300", "127.0.0.1:"+port)
	im.env = append(im.env, "REDSTALK_SERVER=127.0.0.1:"+port)
	im.start = func() *exec.Cmd {
		return im.process("redstalkd --store embedded:"+store+" -p "+port, os.Stderr)
	}
	for _, b := range p.blocks {
		if _, name, named := strings.Cut(b.language, " "); named && b.section == language {
			im.write(t, name, b.text)
		}
	}
	im.server = im.start()
	return im
}

// do runs a command that ends. The server may have just been started.
func (im *imported) do(command string) {
	im.t.Helper()
	var out []byte
	im.until(command, func() bool {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir, cmd.Env = im.dir, im.env
		var err error
		out, err = cmd.CombinedOutput()
		return err == nil
	}, &out)
}

// until waits for a condition.
func (im *imported) until(what string, holds func() bool, said *[]byte) {
	im.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			im.t.Fatalf("waited too long for %s: %s", what, *said)
		}
	}
}

// process starts a program that goes on until it is killed, or the test ends.
func (im *imported) process(command string, out io.Writer) *exec.Cmd {
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = im.dir, im.env, out, out
	if err := cmd.Start(); err != nil {
		im.t.Fatal(err)
	}
	im.t.Cleanup(func() { kill(cmd) })
	return cmd
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// work starts a worker. Its output goes to a file, which is returned.
func (im *imported) work(command string) (worker *exec.Cmd, output string) {
	out, err := os.CreateTemp(im.t.TempDir(), "")
	if err != nil {
		im.t.Fatal(err)
	}
	defer out.Close()
	return im.process(command, out), out.Name()
}

// from waits until a worker begins, and returns the row.
func (im *imported) from(output string) (row int) {
	im.t.Helper()
	var text []byte
	im.until("a worker", func() bool {
		text, _ = os.ReadFile(output)
		_, after, found := bytes.Cut(text, []byte("from row "))
		digits, _, ended := bytes.Cut(after, []byte("\n"))
		row, _ = strconv.Atoi(string(digits))
		return found && ended
	}, &text)
	return row
}

// rows returns the rows that are imported.
func (im *imported) rows() (all []string) {
	text, _ := os.ReadFile(filepath.Join(im.dir, "imported.csv"))
	return strings.Fields(string(text))
}

// advance waits until three more chunks are imported.
func (im *imported) advance() {
	im.t.Helper()
	var none []byte
	want := len(im.rows()) + 3*rowsOfChunk
	im.until("more rows", func() bool { return len(im.rows()) >= want }, &none)
}

func (im *imported) surviveAll(command string) {
	t := im.t
	first, output := im.work(command)
	im.from(output)
	im.advance()
	kill(first)
	done := len(im.rows())

	second, output := im.work(command)
	again := done - im.from(output)
	if again != 0 && again != rowsOfChunk {
		t.Errorf("%d of %d rows come again after a kill", again, done)
	}
	im.advance()
	_, output = im.work(command)
	im.do("redstalk stats | grep 'current-waiting *2$'") // both wait for jobs
	stopped := time.Now()
	second.Process.Signal(syscall.SIGTERM)
	if row := im.from(output); row < 3*rowsOfChunk || row%rowsOfChunk != 0 {
		t.Errorf("from row %d after a stop", row)
	}
	if took := time.Since(stopped); took > 4*time.Second { // less than the TTR
		t.Errorf("another worker went on after %v", took)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("the worker that was stopped: %v", err)
	}

	im.advance()
	kill(im.server)
	im.server = im.start()
	var none []byte
	im.until("the end", func() bool { return len(im.rows()) >= rowsOfImport+again }, &none)
	im.do("redstalk stats 1 2>&1 | grep NOT_FOUND")
	im.wantRows(again)
}

// wantRows checks that the rows are there in their order, and that only those after the first kill came again.
func (im *imported) wantRows(again int) {
	next, back := 1, 0
	for _, row := range im.rows() {
		n, err := strconv.Atoi(row)
		if err != nil || n != next {
			back += next - n
		}
		next = n + 1
	}
	if next != rowsOfImport+1 || back != again {
		im.t.Errorf("the last row is %d, and %d came again, want %d", next-1, back, again)
	}
}
