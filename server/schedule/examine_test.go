package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redstalk/tube"
)

// instant parses a time in UTC.
func instant(t *testing.T, text string) tube.Instant {
	t.Helper()
	parsed, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return tube.Instant(parsed.UnixNano())
}

// begun returns the first record of a schedule that is set at a time.
func begun(t *testing.T, set tube.Schedule, now tube.Instant) *tube.Schedule {
	t.Helper()
	set.Name, set.Tube = "s", "t"
	record, err := replace(nil, &set, now)
	if err != nil {
		t.Fatal(err)
	}
	record.Version = 1
	return record
}

// shown formats what examine returns: the times of the puts, how many are missed, and when the record is due
// next.
func shown(t *testing.T, s *tube.Schedule, now tube.Instant) string {
	t.Helper()
	steps, missed, err := examine(s, now)
	if err != nil {
		t.Fatal(err)
	}
	var puts []string
	last := s
	for i, step := range steps {
		if step.record.Version != s.Version+uint64(i)+1 {
			t.Errorf("step %d has version %d after %d", i, step.record.Version, s.Version)
		}
		if last = step.record; step.nominal != 0 {
			puts = append(puts, at(step.nominal).UTC().Format("02.15:04:05"))
		}
	}
	due := "never"
	if last.Due != tube.Never {
		due = at(last.Due).UTC().Format("02.15:04:05")
	}
	return fmt.Sprintf("puts [%s], missed %d, due %s", strings.Join(puts, " "), missed, due)
}

// TestExamine: which occurrences are put after a downtime, and which are missed.
func TestExamine(t *testing.T) {
	const midnight = "2026-03-01 00:00:00"
	hourly, daily := tube.Timing{Cron: "0 * * * *"}, tube.Timing{Cron: "30 2 * * *"}
	for _, c := range []struct {
		name string
		set  tube.Schedule
		now  string
		want string
	}{
		{"not due", tube.Schedule{Timing: hourly}, "2026-03-01 00:59:59", "puts [], missed 0, due 01.01:00:00"},
		{"in time", tube.Schedule{Timing: hourly}, "2026-03-01 01:00:00", "puts [01.01:00:00], missed 0, due 01.02:00:00"},
		{"late, within the period", tube.Schedule{Timing: hourly}, "2026-03-01 01:59:59", "puts [01.01:00:00], missed 0, due 01.02:00:00"},
		{"only the latest", tube.Schedule{Timing: hourly}, "2026-03-01 05:10:00", "puts [01.05:00:00], missed 4, due 01.06:00:00"},
		{"by default at most an hour late", tube.Schedule{Timing: daily}, "2026-03-01 03:30:00", "puts [01.02:30:00], missed 0, due 02.02:30:00"},
		{"by default no more than an hour late", tube.Schedule{Timing: daily}, "2026-03-01 03:30:01", "puts [], missed 1, due 02.02:30:00"},
		{"catch-up", tube.Schedule{Timing: daily, CatchUp: 5 * time.Hour, HasCatchUp: true}, "2026-03-03 07:30:00", "puts [03.02:30:00], missed 2, due 04.02:30:00"},
		{"later than catch-up", tube.Schedule{Timing: daily, CatchUp: 5 * time.Hour, HasCatchUp: true}, "2026-03-03 07:30:01", "puts [], missed 3, due 04.02:30:00"},
		{"catch-up of nothing forgives seconds", tube.Schedule{Timing: hourly, HasCatchUp: true}, "2026-03-01 01:00:10", "puts [01.01:00:00], missed 0, due 01.02:00:00"},
		{"catch-up of nothing", tube.Schedule{Timing: hourly, HasCatchUp: true}, "2026-03-01 01:00:11", "puts [], missed 1, due 01.02:00:00"},
		{"all", tube.Schedule{Timing: hourly, CatchUpAll: 3}, "2026-03-01 02:30:00", "puts [01.01:00:00 01.02:00:00], missed 0, due 01.03:00:00"},
		{"as many as are asked for", tube.Schedule{Timing: hourly, CatchUpAll: 3}, "2026-03-01 09:30:00", "puts [01.07:00:00 01.08:00:00 01.09:00:00], missed 6, due 01.10:00:00"},
		{"as many as are not too late", tube.Schedule{Timing: hourly, CatchUpAll: 3, CatchUp: 100 * time.Minute, HasCatchUp: true}, "2026-03-01 09:30:00", "puts [01.08:00:00 01.09:00:00], missed 7, due 01.10:00:00"},
		{"every", tube.Schedule{Timing: tube.Timing{Every: 90 * time.Second}}, "2026-03-01 00:04:00", "puts [01.00:03:00], missed 1, due 01.00:04:30"},
		{"until", tube.Schedule{Timing: tube.Timing{Cron: "0 * * * *", Until: instant(t, "2026-03-01 02:00:00")}}, "2026-03-01 02:00:01", "puts [01.02:00:00], missed 1, due never"},
		{"from", tube.Schedule{Timing: tube.Timing{Every: time.Hour, From: instant(t, "2026-03-01 10:15:00")}}, "2026-03-01 10:15:00", "puts [01.10:15:00], missed 0, due 01.11:15:00"},
		{"a month of seconds", tube.Schedule{Timing: tube.Timing{Every: time.Second}}, "2026-03-31 12:00:00", "puts [31.12:00:00], missed 10002, due 31.12:00:01"},
		{"a year of seconds, some of them", tube.Schedule{Timing: tube.Timing{Cron: "* * * * * *"}, CatchUpAll: 2}, "2027-03-01 12:00:00", "puts [01.11:59:59 01.12:00:00], missed 10003, due 01.12:00:01"},
		{"Mondays of years, far back", tube.Schedule{Timing: tube.Timing{Cron: "* * * * 1"}, CatchUp: 240 * time.Hour, HasCatchUp: true}, "2028-03-01 12:00:00", "puts [28.23:59:00], missed 11005, due 06.00:00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shown(t, begun(t, c.set, instant(t, midnight)), instant(t, c.now)); got != c.want {
				t.Errorf("\ngot  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestClockSetBack: nothing is put again when the clock of the store goes back, and after a jump forward
// only what catch-up allows.
func TestClockSetBack(t *testing.T) {
	s := begun(t, tube.Schedule{Timing: tube.Timing{Cron: "*/10 * * * *"}}, instant(t, "2026-03-01 10:00:00"))
	steps, _, err := examine(s, instant(t, "2026-03-01 10:10:00"))
	if err != nil || len(steps) != 1 {
		t.Fatal(steps, err)
	}
	after := steps[0].record
	for now, want := range map[string]string{
		"2026-03-01 09:10:00": "puts [], missed 0, due 01.10:20:00",
		"2026-03-01 10:19:59": "puts [], missed 0, due 01.10:20:00",
		"2026-03-02 10:10:03": "puts [02.10:10:00], missed 143, due 02.10:20:00",
	} {
		if got := shown(t, after, instant(t, now)); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", now, got, want)
		}
	}
}

// TestSpread: occurrences of schedules are distributed over the spread, each always at the same time.
func TestSpread(t *testing.T) {
	nominal := instant(t, "2026-03-01 10:00:00")
	var buckets [5]int
	for i := range 1000 {
		s := &tube.Schedule{Name: fmt.Sprint("s", i), Timing: tube.Timing{Spread: 5 * time.Minute}}
		due := dueOf(s, nominal)
		if late := time.Duration(due - nominal); late < 0 || late >= 5*time.Minute || late%time.Millisecond != 0 || due != dueOf(s, nominal) {
			t.Fatalf("%s is %v late", s.Name, late)
		}
		buckets[time.Duration(due-nominal)/time.Minute]++
	}
	for minute, n := range buckets {
		if n < 150 || n > 250 {
			t.Errorf("%d of 1000 in minute %d", n, minute)
		}
	}
}

// TestReplace: a schedule keeps its place unless its timing changes.
func TestReplace(t *testing.T) {
	start, later := instant(t, "2026-03-01 10:00:00"), instant(t, "2026-03-01 10:25:00")
	every := tube.Schedule{Timing: tube.Timing{Every: 10 * time.Minute}}
	old := begun(t, every, start)
	steps, _, _ := examine(old, instant(t, "2026-03-01 10:10:00"))
	old = steps[0].record

	same := every
	same.Name, same.Tube, same.Pri, same.Overlap = "s", "other", 7, tube.OverlapAllow
	record, err := replace(old, &same, later)
	if err != nil || record.Next != old.Next || record.Last != old.Last || record.Begin != start || record.Version != old.Version || record.Pri != 7 {
		t.Errorf("%+v, %v", record, err)
	}
	same.Every = 20 * time.Minute
	if record, err = replace(old, &same, later); err != nil || record.Next != later+tube.Instant(20*time.Minute) || record.Last != 0 || record.Begin != later {
		t.Errorf("%+v, %v", record, err)
	}
}

// TestWrongSchedules: the error says which field is wrong.
func TestWrongSchedules(t *testing.T) {
	daily := tube.Timing{Cron: "@daily"}
	for field, set := range map[string]tube.Schedule{
		"cron":   {Timing: tube.Timing{Cron: "61 * * * *"}},
		"every":  {Timing: tube.Timing{Every: time.Millisecond}},
		"tz":     {Timing: tube.Timing{Cron: "@daily", Zone: "Europe/Bärlin"}},
		"name":   {Name: strings.Repeat("n", MaxName+1), Timing: daily},
		"body":   {Body: make([]byte, 11), Timing: daily},
		"key":    {Timing: daily, Overlap: tube.OverlapAllow, Tags: &tube.Tags{Key: "k"}},
		"group":  {Timing: daily, Overlap: tube.OverlapBuffer, Tags: &tube.Tags{Group: "g"}},
		"jitter": {Timing: tube.Timing{Cron: "@daily", Spread: 25 * time.Hour}},
	} {
		wrong, _ := check(&set, 10).(*FieldError)
		if wrong == nil || wrong.Field != field || wrong.Error() == "" {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	for _, set := range []tube.Schedule{
		{Timing: tube.Timing{Cron: "0 0 30 2 *"}},
		{Timing: tube.Timing{Cron: "@daily", Until: instant(t, "2020-01-01 00:00:00")}},
	} {
		if _, err := replace(nil, &set, instant(t, "2026-03-01 00:00:00")); err == nil {
			t.Errorf("%+v: it never fires", set)
		}
	}
}

// TestPreview: the times are those of the zone, also over the end of summer time.
func TestPreview(t *testing.T) {
	list, err := Preview(&tube.Timing{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, 0, instant(t, "2026-03-27 12:00:00"), 3)
	var got []string
	for _, one := range list {
		got = append(got, one.Format(time.RFC3339))
	}
	const want = "2026-03-28T02:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"
	if strings.Join(got, " ") != want || err != nil {
		t.Errorf("got  %v, %v\nwant %s", got, err, want)
	}
}
