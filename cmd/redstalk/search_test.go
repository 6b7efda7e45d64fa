package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// searching are steps with filters of jobs.
var searching = []step{
	{args: "put -t bills --group customer-4711 --max 1 --dead unpaid --meta team=billing", stdin: `{"customer":{"id":4711}}`, out: "1\n"},
	{args: `put -t bills --group customer-12 --max 1 --dead unpaid {"customer":{"id":12}}`, out: "2\n"},
	{args: "put -t mails --key order-4711 --delay 1h to:ada", out: "3\n"},
	{args: "put -t about-4711 --key order-9 --group client-9 nothing", out: "4\n"},
	{args: "reserve -t bills", out: ".*"},
	{args: "release 1 --lease lease --reason card_declined", out: ".*\n"},
	{args: "reserve -t bills", out: ".*"},
	{args: "release 2 --lease lease --reason timeout", out: ".*\n"},
	{args: "search 4711", out: `IN +ID +TUBE +STATE +KEY +GROUP +REASON +BODY\ntube +about-4711\nkey +3 +mails +delayed +order-4711 +to:ada\ngroup +5 +unpaid +ready +customer-4711 +from bills: card_declined +{.*}\n`},
	{args: "search order-9", out: `IN.*\nkey +4 +about-4711 +ready +order-9 +client-9 +nothing\n`},
	{args: "search 3", out: `IN.*\nid +3 +mails .*\n`},
	{args: "search 2", out: `IN.*\nid +6 +unpaid .*\ngroup +5? .*\n|IN.*\nid +6 +unpaid .*\n`},
	{args: `search {"id":4.711e3} --json`, out: `{"id":5,"tube":"unpaid",.*"in":"body","excerpt":"{.*}"}\n`},
	{args: "search ADA --tube unpaid", code: exitNothing, err: "nothing was found"},
	{args: "search ADA --tube none", code: exitNothing, err: "no tube none"},
	{args: "search BILLING --state ready", out: `IN.*\ntube +bills\nmeta +5 +.*\n|IN.*\nmeta +5 +.*\n`},
	{args: "search customer -n 1", out: `IN.*\ngroup +5 .*\n`, err: "1 more in group"},
	{args: "search x --state sideways", code: exitUsage},
	{args: "search", code: exitUsage, err: "a flag that filters"},
	{args: "search --group customer-4711", out: `IN.*\njob +5 +unpaid +ready +customer-4711 .*\n`},
	{args: `search --body "id":12 --json`, out: `{"id":6,.*}\n`},
	{args: "search --key none", code: exitNothing, err: "nothing was found"},
	{args: "list unpaid --group customer-4711", out: `ID +STATE .*\n *5 +ready .*\n`},
	{args: "list unpaid --reason TIME --json", out: `{"id":6,.*"reason":"timeout".*}\n`},
	{args: "list unpaid --meta team=billing --since 1h --attempts 1", out: `ID.*\n *5 .*\n`},
	{args: "list unpaid --until 1h", out: `ID.*\n`},
	{args: "list unpaid --since 2100-01-01", out: `ID.*\n`},
	{args: "list unpaid --attempts 2", out: `ID.*\n`},
	{args: `list unpaid --body "id":12`, out: `ID.*\n *6 .*\n`},
	{args: "list mails --key order-4711", out: `ID.*\n *3 +delayed .*\n`},
	{args: "list mails --key order-4711 --state ready", out: `ID.*\n`},
	{args: "list mails -t bills", code: exitUsage, err: "one tube"},
	{args: "list unpaid --meta team", code: exitUsage, err: "NAME=VALUE"},
	{args: "list unpaid --since yesterday", code: exitUsage, err: "yesterday"},
	{args: "parked --reasons", out: "JOBS  REASON\n   1  card_declined\n   1  timeout\n"},
	{args: "parked --reasons --json --reason time", out: `{"timeout":1}` + "\n"},
	{args: "parked --reasons --whole-reason card", out: "JOBS  REASON\n"},
	{args: "parked --reasons --whole-reason card_declined", out: "JOBS  REASON\n   1  card_declined\n"},
	{args: "parked --group customer-12", out: `ID.*\n6 .*\n`},
	{args: "replay 5 --reason x", code: exitUsage, err: "either ids"},
	{args: "replay unpaid unpiad --reason card_declined", code: exitNothing, err: "no tube unpiad"},
	{args: "replay unpaid --all", code: exitUsage, err: "either tubes"},
	{args: "replay unpaid --reason card_declined --dry-run", out: "JOBS  REASON\n   1  card_declined\n", err: "1 job would be replayed"},
	{args: "replay --reason card_declined", code: exitUsage, err: `Replay 1 job of all tubes \(card_declined 1\)\? Use --yes`},
	{args: "replay unpaid --reason card_declined", out: "1 job replayed\n"},
	{args: "parked --reasons", out: "JOBS  REASON\n   1  timeout\n"},
	{args: "replay --group customer-12 --yes", out: "1 job replayed\n"},
	{args: "list bills", out: `ID.*\n *7 .*\n *8 .*\n`},
}

// TestReplayManyOfOneReason: of more dead letters than a page has, those of one reason are replayed, all of them and no others, at a
// rate, too.
func TestReplayManyOfOneReason(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	run := on(t, addr)
	const all = 3 * maxPageJobs / 2
	if got := runIn(t.Context(), strings.Repeat("x\n", all), "-s", addr, "put", "--lines", "-t", "w", "--max", "1", "--dead", "late"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	failAll(t, addr, all)
	if got := run("parked", "--reasons"); got != "JOBS  REASON\n1000  timeout\n 500  declined\n" {
		t.Fatal(got)
	}
	if got := run("replay", "late", "--reason", "declined", "--rate", "5000/s", "--json"); got != `{"missing":[],"replayed":500}`+"\n" {
		t.Error(got)
	}
	if got := run("replay", "--reason", "time", "--group", "none", "--yes"); got != "0 jobs replayed\n" {
		t.Error(got)
	}
	if got := run("replay", "late", "--reason", "timeout"); got != "1,000 jobs replayed\n" {
		t.Error(got)
	}
}

// failAll has the jobs 1 to n of the tube w fail, each third one with another reason.
func failAll(t *testing.T, addr string, n int) {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	send := func(command, last string) {
		fmt.Fprint(conn, command)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(line) == last {
				return
			}
		}
	}
	send("watch w\r\n", "WATCHING 2")
	for id := 1; id <= n; id++ {
		reason := map[bool]string{true: "declined", false: "timeout"}[id%3 == 0]
		send("reserve\r\n", "x")
		send(fmt.Sprintf("release %d 0 0 reason:\"%s\"\r\n", id, reason), "RELEASED")
	}
}
