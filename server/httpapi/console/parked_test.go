//go:build chromium

package console_test

import (
	"fmt"
	"testing"
)

// exhaust puts jobs into a tube that are parked because they may be delivered only once.
func exhaust(s *site, tube string, n int) []uint64 {
	s.t.Helper()
	jobs := many(n)
	for _, job := range jobs {
		job["max"] = 1
	}
	ids := s.put(tube, jobs...)
	s.with(s.reserve(tube, n), "release")
	s.awaitTube(tube, 0, 0, 0, uint64(n))
	return ids
}

// TestParked: what is exhausted is seen, of all tubes and with its reason, and made ready anew
// at a rate.
func TestParked(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		b := s.open(t, "#/parked")
		b.ready("parked")
		b.see("Nothing is parked.")
		s.put("refunds", many(1)...)
		s.with(s.reserve("refunds", 1), "bury") // by a worker, so it is not parked
		invoices := exhaust(s, "invoices", 4)
		s.put("emails", terms{"retry": []string{"1s"}})
		s.with(s.reserve("emails", 1), "release")
		s.with(s.reserve("emails", 1), "release")
		b.click("#read")
		b.awaitRows(5)
		b.awaitCell(fmt.Sprint(invoices[0]), "parked", "deliveries")
		b.awaitCell(fmt.Sprint(s.jobs("emails", "buried")[0].ID), "parked", "retries")
		b.awaitCell(fmt.Sprint(invoices[3]), "tube", "invoices")
		b.picture("parked-" + engineOf(t))

		b.mark(invoices[0], invoices[2])
		b.act("replay")
		b.hits("2")
		b.fill(field("rate"), "0")
		b.click("[data-do=ok]")
		b.dialog("replay")
		s.awaitTube("invoices", 0, 0, 0, 4)
		b.fill(field("rate"), "1")
		b.sure("replay")
		b.told("Replayed 1 of 2.")
		b.told("2 jobs replayed.")
		s.awaitTube("invoices", 2, 0, 0, 2)
		if got := s.job(invoices[0]); got.Parked != "" || got.Deliveries != 0 {
			t.Errorf("a job that was replayed is %+v", got)
		}
	})
}

// TestParkedOfOne: those of one tube can be looked at alone, one by one, and deleted.
func TestParkedOfOne(t *testing.T) {
	t.Parallel()
	s := serve(t)
	invoices := exhaust(s, "invoices", 3)
	exhaust(s, "refunds", 2)
	b := s.open(t, "#/parked")
	b.awaitRows(5)
	b.click("[data-tube=invoices]")
	b.awaitRows(3)
	b.look(invoices[1])
	b.see("parked: deliveries")
	b.closeJob()
	b.mark(invoices[0], invoices[1])
	b.act("delete")
	b.hits("2")
	b.sure("delete")
	s.awaitTube("invoices", 0, 0, 0, 1)
	s.awaitTube("refunds", 0, 0, 0, 2)
	b.awaitRows(1)
	b.click("[data-tube='']")
	b.awaitRows(3)
}

// TestReplayStopped: who replays can stop it.
func TestReplayStopped(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const n = 150 // so many seconds, which is longer than any click takes
	exhaust(s, "invoices", n)
	b := s.open(t, "#/parked")
	b.awaitRows(n)
	b.act("replay")
	b.hits(fmt.Sprint(n))
	b.fill(field("rate"), "1")
	b.sure("replay")
	b.told(fmt.Sprintf("Replayed 1 of %d.", n))
	b.act("replay")
	b.told("replayed.")
	if ready := s.tube("invoices").Ready; ready == 0 || ready == n {
		t.Errorf("%d jobs were replayed", ready)
	}
}

// TestServer: what the instance and its store are, and that it can be drained.
func TestServer(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		shop(s)
		b := s.open(t, "#/server")
		b.ready("server")
		b.see(fmt.Sprint(s.cmd.Process.Pid))
		for _, card := range []string{"instance", "store", "engine"} {
			b.find(fmt.Sprintf("section[data-card=%s]", card))
		}
		b.picture("server-" + engineOf(t))
		b.act("drain")
		b.sure("drain")
		b.see("no, it drains")
		s.awaitDraining(true)
		b.act("drain")
		s.awaitDraining(false)
		b.seeNot("no, it drains")
	})
}

func (s *site) awaitDraining(want bool) {
	s.t.Helper()
	await(s.t, fmt.Sprintf("draining is %v", want), func() bool {
		var info struct{ Draining bool }
		s.call("GET", "/v1/server", nil, &info)
		return info.Draining == want
	}, func() string { return "" })
}

// TestCluster: all instances on a Redis are seen, and the Redis.
func TestCluster(t *testing.T) {
	t.Parallel()
	store := engines["redis"](t)
	a := serve(t, "--store", store)
	other := serve(t, "--store", store)
	b := a.open(t, "#/server")
	instances, nodes := "section[data-card=instances]", "section[data-card=nodes]"
	b.await(fmt.Sprintf(`document.querySelectorAll("%s tbody tr").length === 2`, instances))
	b.see("Instances: 2 alive")
	b.await(fmt.Sprintf(`document.querySelector("%s").innerText.includes("master")`, nodes))
	b.picture("cluster")
	other.end()
	b.await(fmt.Sprintf(`!document.querySelector("%s").innerText.includes("2 alive")`, instances))
}
