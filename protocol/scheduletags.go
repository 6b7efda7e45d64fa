package protocol

import (
	"bytes"
	"redstalk/tube/field"
	"slices"
	"time"
)

// This file parses what concerns schedules.

const (
	// MaxSchedule is the longest name of a schedule, in bytes.
	MaxSchedule = 100
	// MaxCron is the longest cron expression, in bytes, and the longest name of a time zone.
	MaxCron = 256
	// MaxCatchUpAll is the largest value of the tag catch-up-all.
	MaxCatchUpAll = 1000
	// MaxPreview is the largest number of times of preview-schedule.
	MaxPreview = 1000
)

// ScheduleTags are the tags of set-schedule that other puts do not have. Their values are not checked as
// to what they mean: the expression, the zone, whether there is any such time.
type ScheduleTags struct {
	Cron       string        // an expression; "": none
	Every      time.Duration // whole milliseconds, at most MaxDuration; 0: not set
	Zone       string        // "": not set
	Overlap    Overlap
	CatchUp    time.Duration // whole milliseconds, at most MaxDuration
	HasCatchUp bool
	CatchUpAll uint32        // 1 to MaxCatchUpAll; 0: not set
	Spread     time.Duration // whole milliseconds, at most MaxDuration; 0: none

	// In milliseconds since the Unix epoch, at most MaxTime; 0: not set.
	From, Until int64

	// Of the copy of a job: the schedule that has put it, and the time for which that was, in
	// milliseconds since the Unix epoch; "": none has.
	Name    string
	Nominal int64
}

// Overlap is what happens if the job of a schedule is still there when the next one is due. The numbers
// are those of package tube.
type Overlap uint8

// OverlapWords are the values of the tag overlap, indexed by Overlap.
var OverlapWords = []string{"skip", "replace", "allow", "buffer-one"}

// ParseOverlap parses a value of the tag overlap.
func ParseOverlap(word string) (o Overlap, ok bool) {
	i := slices.Index(OverlapWords, word)
	return Overlap(max(i, 0)), i >= 0
}

// String returns the word.
func (o Overlap) String() string { return OverlapWords[o] }

// ValidSchedule reports whether a text can be the name of a schedule: that of a tube, of at most
// MaxSchedule bytes.
func ValidSchedule(name []byte) bool { return len(name) <= MaxSchedule && ValidName(name) }

// schedule returns the tags of a schedule, for a change.
func (t *Tags) schedule() *ScheduleTags {
	if t.Schedule == nil {
		t.Schedule = new(ScheduleTags)
	}
	return t.Schedule
}

func (t *Tags) readCron(value []byte) bool {
	t.schedule().Cron = string(value)
	return 0 < len(value) && len(value) <= MaxCron
}

func (t *Tags) readEvery(value []byte) bool {
	return wholeDuration(&t.schedule().Every, value) && t.Schedule.Every > 0
}

func (t *Tags) readZone(value []byte) bool {
	t.schedule().Zone = string(value)
	return field.Printable(value, MaxCron)
}

func (t *Tags) readOverlap(value []byte) (ok bool) {
	t.schedule().Overlap, ok = ParseOverlap(string(value))
	return ok
}

func (t *Tags) readCatchUp(value []byte) bool {
	t.schedule().HasCatchUp = true
	return wholeDuration(&t.Schedule.CatchUp, value)
}

func (t *Tags) readCatchUpAll(value []byte) bool {
	return smallNumber(&t.schedule().CatchUpAll, value, MaxCatchUpAll)
}

// readSpread reads the tag jitter of a schedule: with a unit it spreads the occurrences, without one it
// is that of other puts.
func (t *Tags) readSpread(value []byte) bool {
	if _, rest, ok := field.Digits(value); ok && len(rest) == 0 {
		return field.Named(field.OfPolicy, "jitter").Parse(&t.Policy, value)
	}
	return wholeDuration(&t.schedule().Spread, value)
}

func (t *Tags) readFrom(value []byte) bool {
	return wholeTime(&t.schedule().From, value) && t.Schedule.From > 0
}

func (t *Tags) readUntil(value []byte) bool {
	return wholeTime(&t.schedule().Until, value) && t.Schedule.Until > 0
}

func (t *Tags) readScheduleName(value []byte) bool {
	t.schedule().Name = string(value)
	return ValidSchedule(value)
}

func (t *Tags) readNominal(value []byte) bool {
	return wholeTime(&t.schedule().Nominal, value) && t.Schedule.Nominal > 0
}

// wrongOccurrence says what is wrong with the tags schedule and nominal-ms; "" if nothing is.
func (t *Tags) wrongOccurrence() string {
	if s := t.Schedule; s != nil && (s.Name == "") != (s.Nominal == 0) {
		return "the tags schedule and nominal-ms need each other"
	}
	return ""
}

// parseSetSchedule parses NAME TUBE PRI TTR SIZE TAG:VALUE... The body is skipped if the names or the tags
// are wrong.
func parseSetSchedule(c *Command, args []byte) (ok bool) {
	args, validName := c.readScheduleName(args)
	tubeName, args, validTube := readName(args)
	if c.Pri, args, ok = u32(args); !ok {
		return false
	}
	if c.TTR, args, ok = u32(args); !ok {
		return false
	}
	if c.size, args, ok = u32(args); !ok {
		return false
	}
	if !validName || !validTube {
		c.Key, c.Wrong, c.badTags = "", "the name of the schedule or of its tube is invalid", true
		return true
	}
	c.Name, c.List = tubeName, args
	if !c.readTags(args, field.InSchedule) && c.Wrong == "" {
		c.Wrong = "there is something other than tags"
	}
	if c.Tags != nil {
		if s := c.Tags.schedule(); (s.Cron == "") == (s.Every == 0) {
			c.Tags, c.Wrong = nil, "there must be one of the tags cron and every"
		}
	}
	c.badTags = c.Tags == nil
	return true
}

// readScheduleName parses the name of a schedule.
func (c *Command) readScheduleName(args []byte) (rest []byte, ok bool) {
	name, rest := nextWord(args)
	c.Key = string(name)
	return rest, ValidSchedule(name)
}

// parseSchedule parses NAME, which must end the line.
func parseSchedule(c *Command, args []byte) bool {
	rest, ok := c.readScheduleName(args)
	return ok && len(rest) == 0
}

// parseListSchedules parses [COUNT [CURSOR]], which must end the line.
func parseListSchedules(c *Command, args []byte) bool { return c.readListed(args, MaxSchedule) }

// parsePreview parses NAME N, or EXPRESSION N [tz:ZONE] with an expression in quotes, which must end the
// line. An expression becomes the tag cron.
func parsePreview(c *Command, args []byte) (ok bool) {
	args = skipSpaces(args)
	if !bytes.HasPrefix(args, []byte(`"`)) {
		if args, ok = c.readScheduleName(args); !ok {
			return false
		}
		c.MaxJobs, args, ok = u32(args)
		return ok && len(args) == 0 && 1 <= c.MaxJobs && c.MaxJobs <= MaxPreview
	}
	end := valueEnd(args, false)
	expression, ok := unquote(args[:end])
	if !ok || len(expression) == 0 || len(expression) > MaxCron {
		return false
	}
	cron := string(expression) // endTags must not find it changed
	if c.MaxJobs, args, ok = u32(args[end:]); !ok || c.MaxJobs < 1 || c.MaxJobs > MaxPreview || !c.endTags(args, field.InPreview) {
		return false
	}
	if c.Tags == nil {
		c.Tags = new(Tags)
	}
	c.Tags.schedule().Cron = cron
	return true
}
