//go:build chromium

package console_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// named opens a connection with a name, which watches a tube.
func (s *testServer) named(name, tube string) *conn {
	s.t.Helper()
	c := dial(s.t, s.addr)
	c.send("client %s\r\nwatch %s\r\n", name, tube)
	c.flush()
	c.read("NAMED")
	c.read("WATCHING")
	return c
}

// reserve reserves a job, which must be ready, and returns its id.
func (c *conn) reserve() (id uint64) {
	c.t.Helper()
	c.send("reserve-with-timeout 0\r\n")
	c.flush()
	fmt.Sscanf(c.read("RESERVED"), "RESERVED %d", &id)
	c.read("")
	return id
}

// connectWorkers connects two clients: worker-1 holds a job of the tube reminders, and worker-2 waits for one.
func connectWorkers(s *testServer) (held uint64, waiting *conn) {
	s.t.Helper()
	s.put("reminders", terms{"body": "remind Ann"})
	held = s.named("worker-1", "reminders").reserve()
	waiting = s.named("worker-2", "reminders")
	waiting.send("reserve\r\n")
	waiting.flush()
	await(s.t, "worker-2 waits", func() bool {
		var page struct{ Clients []struct{ Waiting bool } }
		s.call("GET", "/v1/clients", nil, &page)
		return len(page.Clients) == 2 && page.Clients[1].Waiting
	}, func() string { return "" })
	return held, waiting
}

// clientRow waits for the row of a client by its name or address, and returns its id.
func (b *tab) clientRow(name string) string {
	b.t.Helper()
	b.awaitOr(fmt.Sprintf("help.column('name').includes(%s)", js(name)), b.table)
	return eval[string](b, fmt.Sprintf("help.rows().find(r => r.name === %s).row", js(name)))
}

// TestWorkers: the page lists the connections with the jobs that they hold, and follows their changes.
func TestWorkers(t *testing.T) {
	onEngine(t, func(t *testing.T, s *testServer) {
		b := s.open(t, "#/workers")
		b.ready("workers")
		b.awaitText("No client is connected.")
		held, waiting := connectWorkers(s)
		b.click("#read")
		b.awaitRows(2)
		first, second := b.clientRow("worker-1"), b.clientRow("worker-2")
		b.awaitCell(first, "jobs", fmt.Sprint(held))
		b.awaitCell(first, "waiting", "–")
		b.awaitCell(first, "tubes", "default, reminders")
		b.awaitCell(second, "jobs", "–")
		b.awaitCell(second, "waiting", "waiting")
		b.awaitText("2 clients: 1 with jobs, 1 waiting.")
		b.aligned()

		s.put("reminders", terms{"body": "remind Tom"}) // the page follows without a click
		waiting.read("RESERVED")
		b.awaitCell(second, "waiting", "–")
		b.awaitCell(second, "jobs", fmt.Sprint(held+1))

		b.openRow("client", b.clientRow("worker-1"))
		b.awaitText("Holds jobs " + fmt.Sprint(held))
		b.closeJob()
		b.click(fmt.Sprintf(".row[data-id=%q] [data-column=jobs] a", first))
		b.awaitAddress(fmt.Sprintf("#/job/%d", held))
		b.dialog("job")
		b.awaitText("Held by worker-1")
		b.click("dialog a[href^='#/workers/']")
		b.ready("workers")
		b.awaitRows(1)
		b.clientRow("worker-1")
	})
}

// TestWorkersFilter: clients are filtered by name, tube and job, and sorted.
func TestWorkersFilter(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	held, _ := connectWorkers(s)
	s.named("mailer", "emails")
	plain := dial(t, s.addr)
	plain.send("use invoices\r\n")
	plain.flush()
	plain.read("USING")
	b := s.open(t, "#/workers")
	b.awaitRows(4)
	b.awaitColumn("name", "mailer", "worker-1", "worker-2", "–")
	b.awaitText("puts into invoices")
	for filter, want := range map[string]string{"MAIL": "mailer", "remind": "worker-1 worker-2", "invoices": "–", plain.raw.LocalAddr().String(): "–"} {
		b.fill("#filter", filter)
		b.awaitColumn("name", strings.Fields(want)...)
	}
	b.fill("#filter", fmt.Sprint(held))
	b.clientRow("worker-1") // others can have the number in their address
	b.fill("#filter", "nobody has this")
	b.awaitText("No client matches the filter.")
	b.fill("#filter", "r-")
	b.click("[data-sort=name]")
	b.awaitColumn("name", "worker-2", "worker-1")
}

// TestWorkersOfAll: the page lists the connections of all instances, and says which instance has not answered.
func TestWorkersOfAll(t *testing.T) {
	t.Parallel()
	store := engines["redis"](t)
	a := startServer(t, "--store", store)
	other := startServer(t, "--store", store)
	a.put("reminders", manyJobs(1)...)
	other.named("elsewhere", "reminders").reserve()
	b := a.open(t, "#/workers")
	b.clientRow("elsewhere")
	b.find("[data-column=instance].cell[role=columnheader]")
	goOn := func() { other.Cmd.Process.Signal(syscall.SIGCONT) }
	defer goOn()
	for missing, round := false, 1; !missing; round++ { // again if it was declared dead before a busy machine has asked
		if err := other.Freeze(); err != nil {
			t.Fatal(err)
		}
		b.click("#read")
		b.awaitText("No client is connected.")
		text := b.text()
		if missing = strings.Contains(text, "which did not answer."); !missing && round == 20 {
			t.Fatalf("while the other instance is stopped:\n%s", text)
		}
		goOn()
		b.clientRow("elsewhere")
	}
	b.awaitNoText("which did not answer.")
}

// TestWorkersOfUser: without the right admin everywhere, the page lists the connections of the same user.
func TestWorkersOfUser(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t, user{"mailer", "emails", "put, work, read"})
	for name, client := range map[string]string{"mailer": "mine", "root": "of-root"} {
		c := dial(t, s.addr)
		c.send("auth %s %s\r\n", name, secret)
		c.send("client %s\r\n", client)
		c.flush()
		c.read("AUTHENTICATED")
		c.read("NAMED")
	}
	b := s.signIn(t, "#/workers", "mailer")
	b.awaitColumn("name", "mine")
	b.awaitText("You see those of your user.")
	b = s.signIn(t, "#/workers", "root")
	b.awaitColumn("name", "mine", "of-root")
	b.awaitColumn("user", "mailer", "root")
}
