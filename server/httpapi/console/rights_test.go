//go:build chromium

package console_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const secret = "open:sesame"

// user is an entry of the users file: some rights on some tubes.
type user struct{ name, tubes, may string }

// startWithUsers starts a server with these users and with root, who has all rights. All have the same secret.
func startWithUsers(t *testing.T, users ...user) *testServer {
	t.Helper()
	cmd := exec.Command(redstalkd, "secret")
	cmd.Stdin = strings.NewReader(secret)
	hash, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	rights := make(map[string][]string)
	names := []string{"root"}
	for _, u := range append(users, user{"root", "*", "put, work, read, admin"}) {
		if rights[u.name] == nil && u.name != "root" {
			names = append(names, u.name)
		}
		rights[u.name] = append(rights[u.name], fmt.Sprintf("{tubes: [%q], may: [%s]}", u.tubes, u.may))
	}
	text := "users:\n"
	for _, name := range names {
		text += fmt.Sprintf("  - name: %s\n    secrets: [%q]\n    rights: [%s]\n", name, bytes.TrimSpace(hash), strings.Join(rights[name], ", "))
	}
	path := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--access", path)
	s.user = url.UserPassword("root", secret)
	return s
}

// signIn opens a page and signs a user in.
func (s *testServer) signIn(t *testing.T, page, name string) *tab {
	t.Helper()
	b := s.blank(t)
	b.ignore("status of 401")
	b.goTo(page)
	b.ready("signin")
	b.fill("#signin [name=user]", name)
	b.fill("#signin [name=secret]", secret)
	b.enter()
	b.awaitGone("#signin")
	return b
}

// wantActions fails the test unless exactly the given actions are visible.
func (b *tab) wantActions(want ...string) {
	b.t.Helper()
	got := eval[string](b, `[...new Set([...document.querySelectorAll("[data-action]")].filter(e => e.checkVisibility()).map(e => e.dataset.action))]
		.filter(a => !["copy", "copy-body", "download-body", "signin", "signout", "unmark"].includes(a)).sort().join(" ")`)
	if got != strings.Join(want, " ") {
		b.t.Errorf("the page offers: %s; want: %s", got, strings.Join(want, " "))
	}
}

// TestReadOnly: a user with only the right read sees no actions, and only its own tubes.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t, user{"viewer", "inv*", "read"})
	putShopJobs(s)
	parkJobs(s, "inventory", 2)
	b := s.signIn(t, "", "viewer")
	b.awaitTubes("inventory", "invoices")
	b.awaitGone("header a[href='#/put']")
	b.wantActions()
	b.screenshot("read-only")
	b.click(`.row[data-id=invoices] a`)
	b.counts("ready", 12)
	b.awaitRows(12)
	b.wantActions()
	b.awaitGone("#main input[type=checkbox]")
	b.openJob(s.jobs("invoices", "ready")[0].ID)
	b.wantActions()
	b.closeJob()
	b.click("header a[href='#/parked']")
	b.awaitRows(2)
	b.wantActions()
	b.click("header a[href='#/server']")
	b.ready("server")
	b.awaitText("viewer")
	b.wantActions()
}

// TestPutOnly: a user with only the right put can put, and sees nothing else.
func TestPutOnly(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t, user{"sender", "invoices", "put"})
	putShopJobs(s)
	b := s.signIn(t, "", "sender")
	b.awaitText("You do not have the right to do this.")
	b.awaitGone("header nav a[href='#/']")
	b.click("header a[href='#/put']")
	b.fill("#put [name=tube]", "invoices")
	b.clickAction("put")
	s.awaitTube("invoices", 13, 0, 0, 0)
}

// TestAdmin: a user with all rights sees all actions and can use them.
func TestAdmin(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t)
	putShopJobs(s)
	b := s.signIn(t, "#/tube/invoices", "root")
	b.counts("ready", 12)
	for _, action := range []string{"kick", "move", "flush", "pause", "policy"} {
		b.find("[data-action=" + action + "]")
	}
	b.find("header a[href='#/put']")
	id := s.jobs("invoices", "ready")[0].ID
	b.selectJobs(id)
	b.click(selectionBar + " [data-action=delete]")
	b.confirm("delete")
	s.awaitTube("invoices", 11, 0, 0, 0)
	b.reload()
	b.counts("ready", 11) // still signed in
}

// TestMixedRights: a user with different rights on two tubes sees the right actions on each.
func TestMixedRights(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t, user{"clerk", "invoices", "read, admin"}, user{"clerk", "emails", "read, put"})
	putShopJobs(s)
	b := s.signIn(t, "#/tube/invoices", "clerk")
	b.counts("ready", 12)
	b.find("[data-action=flush]")
	b.awaitGone("[data-action=move]")
	b.awaitGone("#main [data-action=put]")
	b.reload()
	b.goTo("?2#/tube/emails")
	b.counts("ready", 3)
	b.await(`document.querySelector("#main [data-action=put], #main a[href^='#/put']")`)
	for _, action := range []string{"kick", "move", "flush", "pause", "policy"} {
		b.awaitGone("[data-action=" + action + "]")
	}
	b.awaitGone("#main input[type=checkbox]")
	b.goTo("?3#/server")
	b.ready("server")
	b.awaitGone("[data-action=drain]")
}

// TestUnauthenticated: nothing is shown before signing in, nor after signing out, and a wrong secret is reported.
func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t)
	putShopJobs(s)
	b := s.blank(t)
	b.ignore("status of 401")
	b.goTo("#/tube/invoices")
	b.ready("signin")
	b.screenshot("signin")
	b.fill("#signin [name=user]", "root")
	b.fill("#signin [name=secret]", "wrong")
	b.enter()
	b.awaitText("The user or the secret is wrong.")
	if eval[bool](b, `/refunds|thumbnails/.test(document.documentElement.outerHTML)`) {
		t.Error("the page has data before signing in")
	}
	b.fill("#signin [name=user]", "root")
	b.fill("#signin [name=secret]", secret)
	b.enter()
	b.counts("ready", 12)
	b.clickAction("signout")
	b.ready("signin")
	b.reload()
	b.ready("signin")
}
