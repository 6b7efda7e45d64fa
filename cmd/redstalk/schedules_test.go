package main

import (
	"strings"
	"testing"
)

// appliedSchedules is a file of schedules.
const appliedSchedules = `schedules:
  nightly: {tube: reports, cron: "30 2 * * *", tz: Europe/Berlin, body: all, retry: [10s, 60s], max: 5, dead: morgue, key: k, key-ttl: 1m, group: g h}
  hourly: &hourly
    every: 60m
    ttr: 90
    pri: 5
    delay: 1500ms
    from: 2026-01-01T00:00:00Z
    until: 9223372036853
    jitter: 1m
    catch-up: 2h
    catch-up-all: 3
    expire: 1d
    on-expire: park
    meta: {b: "2", a: "1 \" é"}
    trace: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    body: {x: [1, null]}
  other: {<<: *hourly, jitter: 20, overlap: buffer-one, body: ""}
`

// TestApplySchedules: apply makes the schedules those of a file, and says what it does. A dry run, and a
// file with a fault, change nothing.
func TestApplySchedules(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	apply := func(file, flags string) outcome {
		t.Helper()
		return runIn(t.Context(), file, append([]string{"-s", addr, "schedules", "apply", "-"}, strings.Fields(flags)...)...)
	}
	const first = appliedSchedules
	if got := apply(first, "--dry-run"); got.code != 0 || got.out != "would create hourly\nwould create nightly\nwould create other\n" {
		t.Errorf("a dry run: %+v", got)
	}
	for _, want := range []string{"created hourly\ncreated nightly\ncreated other\n", ""} {
		if got := apply(first, ""); got.code != 0 || got.out != want {
			t.Errorf("applied: %+v, want %q", got, want)
		}
	}
	if got := runIn(t.Context(), "", "-s", addr, "schedules", "get", "hourly", "--json"); !strings.Contains(got.out, `"size":14`) || !strings.Contains(got.out, `"from":1767225600000`) {
		t.Errorf("hourly is %s", got.out)
	}
	second := strings.NewReplacer("all,", "All,", "retry: [10s, 60s], ", "", "jitter: 20", "jitter: 30", "  hourly: &hourly", "  hourly2: &hourly", `"2"`, `"3"`).Replace(first)
	const changes = `create hourly2
change nightly: body, retry '10s,1m' -> ''
change other: meta 'a="1 \" é" b="2"' -> 'a="1 \" é" b="3"', retry-jitter '20' -> '30'
`
	if got := apply(second, "--dry-run"); got.out != "would "+strings.ReplaceAll(changes, "\nc", "\nwould c")+"would delete hourly\n" {
		t.Errorf("a dry run: %+v", got)
	}
	if got := apply(strings.Replace(second, "30 2", "60 2", 1), ""); got.code != exitFailed || got.out != "" || !strings.Contains(got.err, `schedule nightly: cron "60 2 * * *"`) {
		t.Errorf("with a fault: %+v", got)
	}
	done := strings.NewReplacer("create ", "created ", "change ", "changed ").Replace(changes)
	if got := apply(second, "--prune=false"); got.out != done {
		t.Errorf("applied: %+v, want %s", got, done)
	}
	moved := strings.NewReplacer("tube: reports", "tube: mail", "max: 5", "max: 6").Replace(second)
	if got := apply(moved, "--prune=false --dry-run"); got.out != "would move nightly to mail: max '5' -> '6'\n" {
		t.Errorf("a dry run of a move: %+v", got)
	}
	if got := apply(moved, "--prune=false"); got.out != "moved nightly to mail: max '5' -> '6'\n" {
		t.Errorf("moved: %+v", got)
	}
	if got := runIn(t.Context(), "", "-s", addr, "schedules", "get", "nightly", "--json"); !strings.Contains(got.out, `"tube":"mail"`) {
		t.Errorf("nightly, which was moved, is %s", got.out)
	}
	if got := apply(moved, "--json"); got.out != `{"name":"hourly","action":"delete"}`+"\n" {
		t.Errorf("pruned: %+v", got)
	}
	if got := apply("schedules: {}", ""); got.out != "deleted hourly2\ndeleted nightly\ndeleted other\n" {
		t.Errorf("all deleted: %+v", got)
	}
}

// TestBadSchedules: a file with a fault is refused before anything is sent, and the message says where it is.
func TestBadSchedules(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	for file, want := range map[string]string{
		"":           "no key schedules",
		"schedules:": "no key schedules",
		"jobs: {}":   "jobs",
		"schedules: {a: {cron: '* * * * *', every: 1s}}":     "schedule a: there must be one of",
		"schedules: {a: {cronn: '* * * * *'}}":               "schedule a: cronn: there is no such setting",
		"schedules: {a b: {every: 1s}}":                      "not the name of a schedule",
		"schedules: {a: {every: 1s, tube: a b}}":             "schedule a: ",
		"schedules: {a: {every: 1s, ttr: soon}}":             "schedule a: ttr: ",
		"schedules: {a: {every: 1s, pri: -1}}":               "schedule a: pri: ",
		"schedules: {a: {every: 1s, meta: x}}":               "schedule a: meta: ",
		"schedules: {a: {every: {x: y}}}":                    "schedule a: every: ",
		"schedules: {a: {every: 1s, from: noon}}":            "schedule a: from: ",
		"schedules: {a: {every: 1s, overlap: x}}":            "overlap",
		"schedules: {a: {every: 1s}, a: {every: 1s}}":        "already defined",
		"schedules: {a: {every: 1s, on-duplicate: replace}}": "no such setting",

		"schedules: {a: {every: 999ms}}":                                                       "every must be at least 1s",
		"schedules: {a: {every: 1s, jitter: 25h}}":                                             "jitter must be at most 24h",
		"schedules: {a: {every: 1s, key: k, overlap: allow}}":                                  "key and overlap:allow contradict",
		"schedules: {a: {every: 1s, group: g, overlap: buffer-one}}":                           "group and overlap:buffer-one contradict",
		"schedules: {a: {every: 1s, from: 2090-01-02T00:00:00Z, until: 2090-01-01T00:00:00Z}}": "until is before from",
	} {
		if got := runIn(t.Context(), file, "-s", addr, "schedules", "apply", "-"); got.code != exitUsage || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %s", file, got, want)
		}
	}
	if got := runIn(t.Context(), "", "-s", addr, "schedules", "apply", "/nowhere"); got.code != exitUsage || !strings.Contains(got.err, "/nowhere") {
		t.Errorf("no file: %+v", got)
	}
}

// TestBadScheduleLater: what only the server, or the time, can show to be a fault is found before anything is changed.
func TestBadScheduleLater(t *testing.T) {
	t.Parallel()
	addr := startServer(t, redstalkd, "--store", "memory:", "--max-job-size", "10")
	if got := runIn(t.Context(), "", "-s", addr, "schedules", "set", "a", "every:2h", "--body", ""); got.code != 0 {
		t.Fatalf("setting a: %+v", got)
	}
	for settings, want := range map[string]string{
		"cron: '61 * * * *'":                          "the expression or the time zone is invalid",
		"cron: '0 0 30 2 *'":                          "there is no such time",
		"cron: '@daily', tz: Nowhere/At_All":          "the expression or the time zone is invalid",
		"cron: '@daily', until: 2020-01-01T00:00:00Z": "until 2020-01-01T00:00:00Z: there is no time",
		"every: 1h, until: 2020-01-01T00:00:00Z":      "there is no time",
		"cron: '0 0 1 3 *', from: 2090-01-01T00:00:00Z, until: 2090-02-01T00:00:00Z": "there is no time",
		"every: 10d, from: 2020-01-01T00:00:00Z, until: 2020-01-05T00:00:00Z":        "there is no time",
		"every: 1h, body: 0123456789a":                                               "body: it has 11 bytes, more than the 10",
		"cron: a":                                                                    "the expression or the time zone is invalid", // not the schedule a
	} {
		file := "schedules:\n  a: {every: 1h}\n  b: {" + settings + "}\n"
		for _, flags := range [][]string{{"--dry-run"}, nil} {
			got := runIn(t.Context(), file, append([]string{"-s", addr, "schedules", "apply", "-"}, flags...)...)
			if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, "schedule b: ") || !strings.Contains(got.err, want) || !strings.Contains(got.err, "nothing was changed") {
				t.Errorf("%s with %q: %+v, want %s", settings, flags, got, want)
			}
		}
	}
	if got := runIn(t.Context(), "", "-s", addr, "schedules", "--json"); strings.Count(got.out, "\n") != 1 {
		t.Errorf("the schedules are %s", got.out)
	}
	const good = "schedules: {a: {cron: '0 0 1 3 *', from: 2090-01-01T00:00:00Z, until: 2090-03-01T00:00:00Z, body: 0123456789}, b: {every: 10d, from: 2090-01-01T00:00:00Z, until: 2090-01-01T00:00:00Z}}"
	if got := runIn(t.Context(), good, "-s", addr, "schedules", "apply", "-"); got.out != "changed a: body, cron '' -> '0 0 1 3 *', every '2h' -> '', from '' -> '3786912000000', until '' -> '3792009600000'\ncreated b\n" {
		t.Errorf("times that are far away: %+v", got)
	}
}
