package protocol

import (
	"bytes"
	"slices"
	"time"

	"redstalk/tube/field"
)

// MaxTagLine is the longest line with tags, in bytes, including CRLF.
const MaxTagLine = 4 << 10

const (
	// MaxKey is the longest key of a job, in bytes.
	MaxKey = 128
	// MaxTime is the latest due time, in milliseconds since the Unix epoch. It is the limit
	// of nanoseconds in 64 bits.
	MaxTime = 1<<63/1_000_000 - 1
)

// Tags are what a put says about its job beyond beanstalkd, or set-policy about the jobs of a
// tube. Their strings are copies that the caller can keep.
type Tags struct {
	// Policy has the tags of set-policy, some of which a put and set-group have, too.
	field.Policy

	Delay time.Duration // whole milliseconds, at most MaxDuration; never together with At
	At    int64         // due time in milliseconds since the Unix epoch, at most MaxTime
	Key   string        // "": none

	Group  string        // put; 1 to MaxGroup bytes; "": none
	Weight uint32        // set-group: 1 to MaxWeight; 0: not set
	TTL    time.Duration // set-group: whole milliseconds, at most MaxDuration; 0: never

	Batch BatchTags // put

	Schedule *ScheduleTags // set-schedule, preview-schedule and copies; nil: none of them

	Meta      []Meta // put; 1 to MaxMeta
	Trace     string // put; "": none
	Reason    string // release, bury and copies: 1 to MaxReason bytes; "": none
	NoFailure bool   // release: never together with Reason

	Progress *string // touch: up to MaxProgress bytes; nil: none

	// Of copies. In milliseconds since the Unix epoch, at most MaxTime; ExpireAt is never together with
	// Expire, and FailedAt never without Reason; 0: not set.
	ExpireAt, FailedAt int64

	HasDelay, HasAt, HasTTL bool
}

// Tag is a row of the table of tags.
type Tag struct {
	Name string
	In   field.Commands // the commands that know it
	Kind string         // the word that stands for its value in texts; TIME: milliseconds since the Unix epoch
	Help string         // of one line, with the kind in backquotes

	// read parses the value, which is unquoted, and returns whether it is valid. Unless it was
	// quoted, it is printable ASCII without spaces.
	read func(t *Tags, value []byte) bool
}

const putAndSchedule = field.InPut | field.InSchedule

var tagTable = slices.Concat([]Tag{
	{"delay", putAndSchedule, "DURATION", "`DURATION` until the job is due", (*Tags).readDelay},
	{"at", field.InPut, "TIME", "`TIME` when it is due", (*Tags).readAt},
	{"key", putAndSchedule, "KEY", "`KEY`: the unique name of the job in its tube", (*Tags).readKey},
}, policyTags(), []Tag{
	{metaTag, putAndSchedule, "NAME=VALUE", "`NAME=VALUE` for the worker; up to 16 times", (*Tags).readMeta},
	{"trace", putAndSchedule, "TRACEPARENT", "W3C trace context, `TRACEPARENT`, for the worker", (*Tags).readTrace},
	{"expire-at", field.InCopy, "TIME", "`TIME` when it expires", (*Tags).readExpireAt},
	{"failed-at", field.InCopy, "TIME", "`TIME` of the last failure", (*Tags).readFailedAt},
	{"reason", field.InRelease | field.InBury | field.InCopy, "TEXT", "`TEXT` that says why the job has failed", (*Tags).readReason},
	{"progress", field.InTouch, "STATUS", "`STATUS`: a text that says how far the job is", (*Tags).readProgress},
	{"failure", field.InRelease, "no", "`no`: the release counts neither as a failure nor as a delivery", (*Tags).readFailure},
	{"group", putAndSchedule, "GROUP", "`GROUP` of the job in its tube", (*Tags).readGroup},
	{"batch", putAndSchedule, "BATCH", "`BATCH` of which the job is a member", (*Tags).readBatch},
	{"batch-ttl", putAndSchedule, "DURATION", "`DURATION` that the batch can stay unsealed, and is known after its end", (*Tags).readBatchTTL},
	{"after", putAndSchedule, "BATCH", "`BATCH` after which the job runs, if all its members are done", (*Tags).readAfter},
	{"after-all", putAndSchedule, "BATCH", "`BATCH` after which the job runs, also if members have failed", (*Tags).readAfterAll},
	{"weight", field.InGroup, "N", "`N` from 1 to 1000: the share of the group among the others", (*Tags).readWeight},
	{"ttl", field.InGroup, "DURATION", "`DURATION` after which this is forgotten if the group has no jobs; 0: never", (*Tags).readTTL},
	{"cron", field.InSchedule, "EXPRESSION", "cron `EXPRESSION` in double quotes: when jobs are put", (*Tags).readCron},
	{"every", field.InSchedule, "DURATION", "`DURATION` from one job to the next", (*Tags).readEvery},
	{"tz", field.InSchedule | field.InPreview, "ZONE", "time `ZONE` of the expression; UTC by default", (*Tags).readZone},
	{"overlap", field.InSchedule, "OVERLAP", "`OVERLAP`, if the job before is still there: skip, replace, allow or buffer-one", (*Tags).readOverlap},
	{"catch-up", field.InSchedule, "DURATION", "`DURATION` by which a job that was missed can be put late", (*Tags).readCatchUp},
	{"catch-up-all", field.InSchedule, "N", "put up to `N` jobs that were missed, not only the latest one", (*Tags).readCatchUpAll},
	{"from", field.InSchedule, "TIME", "`TIME` of the first job at the earliest", (*Tags).readFrom},
	{"until", field.InSchedule, "TIME", "`TIME` of the last job at the latest", (*Tags).readUntil},
	{"schedule", field.InCopy, "NAME", "`NAME` of the schedule that has put it", (*Tags).readScheduleName},
	{"nominal-ms", field.InCopy, "TIME", "`TIME` for which that was", (*Tags).readNominal},
})

// policyTags returns the rows of field.OfPolicy that are tags.
func policyTags() (tags []Tag) {
	for _, f := range field.OfPolicy {
		if f.In != 0 {
			tags = append(tags, Tag{f.Name, f.In, f.Value, f.Help, func(t *Tags, value []byte) bool { return f.Parse(&t.Policy, value) }})
		}
		if f.Name == spreadTag.Name {
			tags = append(tags, spreadTag)
		}
	}
	return tags
}

// spreadTag is the tag jitter of a schedule. Tags of one name are together.
var spreadTag = Tag{"jitter", field.InSchedule, "SPREAD", "`SPREAD` over which the jobs of different schedules are distributed, with a unit; without one, the jitter of their retries", (*Tags).readSpread}

// TagsIn returns the tags that a command knows.
func TagsIn(in field.Commands) (tags []Tag) {
	for _, tag := range tagTable {
		if tag.In&in != 0 {
			tags = append(tags, tag)
		}
	}
	return tags
}

// findTag returns the row of tagTable with a name, -1 if it is no tag of these commands.
func findTag(name []byte, in field.Commands) int {
	row, found := tagRows[string(name)]
	for ; found && row < len(tagTable) && string(name) == tagTable[row].Name; row++ {
		if tagTable[row].In&in != 0 {
			return row
		}
	}
	return -1
}

// tagRows are the rows of tagTable by their names. If several have the same name they are together, and
// it is the first one.
var tagRows = func() map[string]int {
	rows := make(map[string]int)
	for i, tag := range slices.Backward(tagTable) {
		rows[tag.Name] = i
	}
	return rows
}()

// cutTag skips spaces and cuts a tag off, whose value can be invalid. row is its row in tagTable, -1
// if it is no tag of these commands. The value is as it was sent.
func cutTag(args []byte, in field.Commands) (row int, value, rest []byte) {
	args = skipSpaces(args)
	name, _, found := bytes.Cut(args, []byte(":"))
	if row = findTag(name, in); row < 0 || !found {
		return -1, nil, nil
	}
	value = args[len(name)+1:]
	end := valueEnd(value, tagTable[row].Name == metaTag)
	return row, value[:end], value[end:]
}

// valueEnd returns where a value ends: at the first space that is not in quotes. With named a
// name and = come before it.
func valueEnd(b []byte, named bool) int {
	at := 0
	if named {
		name, _, _ := bytes.Cut(b, []byte(" "))
		at = bytes.IndexByte(name, '=') + 1
	}
	if at < len(b) && b[at] == '"' && (at > 0 || !named) {
		for at++; at < len(b) && b[at] != '"'; at++ {
			if b[at] == '\\' {
				at++
			}
		}
	}
	at = min(at, len(b))
	if space := bytes.IndexByte(b[at:], ' '); space >= 0 {
		return at + space
	}
	return len(b)
}

// read parses args. ok is false if they are something other than tags, each with spaces before it. If
// they are only tags, wrong says whether a value is invalid, a tag occurs twice, two tags contradict
// each other, or one needs another that is missing; else it is "".
func (t *Tags) read(args []byte, in field.Commands) (wrong string, ok bool) {
	*t = Tags{}
	seen := 0
	for len(args) > 0 {
		row, value := -1, []byte(nil)
		if args[0] == ' ' {
			row, value, args = cutTag(args, in)
		}
		switch {
		case row < 0:
			return "", false
		case wrong == "":
			wrong = t.readTag(&tagTable[row], value, seen&(1<<row) != 0)
			seen |= 1 << row
		}
	}
	if wrong == "" {
		wrong = t.contradiction()
	}
	return wrong, true
}

// readTag parses the value of a tag, and says what is wrong with it.
func (t *Tags) readTag(tag *Tag, value []byte, twice bool) (wrong string) {
	if twice && tag.Name != metaTag {
		return "the tag " + tag.Name + " occurs twice"
	}
	if plain, ok := tag.unquote(value); !ok || !tag.read(t, plain) {
		return tag.expected()
	}
	return ""
}

// contradiction says which tags contradict each other or need each other; "" if none do.
func (t *Tags) contradiction() string {
	switch {
	case t.HasDelay && t.HasAt:
		return "the tags delay and at contradict each other"
	case t.Expire != field.NoLifetime && t.ExpireAt != 0:
		return "the tags expire and expire-at contradict each other"
	case t.FailedAt != 0 && t.Reason == "":
		return "the tag failed-at needs the tag reason"
	case t.Push.URL == "" && t.Push != (field.Push{}):
		return "the tags push-concurrency, push-timeout and push-rate need the tag push"
	case t.Reason != "" && t.NoFailure:
		return "the tags reason and failure contradict each other"
	}
	if wrong := t.wrongBatch(); wrong != "" {
		return wrong
	}
	return t.wrongOccurrence()
}

// Clone returns a copy of t, which can be nil.
func (t *Tags) Clone() *Tags {
	if t == nil {
		return nil
	}
	clone := *t
	return &clone
}

func (t *Tags) readDelay(value []byte) bool {
	t.HasDelay = true
	return wholeDuration(&t.Delay, value)
}

func (t *Tags) readAt(value []byte) bool {
	t.HasAt = true
	return wholeTime(&t.At, value)
}

func (t *Tags) readExpireAt(value []byte) bool {
	return wholeTime(&t.ExpireAt, value) && t.ExpireAt > 0
}

func (t *Tags) readFailedAt(value []byte) bool {
	return wholeTime(&t.FailedAt, value) && t.FailedAt > 0
}

func (t *Tags) readKey(value []byte) bool {
	t.Key = string(value)
	return ValidKey(value)
}

// wholeDuration parses value, and returns whether it is a duration.
func wholeDuration(d *time.Duration, value []byte) (ok bool) {
	*d, ok = field.ParseDuration(value)
	return ok
}

// wholeTime parses value and returns whether it is a time, in milliseconds since the Unix epoch.
func wholeTime(at *int64, value []byte) bool {
	n, rest, ok := field.Digits(value)
	*at = int64(n)
	return ok && len(rest) == 0 && n <= MaxTime
}

// ValidKey reports whether a word can be the key of a job.
func ValidKey(key []byte) bool { return field.Printable(key, MaxKey) }

// smallNumber parses value and returns whether it is a number from 1 to limit.
func smallNumber(n *uint32, value []byte, limit uint64) bool {
	v, rest, ok := field.Digits(value)
	*n = uint32(v)
	return ok && len(rest) == 0 && 1 <= v && v <= limit
}
