package main

import (
	"strings"
	"testing"

	"redstalk/protocol/client"
)

// TestTakeBack: take-back makes a reserved job ready, and close-client ends the connection that is named, if it is one.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	workers := []*client.Conn{ask(t, addr, "client same", "NAMED"), ask(t, addr, "client same", "NAMED"), ask(t, addr, "client other", "NAMED")}
	on(t, addr)("put", "hello")
	reserve := func(c *client.Conn) {
		t.Helper()
		if err := c.Send([]byte("reserve\r\n")); err != nil {
			t.Fatal(err)
		}
		if r, err := c.Receive(); err != nil || r.Word != client.Reserved {
			t.Fatal(r, err)
		}
	}
	reserve(workers[0])
	if got := on(t, addr)("take-back", "1"); got != "1 job taken back\n" {
		t.Errorf("take-back prints %q", got)
	}
	if got := runIn(t.Context(), "", "-s", addr, "take-back", "1"); got.code != exitNothing {
		t.Errorf("a second take-back: %+v", got)
	}
	reserve(workers[2])
	if got := runIn(t.Context(), "", "-s", addr, "close-client", "same"); got.code != exitUsage || !strings.Contains(got.err, "2 connections are called same") {
		t.Errorf("closing one of two: %+v", got)
	}
	if got := runIn(t.Context(), "", "-s", addr, "close-client", "nobody"); got.code != exitNothing {
		t.Errorf("closing nobody: %+v", got)
	}
	if got := on(t, addr)("close-client", "other"); !strings.Contains(got, "closed; it held 1 job") {
		t.Errorf("close-client prints %q", got)
	}
	if line, err := workers[2].Line(); err == nil {
		t.Errorf("the closed connection reads %q", line)
	}
	reserve(workers[1])
}

// TestStatusOfHung: hung jobs come first in status, those that are held longest before the others.
func TestStatusOfHung(t *testing.T) {
	s := &serverStatus{Trouble: []tubeTrouble{{"mail", "2 buried", troubleBuried, 2}}}
	s.addHung([]hungJob{{ID: 7, Tube: "mail", TTR: 60, Held: 700_000}, {ID: 8, Tube: "sms", TTR: 1, Held: 7_200_000}})
	var out strings.Builder
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	lines = lines[len(lines)-3:]
	for i, want := range []string{"job 8 is held for 2h0m0s, its TTR is 1s", "job 7 is held for 11m40s, its TTR is 1m0s", "2 buried"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}
