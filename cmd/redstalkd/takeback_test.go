package main

import (
	"regexp"
	"strings"
	"testing"

	"redstalk/tools/redistest"
)

// TestTakeBackElsewhere: an instance takes a job back from a connection of another one, and closes that connection.
func TestTakeBackElsewhere(t *testing.T) {
	for _, partitions := range []string{"1", "4"} {
		t.Run(partitions+" partitions", func(t *testing.T) {
			t.Parallel()
			testTakeBackElsewhere(t, partitions)
		})
	}
}

func testTakeBackElsewhere(t *testing.T, partitions string) {
	redis := redistest.Start(t)
	var addrs []string
	for range 2 {
		_, addr := serve(t, "-l", "127.0.0.1", "-p", "0", "--store", redis.URL(), "--partitions", partitions)
		addrs = append(addrs, addr)
	}
	worker, operator := dialNamed(t, addrs[0], "worker"), dialNamed(t, addrs[1], "operator")
	id := strings.Fields(askLine(t, operator, "put 0 0 600 1\r\nx"))[1]
	if got := askLine(t, worker, "reserve-with-timeout 5"); got != "RESERVED "+id+" 1" {
		t.Fatal(got)
	}
	for _, step := range []struct{ command, want string }{
		{"take-back " + id, "TAKEN_BACK"}, {"take-back " + id, "NOT_FOUND"},
	} {
		if got := askLine(t, operator, step.command); got != step.want {
			t.Fatalf("%s: %s", step.command, got)
		}
	}
	for _, command := range []string{"touch " + id, "release " + id + " 0 0", "bury " + id + " 0"} {
		if got := askLine(t, worker, command); got != "NOT_FOUND" {
			t.Fatalf("%s by the worker: %s", command, got)
		}
	}
	if page := askPage(t, operator, "stats-job "+id); !regexp.MustCompile(`(?s)state: ready.*timeouts: 1.*how: timed-out, holder: "worker", reason: "taken back"`).MatchString(page) {
		t.Fatalf("taken back:\n%s", page)
	}
	if got := askLine(t, operator, "reserve-with-timeout 5"); got != "RESERVED "+id+" 1" {
		t.Fatalf("the next worker: %s", got)
	}
	if got := askLine(t, worker, "delete "+id); got != "NOT_FOUND" {
		t.Fatalf("a late delete: %s", got)
	}
	if got := askLine(t, operator, "release "+id+" 0 0"); got != "RELEASED" {
		t.Fatal(got)
	}
	if got := askLine(t, worker, "reserve-with-timeout 5"); got != "RESERVED "+id+" 1" {
		t.Fatal(got)
	}
	awaitPage(t, operator, "list-clients", `name: "worker"`)
	found := regexp.MustCompile(`id: (\d+), instance: "([^"]+)", [^\n]*name: "worker"`).FindStringSubmatch(askPage(t, operator, "list-clients"))
	if found == nil {
		t.Fatal("the worker is not listed")
	}
	for _, nobody := range []string{"999999", "999999 " + found[2], found[1] + " nobody"} {
		if got := askLine(t, operator, "close-client "+nobody); got != "NOT_FOUND" {
			t.Fatalf("closing %s, which does not exist: %s", nobody, got)
		}
	}
	if got := askLine(t, operator, "close-client "+found[1]+" "+found[2]); got != "CLOSED" {
		t.Fatal(got)
	}
	if line, err := worker.Line(); err == nil {
		t.Fatalf("the closed connection reads %q", line)
	}
	if got := askLine(t, operator, "reserve-with-timeout 5"); got != "RESERVED "+id+" 1" {
		t.Fatalf("after the worker was disconnected: %s", got)
	}
	testClosesItself(t, addrs[1])
}

// testClosesItself: a connection that closes itself gets a reply before, with the name of the instance or without it.
func testClosesItself(t *testing.T, addr string) {
	t.Helper()
	own := regexp.MustCompile(`id: (\d+), instance: "([^"]+)", [^\n]*name: "itself"`)
	for _, command := range []string{"close-client $1", "close-client $1 $2"} {
		itself := dialNamed(t, addr, "itself")
		awaitPage(t, itself, "list-clients", `name: "itself"`)
		page := askPage(t, itself, "list-clients")
		command = string(own.ExpandString(nil, command, page, own.FindStringSubmatchIndex(page)))
		if got := askLine(t, itself, command); got != "CLOSED" {
			t.Fatalf("%s by itself: %s", command, got)
		}
		if line, err := itself.Line(); err == nil {
			t.Fatalf("it reads %q", line)
		}
	}
}
