package protocol

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestModelOfExtensions checks that the Reader and the model agree on random lines of extensions,
// most of them almost valid, and on what follows them.
func TestModelOfExtensions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, *linesSeed))
	faults, goods := 0, 0
	for range 6_000 {
		input := randomExtension(rnd) + "\r\nbody\r\nstats\r\n"
		want := model(input, 10)
		got, _ := commandsFrom(t, input, &pieces{input, whole}, 10, nil)
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Fatalf("%q:\n got  %q\n want %q", input, g, w)
		}
		if strings.Contains(strings.Join(got, " "), "BAD_FORMAT") {
			faults++
		} else {
			goods++
		}
	}
	if min(faults, goods) < 600 {
		t.Errorf("%d faults and %d valid lines are too few", faults, goods)
	}
}

// randomExtension returns a line of an extension, or of put with tags.
func randomExtension(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	v := Unknown + 1 + Verb(rnd.IntN(int(NumVerbs)-1))
	for !v.Spec().Extension {
		v = Unknown + 1 + Verb(rnd.IntN(int(NumVerbs)-1))
	}
	line, words := v.Spec().Prefix, modelExtensions[v.Spec().Prefix[:len(v.String())]+"_"]
	if v == SetPolicy || rnd.IntN(3) == 0 {
		line, words = pick("put 1 2 3 4", "put 1 2 3 4", "put 1 2 3 11", "set-policy tube"), ""
		for range rnd.IntN(5) {
			line += pick(" ", " ", " ", "  ") + randomTag(rnd)
		}
	}
	if strings.HasSuffix(v.String(), "-group") {
		line, words = randomGroupLine(rnd, v), ""
	}
	if v == SetSchedule || v == PreviewSchedule {
		line, words = randomScheduleLine(rnd, v), ""
	}
	if v == ListClients || v == ListSchedules || v == ListBatches {
		line += pick("", " ", " ", " ")
	}
	if rnd.IntN(20) == 0 {
		line, words = "watch ", modelExtensions["watch_"]
	}
	for _, kind := range strings.Fields(words) {
		line += randomWord(rnd, strings.TrimSuffix(kind, "?")) + pick(" ", " ", " ", " ", "  ", "")
	}
	for range rnd.IntN(3) * strings.Count(words, "lease D") {
		line += " " + randomNote(rnd)
	}
	switch rnd.IntN(12) {
	case 0:
		line += pick(" ", "x", " x", "\t", "\x00", "\r", ":", " key:", " foo")
	case 1:
		line += strings.Repeat(pick(" ", " 1", "0", " key:a", "a"), rnd.IntN(1100))
	default:
		line = strings.TrimRight(line, " ")
	}
	return line
}

// randomGroupLine returns a line of a verb about one group.
func randomGroupLine(rnd *rand.Rand, v Verb) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	line := v.Spec().Prefix + randomWord(rnd, "name") + pick(" ", " ", " ", " ", "  ", "") + randomGroup(rnd)
	switch v {
	case SetGroup:
		for range rnd.IntN(4) {
			line += pick(" ", " ", " ", "  ") + pick("concurrency:", "rate:", "weight:", "ttl:", "group:") +
				pick("1", "1000", "5/m", "1/s,2/h", "30d", pick("0", "1001", "1/s,2", "1/d", ",", "x", ""))
		}
	case PauseGroup:
		line += pick(" ", " ", " ", " ", "  ", "") + pick("0", "5", "4294967295", pick("4294967296", "-1", "x"))
	}
	return line
}

// randomScheduleLine returns a set-schedule or a preview-schedule, mostly a valid one.
func randomScheduleLine(rnd *rand.Rand, v Verb) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	line := v.Spec().Prefix + randomWord(rnd, "schedule") + pick(" ", " ", " ", " ", "  ", "")
	if v == PreviewSchedule && rnd.IntN(2) == 0 {
		line = v.Spec().Prefix + pick("", " ") + pick(`"* * * * *"`, `"@daily"`, `"a\"b"`, `"`, `""`, `"a`, `"a"b`, `"`+strings.Repeat("c", 257)+`"`) + pick(" ", " ", "")
	}
	if v == PreviewSchedule {
		return line + pick("1", "1000", "0", "1001", "x", "") + pick("", " tz:UTC", " tz:", " tz:a tz:b", " cron:x")
	}
	line += randomWord(rnd, "name") + " " + pick("1", "0", "4294967296") + " 2 " + pick("4", "4", "4", "11", "x")
	for range rnd.IntN(5) {
		line += pick(" ", " ", "  ") + pick(`cron:"* * * * *"`, "every:5m", "every:0", "cron:", "tz:Europe/Berlin", `tz:"a b"`, "overlap:"+pick("skip", "replace", "allow", "buffer-one", "none"),
			"catch-up:1h", "catch-up-all:"+pick("1", "1000", "1001", "0"), "from:"+randomWord(rnd, "Q"), "until:1", "at:1", "on-duplicate:keep", randomTag(rnd))
	}
	return line
}

// randomGroup returns the name of a group as a command has it, mostly a valid one.
func randomGroup(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	return pick("g", "a:b", `"a b"`, `"\n\"ä\\"`, `"`+strings.Repeat("g", 128)+`"`, strings.Repeat("g", 128),
		pick("", `"`, `""`, `"a`, `"a"b`, `"\x"`, `a"b`, `\`, "ä", "\xff", "\"\t\"", strings.Repeat("g", 129), `"`+strings.Repeat("ä", 65)+`"`))
}

// randomWord returns a word of a kind of modelExtensions, mostly a valid one.
func randomWord(rnd *rand.Rand, kind string) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	if rnd.IntN(12) == 0 {
		kind = pick("Q", "name", "key", "state", "lease", "time", "cursor")
	}
	switch kind {
	case "batchname":
		return pick("b", "c", "a:b", strings.Repeat("n", 100), pick("é", strings.Repeat("n", 101)))
	case "groupcursor":
		return pick("Zw", "~", strings.Repeat("c", 171), pick("\xff", strings.Repeat("c", 172)))
	case "schedule":
		return pick("a", "s-1", strings.Repeat("n", 100), pick("-a", strings.Repeat("n", 101)))
	case "schedulecursor":
		return pick("a", strings.Repeat("c", 100), strings.Repeat("c", 101))
	case "name":
		return pick("a", "tube", "a.b/c", strings.Repeat("n", 200), pick("-a", "a:", strings.Repeat("n", 201)))
	case "state", "movable":
		return pick("ready", "delayed", "reserved", "buried", pick("", "Ready", "readyy"))
	case "key", "cursor":
		return pick("k", "a:b", strings.Repeat("k", 64), strings.Repeat("k", 128), pick("\xff", strings.Repeat("k", 129)))
	case "lease":
		return pick("00000000000000000001", "18446744073709551615", "18446744073709551616", "1", "x-y", strings.Repeat("l", 32), strings.Repeat("l", 33))
	case "time":
		return pick("1", "250ms", "36h", "3650d", pick("3651d", "1w", "ms"))
	}
	return pick("1", "7", "0007", "1000", "2147483647", pick("0", "1001", "4294967295", "4294967296", "-1", "1x", "18446744073709551616"))
}

// randomNote returns a tag with a text, or another one with a value in quotes.
func randomNote(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	text := ""
	for range rnd.IntN(5) {
		text += pick("a", " ", "ä", `\\"`, `\\\\`, `\\n`, `\\t`, "=", ":", pick(`\\x`, `"`, "\xff", "\u0085", strings.Repeat("x", 300), `\\`))
	}
	quoted := pick(`"`, `"`, `"`, `"`, "") + text + pick(`"`, `"`, `"`, `"`, "", `"x`)
	switch pick("meta", "meta", "trace", "reason", "failure", "key", "expire-at", "failed-at") {
	case "expire-at":
		return "expire-at:" + randomWord(rnd, "Q")
	case "failed-at":
		return "failed-at:" + randomWord(rnd, "Q") + pick("", " reason:x")
	case "meta":
		return "meta:" + pick("a", "B", "b", "c-1", "d_", "e", "", "f.") + pick("=", "=", "=", "=", "") + quoted
	case "trace":
		return "trace:" + pick(`"`, "") + pick("00", "01", "ff") + "-" + strings.Repeat(pick("a", "0", "A"), 32) + "-" + strings.Repeat(pick("b", "0"), 16) + pick("-01", "-01", "-1") + pick("", `"`)
	case "failure":
		return pick("failure:no", `failure:"no"`, "failure:yes", "failure:")
	case "key":
		return "key:" + quoted
	}
	return "reason:" + quoted
}

// randomTag returns a tag, mostly a valid one.
func randomTag(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	switch rnd.IntN(20) {
	case 2, 3, 4:
		return pick("batch", "after", "after-all") + ":" + randomWord(rnd, "batchname")
	case 5:
		return pick("batch-ttl:", "batch:b batch-ttl:") + pick("1h", "250ms", "0", randomWord(rnd, "time"))
	case 0:
		return pick("foo", "foo:1", "key", ":", "key-ttl", "delays:1")
	case 1:
		return pick("delay", "at", "key", "on-duplicate", "key-ttl", "retry", "max", "dead", "quota-jobs", "quota-bytes", "push", "push-concurrency", "push-timeout", "push-rate") + ":" + randomWord(rnd, pick("Q", "name", "key", "time"))
	}
	if rnd.IntN(4) == 0 {
		return randomNote(rnd)
	}
	if rnd.IntN(3) == 0 {
		return randomGroupTag(rnd)
	}
	switch name := pick("delay", "at", "key", "on-duplicate", "key-ttl", "retry", "max", "dead", "quota-jobs", "quota-bytes", "push", "push-concurrency", "push-timeout", "push-rate"); name {
	case "delay", "key-ttl", "push-timeout":
		return name + ":" + randomWord(rnd, "time")
	case "push":
		return name + ":" + pick("http://", "https://", "ftp://", "") + pick("a.b", "[::1]", "u@a", "") + pick("", ":80", ":0", ":65536", ":", ":x") +
			pick("", "/", "/a/b?c=%20", "/%2", "?q", "#f")
	case "push-rate":
		return name + ":" + randomWord(rnd, "Q") + pick("", "/s", "/h", "/", "/d")
	case "on-duplicate":
		return name + ":" + pick("keep", "replace", "fail", "Keep")
	case "retry":
		return name + ":" + strings.Repeat(pick("1s,", "2m,"), rnd.IntN(33)) + randomWord(rnd, "time")
	case "key":
		return name + ":" + randomWord(rnd, "key")
	case "dead":
		return name + ":" + randomWord(rnd, "name")
	default:
		return name + ":" + randomWord(rnd, "Q")
	}
}

// randomGroupTag returns a tag about groups or limits, mostly a valid one.
func randomGroupTag(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	switch name := pick("group", "group-order", "group-rate", "rate", "group-concurrency", "concurrency", "weight", "ttl"); name {
	case "group":
		return name + ":" + randomGroup(rnd)
	case "group-order":
		return name + ":" + pick("fair", "strict", "Fair", "")
	case "group-rate", "rate":
		return name + ":" + randomWord(rnd, "Q") + pick("", "/s", "/m", "/h", "/d") + pick("", "", ",5/m", ",", ",7/h,8/m", ",1/s,2/m,3/h")
	default:
		return name + ":" + randomWord(rnd, "Q")
	}
}
