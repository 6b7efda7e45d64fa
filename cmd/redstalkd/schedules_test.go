package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestSchedules: the program puts the jobs of schedules that are set over either protocol, counts them, and ends
// in the middle of it.
func TestSchedules(t *testing.T) {
	onEngines(t, func(t *testing.T, store func() []string) {
		p, url := serveHTTP(t, store()...)
		c := dial(t, p.serving(t))
		c.ask("set-schedule fast t 1 60 1 every:1s\r\nx\r\n", "SET")
		c.ask("watch t\r\n", "WATCHING 2")
		for range 2 {
			c.send("reserve-with-timeout 60\r\n")
			id, found := strings.CutPrefix(c.line(), "RESERVED ")
			if id, _, _ = strings.Cut(id, " "); !found || c.line() != "x" {
				t.Fatalf("no job: %q", id)
			}
			c.ask("delete "+id+"\r\n", "DELETED")
		}
		c.ask("pause-schedule fast\r\n", "PAUSED")
		status, text := ask(t, "GET", url+"/v1/schedules/fast", "")
		if status != 200 || !strings.Contains(text, `"paused":true`) || !strings.Contains(text, `"last_result":"`) {
			t.Errorf("%d %s", status, text)
		}
		if _, text := ask(t, "GET", url+"/metrics", ""); strings.Contains(text, "\nredstalk_schedule_lag_seconds_count 0\n") {
			t.Error("no put of a schedule is counted")
		}
		c.ask("resume-schedule fast\r\n", "RESUMED")
		p.signal(t, syscall.SIGTERM)
		if code := p.code(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}
