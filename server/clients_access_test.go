package server

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namesIn returns the names of the connections in a page of list-clients, sorted.
func namesIn(page string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`[{,] name: "([^"]*)"`).FindAllStringSubmatch(page, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}

// TestListClientsWithUsers: a user sees the connections of the same user, with admin on all tubes those of
// all, and unauthenticated clients see none. A secret is never in the list.
func TestListClientsWithUsers(t *testing.T) {
	users := user("app", `"*"`, "put, work, look") + user("chief", "post", "put, work, look, admin") + user("mute", `"*"`, "put, work") + "- {name: anonymous, rights: [{tubes: [\"*\"], may: [put, work, look]}]}\n"
	withUsers(t, users, func(g *accessHarness) {
		var all []*client
		for _, c := range []struct{ user, name string }{{"app", "a1"}, {"app", "a2"}, {"chief", "c1"}, {"", "none"}, {rootUser, "r1"}, {"mute", "m1"}} {
			conn := g.as(c.user)
			conn.send("client " + c.name)
			conn.want("NAMED")
			all = append(all, conn)
		}
		for i, want := range [][]string{{"a1", "a2"}, {"a1", "a2"}, {"c1"}, nil, {"a1", "a2", "c1", "m1", "none", "r1"}} {
			all[i].send("list-clients")
			page := all[i].allLines()
			if got := namesIn(page); !slices.Equal(got, want) {
				t.Errorf("client %d sees %q, want %q", i, got, want)
			}
			if strings.Contains(page, userSecret) || strings.Contains(page, userSecretHash) {
				t.Errorf("a secret is in the list: %s", page)
			}
		}
		all[5].send("list-clients")
		all[5].want("FORBIDDEN")
		all[0].send("list-clients 1") // pages end with the last one that the user sees
		next := regexp.MustCompile(`next: "?([^"\n]*:\d+)`).FindStringSubmatch(all[0].allLines())
		if next == nil {
			t.Error("a first page of two is the last one")
			next = []string{"", "none"}
		}
		all[0].send("list-clients 1 " + next[1])
		if page := all[0].allLines(); !strings.Contains(page, `next: ""`) || !slices.Equal(namesIn(page), []string{"a2"}) {
			t.Errorf("the second page: %s", page)
		}
		for _, c := range all {
			c.close()
		}
	})
}

// TestSecretsAreInNoList: what a client sends as its secret, right or wrong, is neither in the list of
// connections nor in the log, beside its name and user.
func TestSecretsAreInNoList(t *testing.T) {
	withUsers(t, user("app", `"*"`, "put, work, look"), func(g *accessHarness) {
		c := g.as("")
		c.send("client worker", "auth app wrong-secret", "auth app "+userSecret, "client other", "auth nobody wrong-too")
		c.want("NAMED", "UNAUTHORIZED", "AUTHENTICATED", "NAMED", "UNAUTHORIZED")
		g.root.send("list-clients")
		page := g.root.allLines()
		for _, secret := range []string{"wrong-secret", "wrong-too", userSecret, userSecretHash} {
			if strings.Contains(page, secret) || strings.Contains(g.log.String(), secret) {
				t.Errorf("%s is in the list or the log", secret)
			}
		}
		if !strings.Contains(page, `name: "other", user: "app"`) {
			t.Errorf("the list: %s", page)
		}
		c.close()
	})
}

// TestHolderWithUsers: who can read a job sees the name of its holder, also if it is of another user, and
// nobody else.
func TestHolderWithUsers(t *testing.T) {
	withUsers(t, user("app", "post", "put, work, look")+user("reader", "post", "look")+user("other", "mail", "put, work, look"), func(g *accessHarness) {
		app := g.as("app")
		app.send("client w1", "use post", "watch post", "put 0 0 60 1\r\nx", "put 0 0 60 1\r\ny", "reserve", "reserve-lease 0")
		app.want("NAMED", "USING post", "WATCHING 2", "INSERTED 1", "INSERTED 2", "RESERVED 1 1", "x")
		if got := <-app.lines; !strings.HasPrefix(got, "LEASED 2 ") {
			t.Errorf("leased: %s", got)
		}
		app.want("y")
		reader, other := g.as("reader"), g.as("other")
		for _, id := range []string{"1", "2"} {
			reader.send("stats-job " + id)
			if page := reader.allLines(); !strings.Contains(page, `holder: "w1"`) || strings.Contains(page, "address") {
				t.Errorf("job %s:\n%s", id, page)
			}
			other.send("stats-job " + id)
			other.want("NOT_FOUND")
		}
		app.close()
		reader.close()
		other.close()
	})
}

// TestRightsOnPatterns: the policy of a pattern needs the right on all its tubes, with every tag, and
// its dead-letter tube what that of a tube needs.
func TestRightsOnPatterns(t *testing.T) {
	withUsers(t, user("wide", `"mail*", dead`, "put, work, look, admin")+user("one", "mailer", "put, work, look, admin")+
		user("idle", `"mail*", dead`, "put, look, admin"), func(g *accessHarness) {
		wide, one, idle := g.as("wide"), g.as("one"), g.as("idle")
		tags := " expire:1h on-expire:park retry:exp(1s,1m,5) jitter:20"
		wide.send("set-policy mail*"+tags, "set-policy mailer*"+tags, "set-policy mai*"+tags, "set-policy *"+tags, "get-policy mai*", "get-policy *",
			"set-policy mail* dead:dead", "set-policy mail* dead:secret", "set-policy mail*", "get-policy mail*", "set-policy *")
		wide.want("SET", "SET", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "SET", "FORBIDDEN", "SET", "NOT_FOUND", "FORBIDDEN")
		one.send("set-policy mailer"+tags, "set-policy mailer*"+tags, "set-policy mail*"+tags, "get-policy mailer*", "set-policy mailer*")
		one.want("SET", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN")
		idle.send("set-policy mail* dead:dead", "set-policy mail*"+tags)
		idle.want("FORBIDDEN", "SET")
		g.root.send("set-policy *" + tags)
		g.root.want("SET")
		for _, list := range []struct {
			c    *client
			want string
		}{{wide, "---\n- mailer\n- mail*\n- mailer*\n"}, {one, "---\n- mailer\n"}, {g.root, "---\n- mailer\n- *\n- mail*\n- mailer*\n"}} {
			list.c.send("list-policies")
			want := strings.Split(list.want, "\n")
			got := strings.Split(strings.ReplaceAll(list.c.allLines(), `"`, ""), "\n")[1:]
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(slices.Compact(got), slices.Compact(want)) {
				t.Errorf("the list is %q, want %q", got, want)
			}
		}
		wide.close()
		one.close()
		idle.close()
	})
}

// TestQuotedClient: a name can be in double quotes, and then have spaces and UTF-8.
func TestQuotedClient(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send(`client "mailer \"ö\" 1"`, `client "a" b`, `client "a`, `client ""`, `client "a\n"`, `client "`+strings.Repeat("a", 129)+`"`)
		c.want("NAMED", "BAD_FORMAT", "BAD_FORMAT", "BAD_FORMAT", "BAD_FORMAT", "BAD_FORMAT")
		c.send("list-clients")
		if page := c.allLines(); !strings.Contains(page, `name: "mailer \"ö\" 1",`) {
			t.Errorf("the list: %s", page)
		}
		c.send("put 0 0 60 1\r\nx", "reserve", "stats-job 1")
		c.want("INSERTED 1", "RESERVED 1 1", "x")
		if page := c.allLines(); !strings.Contains(page, `holder: "mailer \"ö\" 1"`) {
			t.Errorf("stats-job: %s", page)
		}
		c.close()
	})
}
