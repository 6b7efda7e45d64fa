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
	return startHiding(t, nil, users...)
}

// startHiding is startWithUsers with further flags.
func startHiding(t *testing.T, flags []string, users ...user) *testServer {
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
	s := startServer(t, append(flags, "--access", path)...)
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

// wantActions waits until exactly the given actions are visible, in an open dialog if there is one.
func (b *tab) wantActions(want string) {
	b.t.Helper()
	const actions = `[...new Set([...([...document.querySelectorAll("dialog[open]")].at(-1) ?? document).querySelectorAll("[data-action]")].filter(e => e.checkVisibility()).map(e => e.dataset.action))]
		.filter(a => !["copy", "copy-body", "download-body", "signin", "signout", "unmark"].includes(a)).sort().join(" ")`
	b.awaitOr(actions+" === "+js(want), func() string { return "these actions: " + eval[string](b, actions) + "\n" + b.text() })
}

// TestRights: who has some rights sees their tubes, and on each page the actions and the links that they allow.
func TestRights(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t, user{"viewer", "inv*", "read"}, user{"viewer", "mails", "read"}, user{"worker", "mails", "read, work"},
		user{"clerk", "invoices", "read, admin"}, user{"clerk", "emails", "read, put"})
	putShopJobs(s)
	putMails(s)
	parkJobs(s, "inventory", 2)
	job := fmt.Sprint("#/job/", s.jobs("invoices", "ready")[0].ID)
	for name, pages := range map[string][]struct{ page, shows, actions string }{
		"viewer": {
			{"#/", ".row[data-id=invoices]", ""}, {"#/tube/invoices", ".row", ""}, {job, "dialog", ""}, {"#/parked", ".row", ""}, {"#/server", "section[data-card=instance]", ""},
			{"#/tube/mails/groups", ".row[data-id=acme]", ""}, {"#/tube/mails/groups/acme", "dialog", ""},
		},
		"worker": {{"#/tube/mails/groups", ".row[data-id=acme]", ""}, {"#/tube/mails/groups/acme", "dialog", "pause"}},
		"clerk":  {{"#/tube/invoices", ".row", "flush kick pause policy"}, {"#/tube/emails", "[data-action=put]", "put"}, {"#/server", "section[data-card=instance]", ""}},
		"root": {
			{"#/tube/invoices", "header a[href='#/put']", "flush kick move pause policy put"}, {job, "dialog", "bury delete edit move priority reschedule"},
			{"#/tube/mails/groups/acme", "dialog", "flush limits pause"}, {"#/server", "section[data-card=instance]", "drain"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.signIn(t, "", name)
			b.ready("overview")
			for _, p := range pages {
				b.goTo("?" + url.QueryEscape(p.page) + p.page) // it is still signed in
				b.await("help.has(" + js(p.shows) + ")")
				b.wantActions(p.actions)
				if name == "viewer" && b.has(".row input[type=checkbox], header a[href='#/put']") {
					t.Errorf("on the page %s a viewer can select, or put", p.page)
				}
			}
		})
	}
	b := s.signIn(t, "", "viewer")
	b.awaitTubes("inventory", "invoices", "mails")
}

// TestHiddenBodies: who may only list sees all pages, with bodies as hidden; who may read sees bodies without the values that --redact names,
// and neither can copy such a job.
func TestHiddenBodies(t *testing.T) {
	t.Parallel()
	s := startHiding(t, []string{"--redact", "/email"}, user{"lister", "*", "list, put"}, user{"reader", "*", "read, put"})
	s.put("mails", terms{"body": map[string]any{"email": "somebody", "n": 7}, "key": "k", "meta": map[string]string{"email": "somebody"}})
	s.put("invoices", terms{"body": "plain"})
	job := fmt.Sprint("#/job/", s.jobs("mails", "ready")[0].ID)
	for name, want := range map[string]struct{ shows, row string }{
		"lister": {"[data-note=hidden]", "hidden"}, "reader": {"[data-note=redacted]", "[redacted]"}, "root": {"[data-action=copy]", "somebody"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.signIn(t, "", name)
			b.ready("overview")
			b.goTo("?a#/tube/mails")
			b.awaitText(want.row)
			b.goTo("?b" + job)
			b.await("help.has(" + js("dialog "+want.shows) + ")")
			if got := b.has("dialog [data-action=copy]"); got != (name == "root") {
				t.Errorf("%s can copy the job: %v", name, got)
			}
			if got := strings.Contains(b.text(), "somebody"); got != (name == "root") {
				t.Errorf("%s sees the value: %v", name, got)
			}
			for _, page := range []string{"parked", "schedules", "batches", "workers", "server", "ended/mails", "search/k"} {
				b.goTo("?c#/" + page)
				b.ready(strings.Split(page, "/")[0])
			}
			if got := strings.Contains(b.text(), "Bodies, meta and reasons are not searched"); got != (name == "lister") {
				t.Errorf("%s is told that bodies are not searched: %v", name, got)
			}
		})
	}
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

// TestUnauthenticated: nothing is shown before signing in, nor after signing out, and a wrong secret is reported.
func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	s := startWithUsers(t)
	putShopJobs(s)
	b := s.blank(t)
	b.ignore("status of 401")
	b.goTo("#/tube/invoices")
	b.ready("signin")
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
