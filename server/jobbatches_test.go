package server

import (
	"strings"
	"testing"
)

// TestRightsOnMembers: stats-batch and list-members leave out jobs of tubes that the client may not read.
func TestRightsOnMembers(t *testing.T) {
	withUsers(t, user("app", "post", "look, put"), func(g *accessHarness) {
		for _, name := range []string{"post", "secret"} {
			g.root.send("use "+name, "put 0 0 60 1 batch:b\r\nx", "put 0 0 60 1 after:b\r\nx")
		}
		g.root.discardReplies()
		c := g.as("app")
		for _, command := range []string{"stats-batch b", "list-members b"} {
			c.send(command)
			if page := c.allLines(); strings.Count(page, "tube: post") != 1 || strings.Contains(page, "secret") {
				t.Errorf("%s:\n%s", command, page)
			}
			g.root.send(command)
			if page := g.root.allLines(); strings.Count(page, "tube: secret") != 1 {
				t.Errorf("%s of root:\n%s", command, page)
			}
		}
		c.send("seal-batch b", "cancel-batch b")
		c.want("SEALED", "FORBIDDEN")
		c.close()
	})
}
