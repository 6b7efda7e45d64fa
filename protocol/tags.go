package protocol

import (
	"bytes"
	"slices"
	"strconv"
	"time"
)

// MaxTagLine is the longest line with tags, in bytes, including CRLF.
const MaxTagLine = 4 << 10

const (
	// MaxKey is the longest key of a job, in bytes.
	MaxKey = 128
	// MaxRetry is the largest number of durations in a retry list.
	MaxRetry = 32
	// MaxDoubled is the largest COUNT of exp(FIRST,LONGEST,COUNT).
	MaxDoubled = 250
	// MaxDeliveries is the largest value of the tag max.
	MaxDeliveries = 1_000_000
	// MaxTime is the latest due time, in milliseconds since the Unix epoch. It is the limit
	// of nanoseconds in 64 bits.
	MaxTime = 1<<63/1_000_000 - 1
)

// Tags are what a put says about its job beyond beanstalkd, or set-policy about the jobs of a
// tube. Their strings are copies that the caller can keep.
type Tags struct {
	Delay       time.Duration // whole milliseconds, at most MaxDuration; never together with At
	At          int64         // due time in milliseconds since the Unix epoch, at most MaxTime
	Key         string        // "": none
	OnDuplicate OnDuplicate
	KeyTTL      time.Duration   // whole milliseconds, at most MaxDuration
	Retry       []time.Duration // whole milliseconds each; nil: not set, else 1 to MaxRetry
	Doubled     uint8           // Retry is FIRST and LONGEST, and this is COUNT, of exp(FIRST,LONGEST,COUNT); 0: Retry is a list
	Jitter      uint8           // per cent
	Expire      time.Duration   // whole milliseconds, at most MaxDuration; 0: never
	OnExpire    OnExpire
	Max         uint32 // 0: not set; at most MaxDeliveries
	Dead        string // "": not set; else valid by [ValidName]

	Group       string        // put; 1 to MaxGroup bytes; "": none
	GroupLimits Limits        // set-policy: of each group of the tube
	GroupOrder  GroupOrder    // set-policy
	Limits      Limits        // set-policy: of the tube; set-group: of the group
	Weight      uint32        // set-group: 1 to MaxWeight; 0: not set
	TTL         time.Duration // set-group: whole milliseconds, at most MaxDuration; 0: never

	QuotaJobs, QuotaBytes uint64 // set-policy
	Push                  Push   // set-policy

	Batch BatchTags // put

	Schedule *ScheduleTags // set-schedule, preview-schedule and copies; nil: none of them

	Meta      []Meta // put; 1 to MaxMeta
	Trace     string // put; "": none
	Reason    string // release, bury and copies: 1 to MaxReason bytes; "": none
	NoFailure bool   // release: never together with Reason

	// Of copies. In milliseconds since the Unix epoch, at most MaxTime; ExpireAt is never together with
	// Expire, and FailedAt never without Reason; 0: not set.
	ExpireAt, FailedAt int64

	HasDelay, HasAt, HasKeyTTL, HasJitter, HasExpire, HasTTL, HasQuotaJobs, HasQuotaBytes bool
}

// OnDuplicate is what a put does if a job of its tube already has the key. The numbers are those
// of package tube.
type OnDuplicate uint8

const (
	NotSaid OnDuplicate = iota
	Keep
	Replace
	Fail
)

// OnDuplicateWords are the words of the values in the protocol, from Keep on.
var OnDuplicateWords = []string{"keep", "replace", "fail"}

// ParseOnDuplicate parses one of the words.
func ParseOnDuplicate(word string) (d OnDuplicate, ok bool) {
	i := slices.Index(OnDuplicateWords, word)
	return Keep + OnDuplicate(i), i >= 0
}

// String returns the word, "" for NotSaid.
func (d OnDuplicate) String() string {
	if d == NotSaid || d > Fail {
		return ""
	}
	return OnDuplicateWords[d-Keep]
}

// OnExpire is what happens to a job when its time is over. The numbers are those of package tube.
type OnExpire uint8

// OnExpireWords are the words of the values in the protocol; 0 is not set.
var OnExpireWords = []string{"", "delete", "park"}

// ParseOnExpire parses one of the words.
func ParseOnExpire(word string) (a OnExpire, ok bool) {
	i := slices.Index(OnExpireWords, word)
	return OnExpire(i), i > 0
}

// TagSet is a set of the commands that have tags.
type TagSet uint16

const (
	TagsOfPut TagSet = 1 << iota
	TagsOfPolicy
	TagsOfRelease
	TagsOfBury
	TagsOfGroup

	// TagsOfCopy are further tags of a put, for the copy of a job of another server.
	TagsOfCopy

	TagsOfSchedule
	TagsOfPreview
)

// Tag is a row of the table of tags.
type Tag struct {
	Name string
	In   TagSet // the commands that know it
	Kind string // the word that stands for its value in texts; TIME: milliseconds since the Unix epoch
	Help string // of one line, with the kind in backquotes

	// read parses the value, which is unquoted, and returns whether it is valid. Unless it was
	// quoted, it is printable ASCII without spaces.
	read func(t *Tags, value []byte) bool
}

const (
	putAndSchedule = TagsOfPut | TagsOfSchedule
	putAndPolicy   = TagsOfPut | TagsOfPolicy
)

var tagTable = [...]Tag{
	{"delay", putAndSchedule, "DURATION", "`DURATION` until the job is due", (*Tags).readDelay},
	{"at", TagsOfPut, "TIME", "`TIME` when it is due", (*Tags).readAt},
	{"key", putAndSchedule, "KEY", "`KEY`: the unique name of the job in its tube", (*Tags).readKey},
	{"on-duplicate", putAndPolicy, "WHAT", "`WHAT` to do if a job has the key: keep, replace or fail", (*Tags).readOnDuplicate},
	{"key-ttl", putAndPolicy | TagsOfSchedule, "DURATION", "`DURATION` for which the key stays taken after the job is gone", (*Tags).readKeyTTL},
	{"retry", putAndPolicy | TagsOfSchedule, "DURATIONS", "`DURATIONS`, separated by commas: delays after the first failure, the second and so on; or exp(FIRST,LONGEST,COUNT)", (*Tags).readRetry},
	{"jitter", putAndPolicy, "PERCENT", "spread each delay by up to `PERCENT`, from 0 to 100", (*Tags).readJitter},
	{"jitter", TagsOfSchedule, "SPREAD", "`SPREAD` over which the jobs of different schedules are distributed, with a unit; without one, the jitter of their retries", (*Tags).readSpread},
	{"max", putAndPolicy | TagsOfSchedule, "N", "park the job after `N` deliveries", (*Tags).readMax},
	{"dead", putAndPolicy | TagsOfSchedule, "TUBE", "`TUBE` for the job when its retries or deliveries are used up", (*Tags).readDead},
	{"expire", putAndPolicy | TagsOfSchedule, "DURATION", "`DURATION` for which the job is worth doing, from when it is first due", (*Tags).readExpire},
	{"on-expire", putAndPolicy | TagsOfSchedule, "ACTION", "`ACTION` when that is over: delete or park", (*Tags).readOnExpire},
	{metaTag, putAndSchedule, "NAME=VALUE", "`NAME=VALUE` for the worker; up to 16 times", (*Tags).readMeta},
	{"trace", putAndSchedule, "TRACEPARENT", "W3C trace context, `TRACEPARENT`, for the worker", (*Tags).readTrace},
	{"expire-at", TagsOfCopy, "TIME", "`TIME` when it expires", (*Tags).readExpireAt},
	{"failed-at", TagsOfCopy, "TIME", "`TIME` of the last failure", (*Tags).readFailedAt},
	{"reason", TagsOfRelease | TagsOfBury | TagsOfCopy, "TEXT", "`TEXT` that says why the job has failed", (*Tags).readReason},
	{"failure", TagsOfRelease, "no", "`no`: the release counts neither as a failure nor as a delivery", (*Tags).readFailure},
	{"group", putAndSchedule, "GROUP", "`GROUP` of the job in its tube", (*Tags).readGroup},
	{"batch", putAndSchedule, "BATCH", "`BATCH` of which the job is a member", (*Tags).readBatch},
	{"batch-ttl", putAndSchedule, "DURATION", "`DURATION` that the batch can stay unsealed, and is known after its end", (*Tags).readBatchTTL},
	{"after", putAndSchedule, "BATCH", "`BATCH` after which the job runs, if all its members are done", (*Tags).readAfter},
	{"after-all", putAndSchedule, "BATCH", "`BATCH` after which the job runs, also if members have failed", (*Tags).readAfterAll},
	{"group-concurrency", TagsOfPolicy, "N", "at most `N` reserved jobs of each group", (*Tags).readGroupConcurrency},
	{"group-rate", TagsOfPolicy, "RATES", "at most so many reserves of jobs of each group, such as `RATES` of 100/m,1000/h", (*Tags).readGroupRate},
	{"group-order", TagsOfPolicy, "ORDER", "`ORDER` of the jobs of a group: fair, or strict for one at a time", (*Tags).readGroupOrder},
	{"concurrency", TagsOfPolicy | TagsOfGroup, "N", "at most `N` reserved jobs", (*Tags).readConcurrency},
	{"rate", TagsOfPolicy | TagsOfGroup, "RATES", "at most so many reserves, such as `RATES` of 100/m,1000/h", (*Tags).readRate},
	{"weight", TagsOfGroup, "N", "`N` from 1 to 1000: the share of the group among the others", (*Tags).readWeight},
	{"ttl", TagsOfGroup, "DURATION", "`DURATION` after which this is forgotten if the group has no jobs; 0: never", (*Tags).readTTL},
	{"quota-jobs", TagsOfPolicy, "N", "at most `N` jobs in the tube", (*Tags).readQuotaJobs},
	{"quota-bytes", TagsOfPolicy, "N", "at most `N` bytes in the bodies of its jobs", (*Tags).readQuotaBytes},
	{"push", TagsOfPolicy, "URL", "`URL` to which the jobs are sent", (*Tags).readPush},
	{"push-concurrency", TagsOfPolicy, "N", "at most `N` concurrent calls of each instance", (*Tags).readPushConcurrency},
	{"push-timeout", TagsOfPolicy, "DURATION", "`DURATION` that a call may take", (*Tags).readPushTimeout},
	{"push-rate", TagsOfPolicy, "RATE", "`RATE` of calls at most, such as 100/s", (*Tags).readPushRate},
	{"cron", TagsOfSchedule, "EXPRESSION", "cron `EXPRESSION` in double quotes: when jobs are put", (*Tags).readCron},
	{"every", TagsOfSchedule, "DURATION", "`DURATION` from one job to the next", (*Tags).readEvery},
	{"tz", TagsOfSchedule | TagsOfPreview, "ZONE", "time `ZONE` of the expression; UTC by default", (*Tags).readZone},
	{"overlap", TagsOfSchedule, "OVERLAP", "`OVERLAP`, if the job before is still there: skip, replace, allow or buffer-one", (*Tags).readOverlap},
	{"catch-up", TagsOfSchedule, "DURATION", "`DURATION` by which a job that was missed can be put late", (*Tags).readCatchUp},
	{"catch-up-all", TagsOfSchedule, "N", "put up to `N` jobs that were missed, not only the latest one", (*Tags).readCatchUpAll},
	{"from", TagsOfSchedule, "TIME", "`TIME` of the first job at the earliest", (*Tags).readFrom},
	{"until", TagsOfSchedule, "TIME", "`TIME` of the last job at the latest", (*Tags).readUntil},
	{"schedule", TagsOfCopy, "NAME", "`NAME` of the schedule that has put it", (*Tags).readScheduleName},
	{"nominal-ms", TagsOfCopy, "TIME", "`TIME` for which that was", (*Tags).readNominal},
}

// TagsIn returns the tags that a command knows.
func TagsIn(in TagSet) (tags []Tag) {
	for _, tag := range tagTable {
		if tag.In&in != 0 {
			tags = append(tags, tag)
		}
	}
	return tags
}

// findTag returns the row of tagTable with a name, -1 if it is no tag of these commands.
func findTag(name []byte, in TagSet) int {
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
	for i, tag := range slices.Backward(tagTable[:]) {
		rows[tag.Name] = i
	}
	return rows
}()

// cutTag skips spaces and cuts a tag off, whose value can be invalid. row is its row in tagTable, -1
// if it is no tag of these commands. The value is as it was sent.
func cutTag(args []byte, in TagSet) (row int, value, rest []byte) {
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
func (t *Tags) read(args []byte, in TagSet) (wrong string, ok bool) {
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
	case t.HasExpire && t.ExpireAt != 0:
		return "the tags expire and expire-at contradict each other"
	case t.FailedAt != 0 && t.Reason == "":
		return "the tag failed-at needs the tag reason"
	case t.Push.URL == "" && t.Push != (Push{}):
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

func (t *Tags) readOnDuplicate(value []byte) bool {
	var ok bool
	t.OnDuplicate, ok = ParseOnDuplicate(string(value))
	return ok
}

func (t *Tags) readKeyTTL(value []byte) bool {
	t.HasKeyTTL = true
	return wholeDuration(&t.KeyTTL, value)
}

func (t *Tags) readRetry(value []byte) (ok bool) {
	t.Retry, t.Doubled, ok = parseRetry(value)
	return ok
}

// ParseRetry parses the value of the tag retry: 1 to [MaxRetry] durations, or exp(FIRST,LONGEST,COUNT);
// then doubled is COUNT, and waits has the other two.
func ParseRetry(word string) (waits []time.Duration, doubled uint8, ok bool) {
	return parseRetry([]byte(word))
}

func parseRetry(value []byte) (waits []time.Duration, doubled uint8, ok bool) {
	args, exp := bytes.CutPrefix(value, []byte("exp("))
	if !exp {
		waits, ok = parseDurations(value)
		return waits, 0, ok
	}
	args, closed := bytes.CutSuffix(args, []byte(")"))
	comma := bytes.LastIndexByte(args, ',')
	if !closed || comma < 0 {
		return nil, 0, false
	}
	var count uint32
	waits, ok = parseDurations(args[:comma])
	ok = ok && smallNumber(&count, args[comma+1:], MaxDoubled) && len(waits) == 2 && 0 < waits[0] && waits[0] <= waits[1]
	return waits, uint8(count), ok
}

// RetryText formats the value of the tag retry.
func RetryText(waits []time.Duration, doubled uint8) string {
	if doubled > 0 {
		return "exp(" + Durations(waits) + "," + strconv.Itoa(int(doubled)) + ")"
	}
	return Durations(waits)
}

func (t *Tags) readJitter(value []byte) bool {
	var n uint64
	ok := wholeNumber(&n, value)
	t.Jitter, t.HasJitter = uint8(n), true
	return ok && n <= 100
}

// parseDurations parses 1 to MaxRetry durations, separated by commas.
func parseDurations(value []byte) (all []time.Duration, ok bool) {
	n := 1 + bytes.Count(value, []byte(","))
	if n > MaxRetry {
		return nil, false
	}
	all = make([]time.Duration, n)
	for i := range all {
		var one []byte
		one, value, _ = bytes.Cut(value, []byte(","))
		if !wholeDuration(&all[i], one) {
			return nil, false
		}
	}
	return all, true
}

func (t *Tags) readExpire(value []byte) bool {
	t.HasExpire = true
	return wholeDuration(&t.Expire, value)
}

func (t *Tags) readOnExpire(value []byte) (ok bool) {
	t.OnExpire, ok = ParseOnExpire(string(value))
	return ok
}

func (t *Tags) readMax(value []byte) bool {
	n, rest, ok := digits(value)
	t.Max = uint32(n)
	return ok && len(rest) == 0 && 1 <= n && n <= MaxDeliveries
}

func (t *Tags) readDead(value []byte) bool {
	t.Dead = string(value)
	return ValidName(value)
}

func (t *Tags) readQuotaJobs(value []byte) bool {
	t.HasQuotaJobs = true
	return wholeNumber(&t.QuotaJobs, value)
}

func (t *Tags) readQuotaBytes(value []byte) bool {
	t.HasQuotaBytes = true
	return wholeNumber(&t.QuotaBytes, value)
}

// wholeDuration parses value, which has no spaces, and returns whether it is a duration.
func wholeDuration(d *time.Duration, value []byte) bool {
	var rest []byte
	var ok bool
	*d, rest, ok = duration(value)
	return ok && len(rest) == 0
}

// wholeTime parses value and returns whether it is a time, in milliseconds since the Unix epoch.
func wholeTime(at *int64, value []byte) bool {
	n, rest, ok := digits(value)
	*at = int64(n)
	return ok && len(rest) == 0 && n <= MaxTime
}

// wholeNumber parses value and returns whether it is a number.
func wholeNumber(n *uint64, value []byte) bool {
	var rest []byte
	var ok bool
	*n, rest, ok = digits(value)
	return ok && len(rest) == 0
}

// ValidKey reports whether a word can be the key of a job.
func ValidKey(key []byte) bool { return printable(key, MaxKey) }

// printable reports whether a word has 1 to limit bytes, all of them printable ASCII and
// no spaces.
func printable(word []byte, limit int) bool {
	if len(word) == 0 || len(word) > limit {
		return false
	}
	for _, b := range word {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}
