package main

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"redstalk/protocol/client"
)

// TestClients: clients lists who waits and who holds which job, and a job says who holds it.
func TestClients(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	worker := ask(t, addr, "client worker-1", "NAMED")
	waiting := ask(t, addr, "watch mails", "WATCHING")
	on(t, addr)("put", "hello")
	if err := worker.Send([]byte("reserve\r\n")); err != nil {
		t.Fatal(err)
	}
	if r, err := worker.Receive(); err != nil || r.Word != client.Reserved {
		t.Fatal(r, err)
	}
	if got := on(t, addr)("peek", "1", "--json"); !strings.Contains(got, `"holder":"worker-1"`) {
		t.Errorf("the job says %s", got)
	}
	if err := waiting.Send([]byte("reserve\r\n")); err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\S+ +worker-1 +- +- +- +1 +\S+ +default$\n^\S+ +- +- +- +yes +- +\S+ +default,mails$\n^\S+ +- .*`)
	var got string
	for limit := time.Now().Add(10 * time.Second); !rows.MatchString(got) && time.Now().Before(limit); {
		got = on(t, addr)("clients")
	}
	if !rows.MatchString(got) {
		t.Errorf("clients prints\n%s", got)
	}
	if got := on(t, addr)("clients", "--json"); !regexp.MustCompile(`^{"id":\d+,"address":"[^"]+","entrance":"(?:beanstalk|unix)","name":"worker-1","used":"default","watched":\["default"\],"watching":1,"waiting":false,"jobs":1,"held":\[1\],"since_ms":\d+}\n`).MatchString(got) {
		t.Errorf("clients --json prints\n%s", got)
	}
}

// ask opens a connection and sends a command.
func ask(t *testing.T, addr, command, want string) *client.Conn {
	t.Helper()
	c, err := client.Dial(addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Send([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := c.Line(); err != nil || !strings.HasPrefix(line, want) {
		t.Fatalf("%s: %q, %v", command, line, err)
	}
	return c
}

// TestClientsInPages: clients reads all pages, and fails after the list if an instance has not answered.
func TestClientsInPages(t *testing.T) {
	t.Parallel()
	line := func(id int) string {
		return fmt.Sprintf(`- {id: %d, instance: "i", address: "a:%[1]d", entrance: beanstalk, used: "u", watched: ["x", "y", "z", "0"], watching: 5, waiting: false, jobs: 5, held: [7, 8], since-ms: 1}`+"\n", id)
	}
	addr := scripted(t, map[string]string{
		"capabilities":          "---\n- clients\n",
		"list-clients 1000":     "---\nnext: i:1\nmissing:\n- gone\nclients:\n" + line(1),
		"list-clients 1000 i:1": "---\nnext: \"\"\nmissing:\n- gone\nclients:\n" + line(2),
	})
	got := runIn(t.Context(), "", "-s", addr, "clients")
	if got.code != exitServer || !strings.Contains(got.err, "gone did not answer") {
		t.Errorf("%+v", got)
	}
	if !regexp.MustCompile(`\na:1 .* 7,8 and 3 more +\S+ +x,y,z and 2 more\na:2 .*\n$`).MatchString(got.out) {
		t.Errorf("clients prints\n%s", got.out)
	}
}

// scripted starts a server that answers commands with pages, and returns its address.
func scripted(t *testing.T, pages map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for in := bufio.NewScanner(conn); in.Scan(); {
			page, ok := pages[in.Text()]
			if !ok {
				fmt.Fprint(conn, "UNKNOWN_COMMAND\r\n")
				continue
			}
			fmt.Fprintf(conn, "OK %d\r\n%s\r\n", len(page), page)
		}
	}()
	return l.Addr().String()
}
