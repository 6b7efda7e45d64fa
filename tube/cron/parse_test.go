package cron

import (
	"strings"
	"testing"
	"time"
)

// TestParse pins what a field lists.
func TestParse(t *testing.T) {
	for expr, want := range map[string]Schedule{
		"* * * * *":               {seconds: 1, minutes: 1<<60 - 1, hours: 1<<24 - 1, days: 1<<32 - 2, months: 1<<13 - 2, weekdays: 1<<7 - 1, wildcard: true, bothDays: true},
		"5 0 1 1 0":               {seconds: 1, minutes: 1 << 5, hours: 1, days: 2, months: 2, weekdays: 1},
		"1-3,7 */6 10-20/5 * *":   {seconds: 1, minutes: 0x8e, hours: 1 | 1<<6 | 1<<12 | 1<<18, days: 1<<10 | 1<<15 | 1<<20, months: 1<<13 - 2, weekdays: 1<<7 - 1, wildcard: true, bothDays: true},
		"50/4 1 30/1 feb-DEC/5 6": {seconds: 1, minutes: 1<<50 | 1<<54 | 1<<58, hours: 2, days: 3 << 30, months: 1<<2 | 1<<7 | 1<<12, weekdays: 1 << 6},
		"7,9 0 0 1 * fri-sun":     {seconds: 1<<7 | 1<<9, minutes: 1, hours: 1, days: 2, months: 1<<13 - 2, weekdays: 1<<5 | 1<<6 | 1},
		"0 0 1 * sun-tue,4-7/2":   {seconds: 1, minutes: 1, hours: 1, days: 2, months: 1<<13 - 2, weekdays: 1 | 2 | 4 | 1<<4 | 1<<6},
		"0 0 1,* * */3":           {seconds: 1, minutes: 1, hours: 1, days: 1<<32 - 2, months: 1<<13 - 2, weekdays: 1 | 1<<3 | 1<<6, bothDays: true},
		"*/60 */24 1 * 3/2":       {seconds: 1, minutes: 1, hours: 1, days: 2, months: 1<<13 - 2, weekdays: 1<<3 | 1<<5, wildcard: true},
		"0 0 1 * 7/1":             {seconds: 1, minutes: 1, hours: 1, days: 2, months: 1<<13 - 2, weekdays: 1},
	} {
		if got := parse(t, expr); got != want {
			t.Errorf("%q: %+v, want %+v", expr, got, want)
		}
	}
}

// TestParseErrors: an error says which field is wrong, and what is expected there.
func TestParseErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"":                             `cron expression "" has 0 fields: want 5 fields: minute, hour, day of month, month, day of week; or 6 with the second first`,
		"* * * *":                      `cron expression "* * * *" has 4 fields: want 5`,
		"* * * * * * *":                `has 7 fields: want 5`,
		"60 * * * *":                   `minute "60": "60": want 0 to 59, a range (1-5), a list (1,3) or *, with or without a step (*/2)`,
		"60 0 * * * *":                 `second "60": "60": want 0 to 59`,
		"0 24 * * *":                   `hour "24": "24": want 0 to 23`,
		"0 0 0 * *":                    `day of month "0": "0": want 1 to 31`,
		"0 0 L * *":                    `day of month "l": "l": want 1 to 31`,
		"0 0 1 13 *":                   `month "13": "13": want 1 to 12 or jan to dec`,
		"0 0 1 january *":              `month "january": "january": want 1 to 12 or jan to dec`,
		"0 0 1 mon *":                  `month "mon": "mon": want 1 to 12 or jan to dec`,
		"0 0 * * 8":                    `day of week "8": "8": want 0 to 7 or sun to sat`,
		"0 0 * * fri#2":                `day of week "fri#2": "fri#2": want 0 to 7 or sun to sat`,
		"0 0 ? * 1":                    `day of month "?": "?": want 1 to 31`,
		"0 22-2 * * *":                 `hour "22-2": range "22-2" ends before it begins: want a list, such as 22-23,0-2`,
		"0 0 * * fri-mon":              `day of week "fri-mon": range "fri-mon" ends before it begins: want a list, such as fri-6,0-mon`,
		"*/0 * * * *":                  `minute "*/0": step "0": want 1 to 60`,
		"*/90 * * * *":                 `minute "*/90": step "90": want 1 to 60`,
		"0 0 * * */8":                  `day of week "*/8": step "8": want 1 to 7`,
		"*/ * * * *":                   `minute "*/": step "": want 1 to 60`,
		"1/2/3 * * * *":                `minute "1/2/3": step "2/3": want 1 to 60`,
		"1, * * * *":                   `minute "1,": "": want 0 to 59`,
		"1-2-3 * * * *":                `minute "1-2-3": "2-3": want 0 to 59`,
		"-5 * * * *":                   `minute "-5": "": want 0 to 59`,
		"+5 * * * *":                   `minute "+5": "+5": want 0 to 59`,
		"*-5 * * * *":                  `minute "*-5": "*": want 0 to 59`,
		"99999999999999999999 * * * *": `minute "99999999999999999999": "99999999999999999999": want 0 to 59`,
		"@reboot":                      `cron expression "@reboot": want @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually`,
		"@every 5m":                    `cron expression "@every 5m": want @hourly`,
		"TZ=UTC 0 0 * * *":             `second "tz=utc": "tz=utc": want 0 to 59`,
	} {
		s, err := Parse(expr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", expr, err, want)
		}
		if s != (Schedule{}) {
			t.Errorf("%q: %+v beside the error", expr, s)
		}
	}
}

// FuzzParse: an expression that is accepted has times that go forward, and its fields list
// them unless a change of the clock skipped them.
func FuzzParse(f *testing.F) {
	for _, expr := range []string{"* * * * *", "30 2 * * 1-5", "*/5 0-6/2,9 1,15 jan-mar fri", "@hourly", "0 0 29 2 *", "0 0 30 2 *", "0 0 22-3 * *", "59 59 23 31 12 sun"} {
		f.Add(expr, int64(1_700_000_000))
	}
	f.Add("15 2 * * *", int64(1_728_140_400)) // before a gap of Lord Howe
	loc := zone(f, "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, expr string, unix int64) {
		s, err := Parse(expr)
		if err != nil {
			return
		}
		if upper, err := Parse("  " + strings.ToUpper(expr) + "\t"); err != nil || upper != s {
			t.Errorf("in capitals: %+v, %v, want %+v", upper, err, s)
		}
		after := time.Unix(unix%(1<<33), 0)
		for range 5 {
			next, ok := s.Next(after, loc)
			if !ok {
				return
			}
			_, offset := next.Zone()
			_, before := next.Add(-time.Second).Zone()
			local := next.Unix() + int64(offset)
			listed := s.matchesDay(time.Unix(local, 0).UTC()) && fieldsMatch(s, local)
			if !next.After(after) || !listed && (s.wildcard || offset <= before) {
				t.Fatalf("%q after %v: %v", expr, after.In(loc), next)
			}
			after = next
		}
	})
}
