package main

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/tools/redistest"
)

// TestClientsOfAllInstances: list-clients lists the connections of three instances, a page at a time;
// stats-job names the holder of a job at another instance; an instance that does not answer is
// missing in the page, and soon one that has ended is not.
func TestClientsOfAllInstances(t *testing.T) {
	for _, partitions := range []string{"1", "4"} {
		t.Run(partitions+" partitions", func(t *testing.T) {
			t.Parallel()
			testClientsOfAllInstances(t, partitions)
		})
	}
}

func testClientsOfAllInstances(t *testing.T, partitions string) {
	redis := redistest.Start(t)
	var all []*process
	var conns []*protoclient.Conn
	for i := range 3 {
		p, addr := serve(t, "-l", "127.0.0.1", "-p", "0", "--store", redis.URL(), "--partitions", partitions)
		all = append(all, p)
		for k := range 3 {
			conns = append(conns, dialNamed(t, addr, fmt.Sprintf("w-%d-%d", i, k)))
		}
	}
	asker := conns[0]
	got := listAll(t, asker, 4)
	for i := range 3 {
		for k := range 3 {
			if name := fmt.Sprintf("w-%d-%d", i, k); strings.Count(got, fmt.Sprintf("name: %q", name)) != 1 {
				t.Errorf("%s is not listed once:\n%s", name, got)
			}
		}
	}
	askLine(t, conns[4], "put 0 0 60 1\r\nx")
	reserved := askLine(t, conns[4], "reserve-with-timeout 0")
	id := strings.Fields(reserved)[1]
	awaitPage(t, asker, "stats-job "+id, `holder: "w-1-1"\n$`)
	if got := listAll(t, asker, 100); !regexp.MustCompile(`name: "w-1-1".* jobs: 1, held: \[` + id + `\],`).MatchString(got) {
		t.Errorf("the job held is not listed:\n%s", got)
	}
	askLine(t, conns[7], "put 0 0 60 1\r\nx")
	leased := askLine(t, conns[7], "reserve-lease 0")
	awaitPage(t, asker, "stats-job "+strings.Fields(leased)[1], `holder: "w-2-1"\n$`)
	testStoppedIsMissing(t, asker, all[2])
}

// testStoppedIsMissing stops the third instance, again if the machine is so slow that the others declare it dead before
// they are asked.
func testStoppedIsMissing(t *testing.T, asker *protoclient.Conn, third *process) {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		third.freeze(t)
		page := askPage(t, asker, "list-clients")
		third.signal(t, syscall.SIGCONT)
		if regexp.MustCompile(`missing:\n- \S+\nclients:`).MatchString(page) && !strings.Contains(page, "w-2-") && strings.Contains(page, "w-1-2") {
			return
		}
		if strings.Contains(page, "w-2-") || time.Now().After(limit) {
			t.Fatalf("while an instance is stopped:\n%s", page)
		}
		awaitPage(t, asker, "list-clients", "w-2-")
	}
}

// listAll lists the connections, a page at a time: from the first page again if an instance is too slow to answer.
func listAll(t *testing.T, c *protoclient.Conn, size int) string {
	t.Helper()
	all := ""
	for limit, cursor := time.Now().Add(patience), ""; ; {
		page := askPage(t, c, strings.TrimSpace(fmt.Sprintf("list-clients %d %s", size, cursor)))
		all += page
		next := regexp.MustCompile(`next: (\S+)`).FindStringSubmatch(page)[1]
		switch {
		case strings.Contains(page, "missing:\n") && time.Now().Before(limit):
			all, cursor = "", ""
		case next == `""`:
			return all
		default:
			cursor = next
		}
	}
}

// awaitPage asks until the page matches: it does not as long as an instance is too slow to answer.
func awaitPage(t *testing.T, c *protoclient.Conn, command, pattern string) {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		page := askPage(t, c, command)
		if regexp.MustCompile(pattern).MatchString(page) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s, want %s:\n%s", command, pattern, page)
		}
	}
}

func dialNamed(t *testing.T, addr, name string) *protoclient.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	c := protoclient.New(conn)
	if got := askLine(t, c, "client "+name); got != "NAMED" {
		t.Fatalf("client: %s", got)
	}
	return c
}

// askLine sends a command and returns the first line of its reply, and skips a body.
func askLine(t *testing.T, c *protoclient.Conn, command string) string {
	t.Helper()
	if err := c.Send([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	line, err := c.Line()
	if err == nil && (strings.HasPrefix(line, "RESERVED ") || strings.HasPrefix(line, "LEASED ")) {
		_, err = c.Line()
	}
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(line)
}

func askPage(t *testing.T, c *protoclient.Conn, command string) string {
	t.Helper()
	page, err := c.Page(command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(page)
}
