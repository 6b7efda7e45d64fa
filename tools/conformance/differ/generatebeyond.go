package differ

import (
	"fmt"
	"strings"
)

// This file generates lines with extensions.

var keyNames = []string{"k", "l", "m", `q"\`, strings.Repeat("~", 128), strings.Repeat("~", 129)}

func (g *generator) key() string {
	if g.chance(8) {
		return pick(g, keyNames...)
	}
	return pick(g, keyNames[:3]...)
}

// lineBeyond generates a well-formed line with an extension.
func (g *generator) lineBeyond(id int) string {
	if g.e.draining && g.chance(3) {
		return "undrain"
	}
	switch n := g.IntN(100); {
	case n < 30:
		return g.taggedPut()
	case n < 38:
		return pick(g, "find ", "find ", "delete-key ") + g.tube() + " " + g.key()
	case n < 45:
		return "set-policy " + g.tube() + g.policy()
	case n < 48:
		return pick(g, "get-policy "+g.tube(), "list-policies")
	case n < 56:
		return "reserve-lease " + g.timeout()
	case n < 68:
		return g.withLease()
	case n < 74:
		return g.reserveBatch()
	case n < 79:
		return g.deleteBatch(id)
	case n < 83:
		return "set-priority " + g.job(id, false) + " " + g.pri()
	case n < 87:
		return "reschedule " + g.job(id, false) + " " + g.duration()
	case n < 89:
		return "flush-tube " + g.tube() + pick(g, "", " ready", " delayed", " buried", " reserved")
	case n < 92:
		return "move-jobs " + g.tube() + pick(g, " ready ", " delayed ", " buried ") + g.tube() + " " + pick(g, "1", "1", "2", "5", "1000", "4294967295")
	case n < 98:
		return g.listJobs()
	}
	return pick(g, "capabilities", "capabilities", "drain", "undrain")
}

// duration generates a delay.
func (g *generator) duration() string {
	n := g.seconds()
	return pick(g, n, n+"s", n+"000ms")
}

// waits generates the durations of a retry list.
func (g *generator) waits() string {
	var all []string
	for range 1 + g.IntN(3) {
		all = append(all, g.wait())
	}
	return strings.Join(all, ",")
}

// wait generates a duration that several jobs can share.
func (g *generator) wait() string {
	if g.e.timed {
		return pick(g, "0", "1", "1s", "2000ms", "3s", "1h")
	}
	return pick(g, "0", "1h", "2h", "36h", "3d", "90m", "5400000ms", "3600")
}

// taggedPut generates a put line with tags.
func (g *generator) taggedPut() string {
	line := fmt.Sprintf("put %s %s %s %d", g.pri(), g.seconds(), g.ttr(), g.size())
	for _, tag := range []struct {
		odds  int
		write func() string
	}{
		{6, func() string { return pick(g, "delay:"+g.duration(), "at:"+g.dueAt()) }},
		{2, func() string { return "key:" + g.key() }},
		{3, func() string { return "on-duplicate:" + pick(g, "keep", "replace", "fail") }},
		{4, g.keyTTL},
		{3, func() string { return "retry:" + g.waits() }},
		{3, func() string { return "max:" + pick(g, "1", "2", "3") }},
		{4, func() string { return "dead:" + g.tube() }},
	} {
		if g.chance(tag.odds) {
			line += " " + tag.write()
		}
	}
	return line
}

func (g *generator) keyTTL() string { return "key-ttl:" + pick(g, "0", "1h", g.wait()) }

// dueAt generates a due time.
func (g *generator) dueAt() string {
	if g.e.timed {
		return pick(g, "1", timeRef(1000), timeRef(2000), timeRef(3000))
	}
	return pick(g, "0", "1", "1700000000000", timeRef(uint64(1000*(latest+g.IntN(1_000_000)))))
}

// policy generates the tags of a set-policy.
func (g *generator) policy() (tags string) {
	for _, tag := range []struct {
		odds  int
		write func() string
	}{
		{4, func() string { return "retry:" + g.waits() }},
		{4, func() string { return "max:" + pick(g, "1", "2", "3") }},
		{4, func() string { return "dead:" + g.tube() }},
		{6, g.keyTTL},
		{5, func() string { return "on-duplicate:" + pick(g, "keep", "replace", "fail") }},
		{8, func() string { return "quota-jobs:" + pick(g, "0", "1", "3", "10") }},
		{8, func() string { return "quota-bytes:" + pick(g, "0", "50", "1000") }},
	} {
		if g.chance(tag.odds) {
			tags += " " + tag.write()
		}
	}
	return tags
}

// withLease generates a command with a lease: mostly the last one of a job, or an older one.
func (g *generator) withLease() string {
	if len(g.e.leased) == 0 {
		return "delete-lease " + g.job(0, false) + " " + pick(g, "x", noLease)
	}
	label := g.e.leased[len(g.e.leased)-1-g.IntN(min(4, len(g.e.leased)))]
	lease := leaseRef(label, len(g.e.jobs[label].leases)-1)
	switch g.IntN(12) {
	case 0:
		lease = leaseRef(label, g.IntN(len(g.e.jobs[label].leases)))
	case 1:
		lease = pick(g, "x", noLease, strings.Repeat("1", 32), strings.Repeat("1", 33))
	case 2:
		lease = leaseRef(pick(g, g.e.leased...), 0)
	}
	with := ref(label) + " " + lease
	switch n := g.IntN(10); {
	case n < 4:
		return "release-lease " + with + " " + g.pri() + " " + g.seconds()
	case n < 6:
		return "delete-lease " + with
	case n < 8:
		return "bury-lease " + with + " " + g.pri()
	}
	return "touch-lease " + with
}

func (g *generator) reserveBatch() string {
	if g.e.timed {
		return pick(g, "reserve-batch 1", "reserve-batch 1 "+g.timeout())
	}
	return "reserve-batch " + pick(g, "1", "2", "3", "10", "1000", "1001") + pick(g, "", " "+g.timeout())
}

func (g *generator) deleteBatch(id int) string {
	line := "delete-batch"
	for range pick(g, 1, 2, 3, 10) {
		line += " " + g.job(id, g.chance(2))
	}
	return line
}

// listJobs generates a list-jobs with a cursor, if there is one, or without.
func (g *generator) listJobs() string {
	if n := len(g.e.cursors); n > g.e.current && !g.chance(4) {
		return "list-jobs " + g.e.cursors[n-1].list + " " + pick(g, "1", "2", "5") + " " + cursorRef(n-1)
	}
	switch state := pick(g, "ready", "ready", "delayed", "buried", "reserved"); {
	case state == "reserved", g.chance(3):
		return "list-jobs " + g.tube() + " " + state
	default:
		return "list-jobs " + g.tube() + " " + state + " " + pick(g, "1", "2", "5", "1000")
	}
}
