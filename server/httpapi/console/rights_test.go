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

const secret = "open sesame"

// user is one of the file of users: what they may do, and on which tubes.
type user struct{ name, tubes, may string }

// guarded starts a server with these users and with root, who may do everything. All have the
// same secret.
func guarded(t *testing.T, users ...user) *site {
	t.Helper()
	cmd := exec.Command(redstalkd, "secret")
	cmd.Stdin = strings.NewReader(secret)
	hash, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	rights := make(map[string][]string)
	names := []string{"root"}
	for _, u := range append(users, user{"root", "*", "put, work, look, admin"}) {
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
	s := serve(t, "--access", path)
	s.user = url.UserPassword("root", secret)
	return s
}

// signIn opens a page as a user who has to sign in first.
func (s *site) signIn(t *testing.T, page, name string) *tab {
	t.Helper()
	b := s.blank(t)
	b.excuse("status of 401")
	b.goTo(page)
	b.ready("signin")
	b.fill("#signin [name=user]", name)
	b.fill("#signin [name=secret]", secret)
	b.enter()
	b.lacks("#signin")
	return b
}

// offers fails the test unless exactly those actions are seen that are meant to be, of all that
// there are.
func (b *tab) offers(want ...string) {
	b.t.Helper()
	got := eval[string](b, `[...new Set([...document.querySelectorAll("[data-action]")].filter(e => e.checkVisibility()).map(e => e.dataset.action))]
		.filter(a => !["copy", "copy-body", "signin", "signout", "unmark"].includes(a)).sort().join(" ")`)
	if got != strings.Join(want, " ") {
		b.t.Errorf("the page offers: %s; want: %s", got, strings.Join(want, " "))
	}
}

// TestLookOnly: who may only look is shown nothing that changes anything, and only the tubes
// that are theirs.
func TestLookOnly(t *testing.T) {
	t.Parallel()
	s := guarded(t, user{"viewer", "inv*", "look"})
	shop(s)
	exhaust(s, "inventory", 2)
	b := s.signIn(t, "", "viewer")
	b.awaitTubes("inventory", "invoices")
	b.lacks("header a[href='#/put']")
	b.offers()
	b.picture("look-only")
	b.click(`.row[data-id=invoices] a`)
	b.counts("ready", 12)
	b.awaitRows(12)
	b.offers()
	b.lacks("#main input[type=checkbox]")
	b.look(s.jobs("invoices", "ready")[0].ID)
	b.offers()
	b.closeJob()
	b.click("header a[href='#/parked']")
	b.awaitRows(2)
	b.offers()
	b.click("header a[href='#/server']")
	b.ready("server")
	b.see("viewer")
	b.offers()
}

// TestAdmin: who may do everything is offered everything, and can do it.
func TestAdmin(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	shop(s)
	b := s.signIn(t, "#/tube/invoices", "root")
	b.counts("ready", 12)
	for _, action := range []string{"kick", "move", "flush", "pause", "policy"} {
		b.find("[data-action=" + action + "]")
	}
	b.find("header a[href='#/put']")
	id := s.jobs("invoices", "ready")[0].ID
	b.mark(id)
	b.click(marked + " [data-action=delete]")
	b.sure("delete")
	s.awaitTube("invoices", 11, 0, 0, 0)
	b.again()
	b.counts("ready", 11) // still signed in
}

// TestMixedRights: who may do one thing on one tube and another on another is offered on each
// what holds there.
func TestMixedRights(t *testing.T) {
	t.Parallel()
	s := guarded(t, user{"clerk", "invoices", "look, admin"}, user{"clerk", "emails", "look, put"})
	shop(s)
	b := s.signIn(t, "#/tube/invoices", "clerk")
	b.counts("ready", 12)
	b.find("[data-action=flush]")
	b.lacks("[data-action=move]")
	b.lacks("#main [data-action=put]")
	b.again()
	b.goTo("?2#/tube/emails")
	b.counts("ready", 3)
	b.await(`document.querySelector("#main [data-action=put], #main a[href^='#/put']")`)
	for _, action := range []string{"kick", "move", "flush", "pause", "policy"} {
		b.lacks("[data-action=" + action + "]")
	}
	b.lacks("#main input[type=checkbox]")
	b.goTo("?3#/server")
	b.ready("server")
	b.lacks("[data-action=drain]")
}

// TestStranger: who is not known sees nothing, and is told why; and whoever signs out is not
// known any more.
func TestStranger(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	shop(s)
	b := s.blank(t)
	b.excuse("status of 401")
	b.goTo("#/tube/invoices")
	b.ready("signin")
	b.picture("signin")
	b.fill("#signin [name=user]", "root")
	b.fill("#signin [name=secret]", "wrong")
	b.enter()
	b.see("The user or the secret is wrong.")
	if eval[bool](b, `/refunds|thumbnails/.test(document.documentElement.outerHTML)`) {
		t.Error("the page knows what a stranger may not")
	}
	b.fill("#signin [name=user]", "root")
	b.fill("#signin [name=secret]", secret)
	b.enter()
	b.counts("ready", 12)
	b.act("signout")
	b.ready("signin")
	b.again()
	b.ready("signin")
}
