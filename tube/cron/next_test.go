package cron

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// nextTests are times by hand, with the time zone database as the authority. After is local;
// where that is ambiguous it has an offset.
var nextTests = []struct {
	zone, expr, after string
	want              []string
}{
	// New York: 2024-03-10 02:00 -05:00 is 03:00 -04:00, 2024-11-03 02:00 -04:00 is 01:00 -05:00.
	{"America/New_York", "30 2 * * *", "2024-03-09T12:00:00", []string{"2024-03-10T03:00:00-04:00", "2024-03-11T02:30:00-04:00"}},
	{"America/New_York", "0,15,30 2 * * *", "2024-03-09T12:00:00", []string{"2024-03-10T03:00:00-04:00", "2024-03-11T02:00:00-04:00"}},
	{"America/New_York", "30 1-3 * * *", "2024-03-10T00:00:00", []string{"2024-03-10T01:30:00-05:00", "2024-03-10T03:00:00-04:00", "2024-03-10T03:30:00-04:00"}},
	{"America/New_York", "0 2,3 * * *", "2024-03-10T00:00:00", []string{"2024-03-10T03:00:00-04:00", "2024-03-11T02:00:00-04:00"}},
	{"America/New_York", "30 * * * *", "2024-03-10T00:45:00", []string{"2024-03-10T01:30:00-05:00", "2024-03-10T03:30:00-04:00"}},
	{"America/New_York", "0 */2 * * *", "2024-03-10T00:00:00", []string{"2024-03-10T04:00:00-04:00", "2024-03-10T06:00:00-04:00"}},
	{"America/New_York", "*/30 2 * * *", "2024-03-09T12:00:00", []string{"2024-03-11T02:00:00-04:00"}},
	{"America/New_York", "* 30 2 * * *", "2024-03-09T12:00:00", []string{"2024-03-11T02:30:00-04:00"}},
	{"America/New_York", "15 30 2 * * *", "2024-03-09T12:00:00", []string{"2024-03-10T03:00:00-04:00", "2024-03-11T02:30:15-04:00"}},
	{"America/New_York", "30 1 * * *", "2024-11-02T12:00:00", []string{"2024-11-03T01:30:00-04:00", "2024-11-04T01:30:00-05:00"}},
	{"America/New_York", "30 1 * * *", "2024-11-03T01:10:00-05:00", []string{"2024-11-04T01:30:00-05:00"}},
	{"America/New_York", "0 0-23 * * *", "2024-11-03T00:00:00", []string{"2024-11-03T01:00:00-04:00", "2024-11-03T02:00:00-05:00"}},
	{"America/New_York", "0 * * * *", "2024-11-03T00:00:00", []string{"2024-11-03T01:00:00-04:00", "2024-11-03T01:00:00-05:00", "2024-11-03T02:00:00-05:00"}},
	{"America/New_York", "*/30 1 * * *", "2024-11-03T00:00:00", []string{"2024-11-03T01:00:00-04:00", "2024-11-03T01:30:00-04:00", "2024-11-03T01:00:00-05:00", "2024-11-03T01:30:00-05:00", "2024-11-04T01:00:00-05:00"}},
	{"America/New_York", "@daily", "2024-03-09T12:00:00", []string{"2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00"}},

	// Berlin: 2026-03-29 02:00 +01:00 is 03:00 +02:00, 2024-10-27 03:00 +02:00 is 02:00 +01:00.
	{"Europe/Berlin", "30 2 * * 1-5", "2026-03-27T12:00:00", []string{"2026-03-30T02:30:00+02:00"}},
	{"Europe/Berlin", "30 2 * * sun", "2026-03-27T12:00:00", []string{"2026-03-29T03:00:00+02:00", "2026-04-05T02:30:00+02:00"}},
	{"Europe/Berlin", "0 2 29 3 *", "2026-01-01T00:00:00", []string{"2026-03-29T03:00:00+02:00", "2027-03-29T02:00:00+02:00"}},
	{"Europe/Berlin", "0 3 * * *", "2026-03-29T00:00:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"}},
	{"Europe/Berlin", "59 59 2 * * *", "2024-10-27T00:00:00", []string{"2024-10-27T02:59:59+02:00", "2024-10-28T02:59:59+01:00"}},
	{"Europe/Berlin", "0 3 * * *", "2024-10-27T00:00:00", []string{"2024-10-27T03:00:00+01:00"}},
	{"Europe/Berlin", "0 2 * * *", "2024-10-26T12:00:00", []string{"2024-10-27T02:00:00+02:00", "2024-10-28T02:00:00+01:00"}},
	// Years that only the rule of the zone covers, and 31 December of a leap year in them.
	{"Europe/Berlin", "30 2 * * *", "2060-03-27T12:00:00", []string{"2060-03-28T03:00:00+02:00", "2060-03-29T02:30:00+02:00"}},
	{"Europe/Berlin", "30 12 * * *", "2060-12-30T13:00:00", []string{"2060-12-31T12:30:00+01:00", "2061-01-01T12:30:00+01:00"}},
	{"America/Santiago", "30 23 31 12 *", "2060-12-30T13:00:00", []string{"2060-12-31T23:30:00-03:00", "2061-12-31T23:30:00-03:00"}},

	// São Paulo: 2018-11-04 00:00 -03:00 is 01:00 -02:00, 2018-02-18 00:00 -02:00 is 23:00 -03:00 of the 17th.
	{"America/Sao_Paulo", "0 0 * * *", "2018-11-02T12:00:00", []string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
	{"America/Sao_Paulo", "30 0 4 11 *", "2018-01-01T00:00:00", []string{"2018-11-04T01:00:00-02:00", "2019-11-04T00:30:00-03:00"}},
	{"America/Sao_Paulo", "@weekly", "2018-11-01T00:00:00", []string{"2018-11-04T01:00:00-02:00", "2018-11-11T00:00:00-02:00"}},
	{"America/Sao_Paulo", "0 1 * * *", "2018-11-03T12:00:00", []string{"2018-11-04T01:00:00-02:00", "2018-11-05T01:00:00-02:00"}},
	{"America/Sao_Paulo", "@hourly", "2018-11-03T22:30:00", []string{"2018-11-03T23:00:00-03:00", "2018-11-04T01:00:00-02:00"}},
	{"America/Sao_Paulo", "30 23 * * *", "2018-02-17T12:00:00", []string{"2018-02-17T23:30:00-02:00", "2018-02-18T23:30:00-03:00"}},
	{"America/Sao_Paulo", "0 0 18 2 *", "2018-01-01T00:00:00", []string{"2018-02-18T00:00:00-03:00"}},
	{"America/Sao_Paulo", "30 * * * *", "2018-02-17T23:00:00-02:00", []string{"2018-02-17T23:30:00-02:00", "2018-02-17T23:30:00-03:00", "2018-02-18T00:30:00-03:00"}},

	// Santiago: 2024-09-08 00:00 -04:00 is 01:00 -03:00, 2024-04-07 00:00 -03:00 is 23:00 -04:00 of the 6th.
	{"America/Santiago", "0 0 * * *", "2024-09-07T12:00:00", []string{"2024-09-08T01:00:00-03:00", "2024-09-09T00:00:00-03:00"}},
	{"America/Santiago", "15 0 8 * *", "2024-09-01T12:00:00", []string{"2024-09-08T01:00:00-03:00", "2024-10-08T00:15:00-03:00"}},
	{"America/Santiago", "45 23 * * sat", "2024-04-05T12:00:00", []string{"2024-04-06T23:45:00-03:00", "2024-04-13T23:45:00-04:00"}},

	// Lord Howe: 2024-10-06 02:00 +10:30 is 02:30 +11:00, 2024-04-07 02:00 +11:00 is 01:30 +10:30.
	{"Australia/Lord_Howe", "15 2 * * *", "2024-10-05T12:00:00", []string{"2024-10-06T02:30:00+11:00", "2024-10-07T02:15:00+11:00"}},
	{"Australia/Lord_Howe", "0,30 2 * * *", "2024-10-05T12:00:00", []string{"2024-10-06T02:30:00+11:00", "2024-10-07T02:00:00+11:00"}},
	{"Australia/Lord_Howe", "*/15 * * * *", "2024-10-06T01:45:00", []string{"2024-10-06T02:30:00+11:00", "2024-10-06T02:45:00+11:00"}},
	{"Australia/Lord_Howe", "45 1 * * *", "2024-04-06T12:00:00", []string{"2024-04-07T01:45:00+11:00", "2024-04-08T01:45:00+10:30"}},
	{"Australia/Lord_Howe", "15 1 * * *", "2024-04-06T12:00:00", []string{"2024-04-07T01:15:00+11:00", "2024-04-08T01:15:00+10:30"}},
	{"Australia/Lord_Howe", "0,45 * * * *", "2024-04-07T01:00:00", []string{"2024-04-07T01:45:00+11:00", "2024-04-07T01:45:00+10:30", "2024-04-07T02:00:00+10:30"}},

	// Troll skips and repeats two hours: 2024-03-31 01:00 +00:00 is 03:00 +02:00.
	{"Antarctica/Troll", "30 1,2 * * *", "2024-03-30T12:00:00", []string{"2024-03-31T03:00:00+02:00", "2024-04-01T01:30:00+02:00"}},
	{"Antarctica/Troll", "30 1,2 * * *", "2024-10-26T12:00:00", []string{"2024-10-27T01:30:00+02:00", "2024-10-27T02:30:00+02:00", "2024-10-28T01:30:00+00:00"}},

	// Kiritimati skipped 1994-12-31, Apia 2011-12-30; Kwajalein repeated 1969-09-30.
	{"Pacific/Kiritimati", "0 9 * * *", "1994-12-29T12:00:00", []string{"1994-12-30T09:00:00-10:00", "1995-01-01T09:00:00+14:00"}},
	{"Pacific/Kiritimati", "0 0 31 * *", "1994-12-01T00:00:00", []string{"1995-01-31T00:00:00+14:00"}},
	{"Pacific/Kiritimati", "0 * * * *", "1994-12-30T22:30:00", []string{"1994-12-30T23:00:00-10:00", "1995-01-01T00:00:00+14:00"}},
	{"Pacific/Apia", "0 9 * * *", "2011-12-28T12:00:00", []string{"2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00"}},
	{"Pacific/Apia", "0 9 * * fri", "2011-12-28T12:00:00", []string{"2012-01-06T09:00:00+14:00"}},
	{"Pacific/Apia", "0 0 31 * *", "2011-12-28T12:00:00", []string{"2011-12-31T00:00:00+14:00"}},
	{"Pacific/Kwajalein", "0 9 * * *", "1969-09-29T12:00:00", []string{"1969-09-30T09:00:00+11:00", "1969-09-30T09:00:00-12:00"}},

	// 29 February, ends of months, and both day fields.
	{"UTC", "0 0 29 2 *", "2023-01-01T00:00:00", []string{"2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"}},
	{"UTC", "0 0 29 2 *", "2096-02-29T00:00:00", []string{"2104-02-29T00:00:00Z"}},
	{"Europe/Berlin", "59 23 29 2 *", "2096-02-29T23:59:00", []string{"2104-02-29T23:59:00+01:00"}},
	{"UTC", "0 0 29 2 *", "1999-12-31T00:00:00", []string{"2000-02-29T00:00:00Z"}},
	{"UTC", "0 0 30 2 *", "2024-01-01T00:00:00", []string{"never"}},
	{"America/New_York", "0 0 31 2,4,6,9,11 *", "2024-01-01T00:00:00", []string{"never"}},
	{"Australia/Lord_Howe", "* * * 31 11 *", "2024-01-01T00:00:00", []string{"never"}},
	{"UTC", "0 0 31 * *", "2024-01-31T00:00:00", []string{"2024-03-31T00:00:00Z", "2024-05-31T00:00:00Z", "2024-07-31T00:00:00Z", "2024-08-31T00:00:00Z"}},
	{"UTC", "30 12 30,31 1,2 *", "2024-01-30T12:30:00", []string{"2024-01-31T12:30:00Z", "2025-01-30T12:30:00Z"}},
	{"UTC", "59 59 23 31 12 *", "2024-01-01T00:00:00", []string{"2024-12-31T23:59:59Z", "2025-12-31T23:59:59Z"}},
	{"UTC", "0 0 13 * fri", "2024-09-01T00:00:00", []string{"2024-09-06T00:00:00Z", "2024-09-13T00:00:00Z", "2024-09-20T00:00:00Z", "2024-09-27T00:00:00Z", "2024-10-04T00:00:00Z", "2024-10-11T00:00:00Z", "2024-10-13T00:00:00Z"}},
	{"UTC", "0 0 */2 * mon", "2024-09-01T00:00:00", []string{"2024-09-09T00:00:00Z", "2024-09-23T00:00:00Z"}},
	{"UTC", "0 0 1-7 * */7", "2024-09-01T00:00:00", []string{"2024-10-06T00:00:00Z"}},
	{"UTC", "0 0 * * 7", "2024-09-01T00:00:00", []string{"2024-09-08T00:00:00Z"}},
	{"UTC", "0 0 15 * *", "2024-09-01T00:00:00", []string{"2024-09-15T00:00:00Z", "2024-10-15T00:00:00Z"}},
	{"UTC", "0 0 29 2 */6", "2041-01-01T00:00:00", []string{"2048-02-29T00:00:00Z"}}, // a Saturday; 2044 a Monday
	{"UTC", "*/20 10 * * * *", "2024-09-01T00:10:20", []string{"2024-09-01T00:10:40Z", "2024-09-01T01:10:00Z"}},
	{"UTC", "* * * * *", "2024-12-31T23:59:59.999", []string{"2025-01-01T00:00:00Z", "2025-01-01T00:01:00Z"}},
	{"UTC", "* * * * * *", "1969-12-31T23:59:58.5", []string{"1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"}},
	{"Asia/Kathmandu", "0 12 * * *", "2024-01-01T00:00:00", []string{"2024-01-01T12:00:00+05:45"}},
	{"Africa/Casablanca", "30 2 * * *", "2024-03-09T12:00:00", []string{"2024-03-10T02:30:00+01:00", "2024-03-11T02:30:00+00:00"}}, // 03:00 was 02:00
	{"Africa/Casablanca", "30 2 * * *", "2024-04-13T12:00:00", []string{"2024-04-14T03:00:00+01:00"}},                              // 02:00 was 03:00
}

func TestNext(t *testing.T) {
	for _, test := range nextTests {
		loc := zone(t, test.zone)
		after := parseTime(t, test.after, loc)
		for i, want := range test.want {
			next, ok := parse(t, test.expr).Next(after, loc)
			got := next.Format(time.RFC3339)
			if want = strings.Replace(want, "+00:00", "Z", 1); !ok {
				got = "never"
			}
			if got != want {
				t.Errorf("%s, %q after %s: time %d is %s, want %s", test.zone, test.expr, test.after, i+1, got, want)
				break
			}
			if ok && next.Location() != loc {
				t.Errorf("%s: the time is in %v", test.zone, next.Location())
			}
			after = next
		}
	}
}

// TestNextAnyLocation: the zone of the given time does not matter.
func TestNextAnyLocation(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	after := time.Date(2026, 3, 29, 0, 0, 0, 0, berlin)
	want, _ := parse(t, "30 2 * * *").Next(after, berlin)
	got, _ := parse(t, "30 2 * * *").Next(after.In(zone(t, "Pacific/Apia")), berlin)
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestEvery(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	anchor := time.Date(2026, 3, 28, 12, 0, 0, 0, berlin)
	for _, test := range []struct {
		period      time.Duration
		after, want string
	}{
		{24 * time.Hour, "2026-03-28T12:00:00", "2026-03-29T13:00:00+02:00"}, // elapsed time
		{24 * time.Hour, "2026-03-28T11:59:59.9999", "2026-03-28T12:00:00+01:00"},
		{24 * time.Hour, "2026-03-20T12:30:00", "2026-03-21T12:00:00+01:00"}, // before the anchor
		{90 * time.Minute, "2026-03-29T01:00:00", "2026-03-29T01:30:00+01:00"},
		{90 * time.Minute, "2026-03-29T01:30:00", "2026-03-29T04:00:00+02:00"},
		{1500 * time.Millisecond, "2026-03-28T12:00:00.0001", "2026-03-28T12:00:01.5+01:00"},
		{1500 * time.Millisecond, "1960-01-01T00:00:00.0005", "1960-01-01T00:00:01.5+01:00"},
	} {
		s, err := Every(test.period, anchor)
		if err != nil {
			t.Fatal(err)
		}
		next, ok := s.Next(parseTime(t, test.after, berlin), berlin)
		if got := next.Format(time.RFC3339Nano); !ok || got != test.want {
			t.Errorf("every %v after %s: %s, %t, want %s", test.period, test.after, got, ok, test.want)
		}
	}
	for _, period := range []time.Duration{-time.Hour, 0, time.Second - 1, time.Second + 1} {
		if _, err := Every(period, anchor); err == nil || !strings.Contains(err.Error(), "want at least 1s") {
			t.Errorf("every %v: %v", period, err)
		}
	}
}

// TestEqual: what has the same times by the same rules is equal.
func TestEqual(t *testing.T) {
	for _, same := range [][2]string{
		{"@daily", "0 0 * * *"}, {"@midnight", "0 0 0 * * *"}, {"@hourly", "00 */1 * * *"}, {"0 0 * * 7", "@weekly"},
		{"@annually", "@yearly"}, {"0 0 1 JAN *", "@Yearly"}, {" 0  0\t1 * * ", "@monthly"}, {"0 0 * * 5-7", "0 0 * * sun,fri,6"},
	} {
		if parse(t, same[0]) != parse(t, same[1]) {
			t.Errorf("%q and %q differ", same[0], same[1])
		}
	}
	if parse(t, "0 * * * *") == parse(t, "0 0-23 * * *") {
		t.Error("a wildcard schedule is equal to a fixed-time schedule")
	}
	first, _ := Every(time.Hour, time.Unix(0, 0))
	second, _ := Every(time.Hour, time.Unix(7200, 0))
	if first != second {
		t.Error("anchors at a distance of two periods make a difference")
	}
	if at, ok := (Schedule{}).Next(time.Unix(0, 0), time.UTC); ok {
		t.Errorf("the zero Schedule fires at %v", at)
	}
}

// TestNextAgainstClock compares Next around changes of the clock with a clock that runs
// minute by minute.
func TestNextAgainstClock(t *testing.T) {
	changes := []struct{ zone, at string }{
		{"America/New_York", "2024-03-10T07:00:00Z"}, {"America/New_York", "2024-11-03T06:00:00Z"},
		{"America/Sao_Paulo", "2018-11-04T03:00:00Z"}, {"America/Sao_Paulo", "2018-02-18T02:00:00Z"},
		{"Australia/Lord_Howe", "2024-10-05T15:30:00Z"}, {"Australia/Lord_Howe", "2024-04-06T15:00:00Z"},
		{"Antarctica/Troll", "2024-03-31T01:00:00Z"}, {"Antarctica/Troll", "2024-10-27T01:00:00Z"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z"}, {"Pacific/Kwajalein", "1969-09-30T13:00:00Z"},
		{"Europe/Berlin", "2060-03-28T01:00:00Z"}, {"Europe/Berlin", "2060-12-31T00:00:00Z"},
	}
	random := rand.New(rand.NewPCG(47, 3))
	for range 2000 {
		change := changes[random.IntN(len(changes))]
		loc, at := zone(t, change.zone), parseTime(t, change.at, time.UTC)
		after := at.Add(time.Duration(random.IntN(8*3600)-5*3600) * time.Second)
		hour := at.In(loc).Hour() + random.IntN(7) - 4
		expr := fmt.Sprintf("%s%d %s * * *", []string{"", "0-", "*/"}[random.IntN(3)], 1+random.IntN(59),
			[]string{"*", "*/2", fmt.Sprint((hour + 24) % 24), "0-23", fmt.Sprintf("%d,23", max(0, hour%24))}[random.IntN(5)])
		s := parse(t, expr)
		got, ok := s.Next(after, loc)
		want := clockNext(s, after, loc, 6*time.Hour)
		if !ok || want.IsZero() && got.Sub(after) <= 6*time.Hour || !want.IsZero() && !got.Equal(want) {
			t.Errorf("%s, %q after %v: %v, want %v", change.zone, expr, after.In(loc), got, want)
		}
	}
}

// clockNext returns the first time that a running clock finds in the given span after a
// time, or the zero Time. The clock starts four hours earlier to know which local times it
// has shown.
func clockNext(s Schedule, after time.Time, loc *time.Location, span time.Duration) time.Time {
	const lead, minute = 4 * 3600, 60
	last, reached := int64(0), int64(0) // what the clock showed last, and the latest it has shown
	for at := after.Unix()/minute*minute - lead; at <= after.Add(span).Unix(); at += minute {
		now := time.Unix(at, 0).In(loc)
		_, offset := now.Zone()
		local := at + int64(offset)
		if step := local - last - minute; step >= largeShift || step <= -largeShift {
			reached = local - minute
		}
		fires := fieldsMatch(s, local)
		if !s.wildcard {
			fires = false
			for skipped := reached + minute; skipped <= local; skipped += minute {
				fires = fires || fieldsMatch(s, skipped)
			}
		}
		last, reached = local, max(reached, local)
		if fires && at > after.Unix() {
			return now
		}
	}
	return time.Time{}
}

// fieldsMatch reports whether a schedule of all days lists a local time.
func fieldsMatch(s Schedule, local int64) bool {
	t := time.Unix(local, 0).UTC()
	return s.hours>>t.Hour()&1 == 1 && s.minutes>>t.Minute()&1 == 1 && s.seconds>>t.Second()&1 == 1
}

// TestNextAllocates: a cache of times is not needed.
func TestNextAllocates(t *testing.T) {
	loc, after := zone(t, "Europe/Berlin"), time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	s := parse(t, "30 2 * * 1-5")
	if n := testing.AllocsPerRun(100, func() { s.Next(after, loc) }); n > 0 {
		t.Errorf("Next allocates %v times", n)
	}
}

// TestSlowest bounds the time of the slowest expressions. It compares with 40 steps of a
// clock for each month of the years that are searched, which every search has to be below.
func TestSlowest(t *testing.T) {
	loc, after := zone(t, "America/Santiago"), time.Date(2060, 3, 27, 12, 0, 0, 0, time.UTC)
	fastest := func(f func()) (least time.Duration) {
		least = time.Hour
		for range 20 {
			start := time.Now()
			f()
			least = min(least, time.Since(start))
		}
		return least
	}
	limit := fastest(func() {
		for i := range 40 * 12 * searchYears {
			_ = time.Unix(int64(i)*secondsPerDay, 0).In(loc).Format(time.RFC3339)
		}
	})
	for _, expr := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 29 2 */7", "* * * 31 2,4,6,9,11 */7"} {
		s := parse(t, expr)
		if took := fastest(func() { s.Next(after, loc) }); took > limit {
			t.Errorf("%q takes %v, want less than %v", expr, took, limit)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"* * * * *", "*/5 * * * *", "30 2 * * 1-5", "@monthly", "0 0 29 2 *", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *"} {
		for _, year := range []int{2026, 2060} {
			b.Run(fmt.Sprint(strings.ReplaceAll(expr, " ", "_"), "-", year), func(b *testing.B) {
				loc, after := zone(b, "Europe/Berlin"), time.Date(year, 3, 27, 12, 0, 0, 0, time.UTC)
				s := parse(b, expr)
				for b.Loop() {
					s.Next(after, loc)
				}
			})
		}
	}
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func parse(t testing.TB, expr string) Schedule {
	t.Helper()
	s, err := Parse(expr)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// parseTime reads a time with an offset, or a local one.
func parseTime(t *testing.T, text string, loc *time.Location) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.ParseInLocation("2006-01-02T15:04:05", text, loc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// all returns the times of a schedule in a year.
func all(s Schedule, year int, loc *time.Location) []time.Time {
	var times []time.Time
	at, ok := s.Next(time.Date(year, 1, 1, 0, 0, 0, -1, loc), loc)
	for ok && at.Year() == year {
		times = append(times, at)
		at, ok = s.Next(at, loc)
	}
	return slices.Clip(times)
}
