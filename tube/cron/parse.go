package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// field describes one field of an expression.
type field struct {
	name      string
	min, max  int
	names     []string // of the values from min on
	max7IsSun bool     // 7 is another way to write 0
}

var (
	monthNames   = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	weekdayNames = strings.Fields("sun mon tue wed thu fri sat")
)

// fields are the fields in their order. An expression of five fields begins with the minute.
var fields = [6]field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: monthNames},
	{name: "day of week", max: 7, names: weekdayNames, max7IsSun: true},
}

// shorthands are the expressions that have a name.
var shorthands = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

const (
	wantShorthand = "want @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"
	wantFields    = "want 5 fields: minute, hour, day of month, month, day of week; or 6 with the second first"
)

// Parse reads a cron expression: five fields (minute, hour, day of month, month, day of
// week), six with the second first, or one of @hourly, @daily, @midnight, @weekly, @monthly,
// @yearly and @annually. Without a second field the second is 0.
//
// A field is a list, separated by commas, of *, values and ranges (1-5), each of which may
// have a step (*/15, 8-18/2; 5/15 means 5-59/15). Months and days of the week have names of
// three letters. Sunday is 0 or 7. Case does not matter.
//
// As in cron, a day must match both the day of month and the day of week if one of these
// fields begins with *, and only one of them otherwise: "0 0 13 * fri" fires on every Friday
// and on every 13th.
//
// An error says which field is wrong and what is expected there. An expression that never
// fires, such as 30 February, is no error: see Next.
func Parse(expr string) (Schedule, error) {
	expr = strings.ToLower(strings.TrimSpace(expr))
	if strings.HasPrefix(expr, "@") {
		full, ok := shorthands[expr]
		if !ok {
			return Schedule{}, fmt.Errorf("cron expression %q: %s", expr, wantShorthand)
		}
		expr = full
	}
	texts := strings.Fields(expr)
	switch len(texts) {
	case len(fields):
	case len(fields) - 1:
		texts = append([]string{"0"}, texts...)
	default:
		return Schedule{}, fmt.Errorf("cron expression %q has %d fields: %s", expr, len(texts), wantFields)
	}
	var sets [len(fields)]uint64
	for i, text := range texts {
		set, err := fields[i].parse(text)
		if err != nil {
			return Schedule{}, fmt.Errorf("%s %q: %w", fields[i].name, text, err)
		}
		sets[i] = set
	}
	star := func(i int) bool { return strings.HasPrefix(texts[i], "*") }
	return Schedule{
		seconds: sets[0], minutes: sets[1], hours: uint32(sets[2]),
		days: uint32(sets[3]), months: uint16(sets[4]), weekdays: uint8(sets[5]),
		wildcard: star(0) || star(1) || star(2),
		bothDays: star(3) || star(5),
	}, nil
}

// parse returns the values that a field lists, as a bit set.
func (f *field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		values, err := f.parseItem(item)
		if err != nil {
			return 0, err
		}
		set |= values
	}
	if f.max7IsSun {
		set = set&^(1<<7) | set>>7
	}
	return set, nil
}

// parseItem reads *, a value or a range, with or without a step.
func (f *field) parseItem(item string) (set uint64, err error) {
	span, stepText, hasStep := strings.Cut(item, "/")
	first, last, err := f.parseSpan(span, hasStep)
	if err != nil {
		return 0, err
	}
	step := 1
	if hasStep {
		var ok bool
		if step, ok = number(stepText); !ok || step < 1 || step > f.size() {
			return 0, fmt.Errorf("step %q: want 1 to %d", stepText, f.size())
		}
	}
	for v := first; v <= last; v += step {
		set |= 1 << v
	}
	return set, nil
}

// parseSpan reads what stands before the step. A single value that has a step is the
// beginning of a range to the end of the field.
func (f *field) parseSpan(span string, hasStep bool) (first, last int, err error) {
	if span == "*" {
		return f.min, f.min + f.size() - 1, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	if first, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case !isRange && hasStep:
		return first, max(first, f.min+f.size()-1), nil
	case !isRange:
		return first, first, nil
	}
	if last, err = f.value(to); err != nil {
		return 0, 0, err
	}
	if f.max7IsSun && last == 0 && to == "sun" && first > 0 {
		last = 7 // fri-sun
	}
	if first > last {
		return 0, 0, fmt.Errorf("range %q ends before it begins: want a list, such as %s-%d,%d-%s", span, from, f.min+f.size()-1, f.min, to)
	}
	return first, last, nil
}

// value reads a number or a name.
func (f *field) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name {
			return f.min + i, nil
		}
	}
	v, ok := number(text)
	if !ok || v < f.min || v > f.max {
		return 0, fmt.Errorf("%q: want %s", text, f.want())
	}
	return v, nil
}

// want says what a value of the field looks like.
func (f *field) want() string {
	values := fmt.Sprintf("%d to %d", f.min, f.max)
	if len(f.names) > 0 {
		values += fmt.Sprintf(" or %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return values + ", a range (1-5), a list (1,3) or *, with or without a step (*/2)"
}

// size returns how many values the field has.
func (f *field) size() int {
	if f.max7IsSun {
		return f.max - f.min
	}
	return f.max - f.min + 1
}

// number reads decimal digits without a sign.
func number(text string) (int, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
