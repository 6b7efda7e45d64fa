package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redstalk/protocol/client"
)

// TestCheckpointOfCommand: what a command of reserve --exec leaves in its file comes to the next one, until the job is done. A command that
// has not finished has not failed.
func TestCheckpointOfCommand(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	do := on(t, addr)
	id := strings.TrimSpace(do("put", "-t", "c", "x"))
	marks := t.TempDir()
	run := func(command string, want int) outcome {
		t.Helper()
		got := runIn(t.Context(), "", "reserve", "-t", "c", "-s", addr, "--count", "1", "--exec", `F="$REDSTALK_CHECKPOINT"; echo "$F" >>`+marks+"/files; "+command)
		if got.code != want {
			t.Fatalf("%s: %+v", command, got)
		}
		return got
	}
	has := func(want string) {
		t.Helper()
		if got := do("checkpoint", id); got != want {
			t.Errorf("the checkpoint is %q, want %q", got, want)
		}
	}
	run(`[ -f "$F" ] && [ ! -s "$F" ] && [ "$(stat -c %a "$F")" = 600 ] || exit 9; printf 'row 1' >"$F"; exit 75`, 0)
	has("row 1")
	if page := do("stats", id); !strings.Contains(page, "state") || !strings.Contains(page, "ready") {
		t.Errorf("then the job is %s", page)
	}
	run(`[ "$(cat "$F")" = "row 1" ] || exit 9; printf 'row 2' >"$F.new"; mv "$F.new" "$F"; echo no >&2; exit 1`, exitJobs)
	has("row 2")
	do("kick", "--id", id, "--keep-checkpoint")
	run(`[ "$(cat "$F")" = "row 2" ] || exit 9; rm "$F"; exit 75`, 0)
	has("row 2")
	if got := run(`head -c 65537 /dev/zero >"$F"; exit 75`, exitJobs); !strings.Contains(got.err, "more than 65536 bytes") {
		t.Errorf("%+v", got)
	}
	if page := do("peek", id, "--json"); !strings.Contains(page, `"reason":"the checkpoint is not saved: it has more than 65536 bytes; exit status 75"`) || !strings.Contains(page, `"checkpoint_bytes":5`) {
		t.Errorf("then the job is %s", page)
	}
	has("row 2")
	do("replay", id, "--keep-checkpoint")
	run(`head -c 65536 /dev/zero >"$F"; exit 75`, 0)
	if got := do("list", "-t", "c"); !strings.Contains(got, "checkpoint: 65,536 bytes") {
		t.Error(got)
	}
	run(`: >"$F"; exit 75`, 0)
	if got := runIn(t.Context(), "", "checkpoint", id, "-s", addr); got.code != exitNothing {
		t.Errorf("%+v", got)
	}
	run(`printf done >"$F"`, 0)
	files, err := os.ReadFile(filepath.Join(marks, "files"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range strings.Fields(string(files)) {
		if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", file, err)
		}
	}
}

// TestProgressIsShown: peek and list show how far a worker is, and a kick drops the checkpoint unless it is told to keep it.
func TestProgressIsShown(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	do := on(t, addr)
	id := strings.TrimSpace(do("put", "-t", "c", "x"))
	conn, err := client.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(command, want string) {
		t.Helper()
		if err := conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error {
			if !strings.HasPrefix(string(r.Line), want) {
				t.Errorf("%q is answered %q", command, r.Line)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	send("reserve-job "+id, "RESERVED")
	send("touch "+id+` progress:"45 % of\tit"`, "TOUCHED")
	send("checkpoint "+id+" 3\r\n\x00\xff\n", "SAVED")
	if got := do("list", "-t", "c", "--state", "reserved"); !strings.Contains(got, "45 % of it; checkpoint: 3 bytes") {
		t.Error(got)
	}
	for _, args := range [][]string{{"peek", id, "--json"}, {"list", "-t", "c", "--state", "reserved", "--json"}} {
		if got := do(args...); !strings.Contains(got, `"progress":"45 % of\tit","checkpoint_bytes":3`) {
			t.Errorf("%v: %s", args, got)
		}
	}
	if got := runIn(t.Context(), "", "checkpoint", id, "-s", addr); got.out != "\x00\xff\n" {
		t.Errorf("%+v", got)
	}
	if got, want := do("checkpoint", id, "--json"), fmt.Sprintf(`{"checkpoint":%q,"checkpoint_bytes":3,"id":%s}`+"\n", base64.StdEncoding.EncodeToString([]byte("\x00\xff\n")), id); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	send("release "+id+" 1 0", "RELEASED")
	var leased job
	if err := json.Unmarshal([]byte(do("reserve", "-t", "c", "--json")), &leased); err != nil || leased.Progress != "" || leased.CheckpointBytes != 3 {
		t.Errorf("%+v, %v", leased, err)
	}
	do("touch", id, "--lease", leased.Lease, "--progress", `say "half"`)
	if got := do("list", "-t", "c", "--state", "reserved"); !strings.Contains(got, `say "half"; checkpoint: 3 bytes`) {
		t.Error(got)
	}
	do("bury", id, "--lease", leased.Lease)
	do("kick", "-t", "c", "--keep-checkpoint", "all")
	do("checkpoint", id)
	do("bury", id)
	do("kick", "-t", "c")
	if got := runIn(t.Context(), "", "checkpoint", id, "-s", addr); got.code != exitNothing {
		t.Errorf("%+v", got)
	}
}

// TestCheckpointIsCopied: exported and imported jobs keep their checkpoints, in each state.
func TestCheckpointIsCopied(t *testing.T) {
	t.Parallel()
	from, to := ours(t), ours(t)
	source, target := on(t, from), on(t, to)
	conn, err := client.Dial(from, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for state, end := range map[string]string{"ready": "release %s 7 0 failure:no", "delayed": "release %s 7 3600 failure:no", "buried": "bury %s 7"} {
		id := strings.TrimSpace(source("put", "-t", "c", "--pri", "7", state))
		for _, command := range []string{"reserve-job " + id, fmt.Sprintf("checkpoint %s %d\r\nof %s\x00", id, len(state)+4, state), fmt.Sprintf(end, id)} {
			if err := conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error {
				if r.Word == client.NotFound {
					t.Errorf("%q is answered %q", command, r.Line)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(file, []byte(source("export")), 0o600); err != nil {
		t.Fatal(err)
	}
	target("import", file)
	for line := range strings.Lines(target("export")) {
		var j job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		if string(j.Checkpoint) != "of "+*j.Body+"\x00" || j.State != *j.Body || j.Priority != 7 || j.State == "delayed" && j.Left < 3_000_000 {
			t.Errorf("imported: %s", line)
		}
	}
	if n := strings.Count(target("export"), "\n"); n != 3 {
		t.Errorf("%d jobs were imported", n)
	}
}

// TestExportOfCheckpoints: each of several jobs is exported with its own checkpoint.
func TestExportOfCheckpoints(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	do := on(t, addr)
	conn, err := client.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for n := range 20 {
		body := strings.Repeat(fmt.Sprint(n), 500*n+1)
		id := strings.TrimSpace(do("put", "-t", "c", body))
		if err := conn.Ask(fmt.Appendf(nil, "reserve-job %s\r\ncheckpoint %s %d\r\n%s\r\n", id, id, len(body), body), 2, func(*client.Reply) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(do("export")) {
		var j job
		var body struct{ Body string }
		if err := errors.Join(json.Unmarshal([]byte(line), &j), json.Unmarshal([]byte(line), &body)); err != nil || string(j.Checkpoint) != body.Body {
			t.Errorf("%.9q is exported with the checkpoint %.9q (%v)", body.Body, j.Checkpoint, err)
		}
	}
}
