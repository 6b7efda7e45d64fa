package outbox

import (
	"math"
	"strings"
	"testing"
	"time"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// TestReplies: what each reply to a put means for its row.
func TestReplies(t *testing.T) {
	const tubeWide, serverWide = outcome(10), outcome(11)
	for line, want := range map[string]outcome{
		"INSERTED 7": put, "INSERTED 7 DELAYED": put, "INSERTED 7 GONE": put, "DUPLICATE 7": put, "BURIED 7": put,
		"JOB_TOO_BIG": failed, "BAD_FORMAT": failed, "BATCH_SEALED": failed,
		"OUT_OF_MEMORY": tubeWide, "FORBIDDEN": tubeWide,
		"DRAINING": serverWide, "INTERNAL_ERROR": serverWide, "UNAUTHORIZED": serverWide, "UNKNOWN_COMMAND": serverWide,
	} {
		w := &row{}
		refusal, err := w.take(&client.Reply{Line: []byte(line)})
		got := w.outcome
		switch {
		case err != nil && got == waiting:
			got = serverWide
		case refusal == line && got == waiting:
			got = tubeWide
		}
		if got != want || (got == failed) != (w.why != "") {
			t.Errorf("%s: %d, not %d; %q, %q, %v", line, got, want, w.why, refusal, err)
		}
	}
}

// TestLongestRow: the key of any row is valid, and so is the longest line that passes.
func TestLongestRow(t *testing.T) {
	w := &row{id: math.MaxInt64, token: strings.Repeat("f", 36), tube: "t", pri: maxNumber, delay: maxNumber, ttr: maxNumber}
	table := strings.Repeat("t", 63)
	const tenYears = 10 * 365 * 24 * 3600
	if !w.prepare(table, tenYears, true) {
		t.Fatal(w.why)
	}
	room := protocol.MaxTagLine - lineRoom - len(w.tags) - len(" jitter:1max:2")
	for _, more := range []int{0, 1} {
		w := *w
		w.tags = "jitter:1" + strings.Repeat(" ", room+more) + "max:2"
		ok := w.prepare(table, tenYears, true)
		if line, _, _ := strings.Cut(string(w.appendPut(nil)), "\n"); ok != (more == 0) || ok && len(line)+1 > protocol.MaxTagLine {
			t.Errorf("%d more: %v, %q, a line of %d bytes", more, ok, w.why, len(line)+1)
		}
	}
}

// TestTubes: refusals of a tube double their pause up to a limit, and end with a put or when the tube is forgotten.
func TestTubes(t *testing.T) {
	all, now := make(tubes), time.Now()
	for i := range 20 {
		if isNew := all.refuse("a", now); isNew != (i == 0) {
			t.Errorf("refusal %d is new: %v", i, isNew)
		}
		all.refuse("a", now) // of the same round
		names, next := all.paused(now)
		if want := min(firstRefusal<<i, lastRefusal); len(names) != 1 || next.Sub(now) != want {
			t.Errorf("refusal %d: %v until %s, not %s", i, names, next.Sub(now), want)
		}
		now = next
	}
	if names, next := all.paused(now); len(names) != 0 || !next.IsZero() || len(all) != 1 {
		t.Errorf("%v is still refused", names)
	}
	all.paused(now.Add(lastRefusal + 1))
	if len(all) != 0 {
		t.Error("the tube is not forgotten")
	}
}
