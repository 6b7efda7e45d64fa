package server

import (
	"strings"
	"testing"
)

// TestRightsOnMembers: stats-batch and list-members leave out jobs of tubes that the client may not read.
func TestRightsOnMembers(t *testing.T) {
	app := strings.Replace(user("app", "post", "look, put"), "rights: [", "rights: [{tubes: [secret], may: [put]}, ", 1)
	withUsers(t, app, func(g *accessHarness) {
		c := g.as("app")
		for _, name := range []string{"post", "secret"} {
			c.send("use "+name, "put 0 0 60 1 batch:b\r\nx", "put 0 0 60 1 after:b\r\nx")
		}
		c.discardReplies()
		for _, command := range []string{"stats-batch b", "list-members b"} {
			c.send(command)
			if page := c.allLines(); strings.Count(page, "tube: post") != 1 || strings.Contains(page, "secret") {
				t.Errorf("%s:\n%s", command, page)
			}
			g.root.send(strings.Replace(command, " b", " app~b", 1))
			if page := g.root.allLines(); strings.Count(page, "tube: secret") != 1 {
				t.Errorf("%s of root:\n%s", command, page)
			}
		}
		c.send("seal-batch b", "cancel-batch b")
		c.want("SEALED", "FORBIDDEN")
		c.close()
	})
}

// TestBatchesOfUsers: a user can neither join, wait for, seal, cancel nor see a batch of users who can put into other tubes, and
// has another batch under the same name, whoever was first; a user with the rights on these tubes can, with the whole name.
func TestBatchesOfUsers(t *testing.T) {
	all := "put, work, look, admin"
	users := user("owner", "b-1, b-2", all) + user("twin", "b-2, b-1", all) + user("other", "a-1", all) + user("both", `"?-*"`, all)
	withUsers(t, users, func(g *accessHarness) {
		x, o := g.as("other"), g.as("owner")
		x.send("use a-1", "put 0 0 60 1 batch:b batch-ttl:1s\r\nx", "seal-batch b")
		x.want("USING a-1", "INSERTED 1", "SEALED")
		o.send("use b-1", "put 0 0 60 1 batch:b\r\nx", "use b-2", "put 0 0 60 1 after:b\r\nx", "stats-job 3")
		o.want("USING b-1", "INSERTED 2", "USING b-2", "INSERTED 3")
		if page := o.allLines(); !strings.Contains(page, "after: \"owner~b\"") {
			t.Error(page)
		}
		for _, command := range []string{"put 0 0 60 1 batch:owner~b\r\nx", "put 0 0 60 1 after:owner~b\r\nx", "put 0 0 60 1 after-all:owner~b\r\nx",
			"seal-batch owner~b", "stats-batch owner~b", "list-members owner~b", "cancel-batch owner~b", "cancel-batch none~b", "seal-batch ~b"} {
			if got := x.ask(command); got != "FORBIDDEN" {
				t.Errorf("%q: %s", command, got)
			}
		}
		if got := x.ask("put 0 0 60 1 batch:" + strings.Repeat("n", 99) + "\r\nx"); got != "BAD_FORMAT" {
			t.Error(got)
		}
		for who, want := range map[string]string{"other": "other~b", "owner": "owner~b", "twin": "owner~b", "both": "other~b owner~b", rootUser: "other~b owner~b"} {
			c := g.as(who)
			c.send("list-batches")
			page := c.allLines()
			for _, name := range []string{"other~b", "owner~b"} {
				if strings.Contains(page, name) != strings.Contains(want, name) {
					t.Errorf("%s sees\n%s", who, page)
				}
			}
			c.close()
		}
		twin, both := g.as("twin"), g.as("both")
		twin.send("use b-1", "put 0 0 60 1 batch:b\r\nx")
		twin.want("USING b-1", "INSERTED 4")
		both.send("use a-1", "put 0 0 60 1 batch:b after:owner~b\r\nx", "put 0 0 60 1 batch:owner~b\r\nx", "seal-batch owner~b", "list-batches 1 other~b")
		both.want("USING a-1", "INSERTED 5", "INSERTED 6", "SEALED")
		if page := both.allLines(); !strings.Contains(page, "owner~b\", state: sealed, sealed: true, total: 3, pending: 3") {
			t.Error(page)
		}
		if got := both.ask("cancel-batch owner~b"); got != "CANCELLED 3" {
			t.Error(got)
		}
		for _, c := range []*client{x, o, twin, both} {
			c.close()
		}
	})
}
