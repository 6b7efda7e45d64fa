package protocol

import (
	"fmt"
	"math"
	"redstalk/tube/field"
	"strings"
	"testing"
)

var (
	longKey   = strings.Repeat("k", MaxKey)
	longName  = strings.Repeat("n", MaxName)
	longBatch = strings.Repeat("b", MaxBatchName)
	longGroup = strings.Repeat("g", MaxGroup)
	longRetry = strings.TrimSuffix(strings.Repeat("1ms,", field.MaxRetry), ",")
)

// goodTags has valid tags of a put, and their meaning.
var goodTags = map[string]string{
	"delay:250ms":                         "delay=250ms",
	"delay:90":                            "delay=1m30s",
	"delay:0":                             "delay=0s",
	"delay:3650d":                         "delay=87600h0m0s",
	"at:0":                                "at=0",
	"at:001":                              "at=1",
	"at:9223372036853":                    "at=9223372036853",
	"key:a":                               "key=a",
	"key:a:b,c":                           "key=a:b,c",
	"key::":                               "key=:",
	"key:key:a":                           "key=key:a",
	"key:!~":                              "key=!~",
	"key:" + longKey:                      "key=" + longKey,
	"on-duplicate:keep":                   "on-duplicate=keep",
	"on-duplicate:replace":                "on-duplicate=replace",
	"on-duplicate:fail":                   "on-duplicate=fail",
	"key-ttl:36h":                         "key-ttl=36h0m0s",
	"retry:0":                             "retry=[0s]",
	"retry:2m,10m,10m,1h":                 "retry=[2m0s 10m0s 10m0s 1h0m0s]",
	"retry:" + longRetry:                  "retry=[" + strings.ReplaceAll(longRetry, ",", " ") + "]",
	"max:1":                               "max=1",
	"max:0001000000":                      "max=1000000",
	"dead:a":                              "dead=a",
	"dead:" + longName:                    "dead=" + longName,
	"max:3  dead:d   key:k":               "key=k max=3 dead=d",
	" key:k":                              "key=k",
	"group:a":                             "group=a",
	"group:a:b,c":                         "group=a:b,c",
	`group:"a b\n\"é\\"`:                  "group=a b\n\"é\\",
	`group:"a \" b" max:2`:                `max=2 group=a " b`,
	`group:"a" key:k`:                     "key=k group=a",
	"group:" + longGroup:                  "group=" + longGroup,
	"batch:a":                             "batch=a",
	"batch:a:b after:b":                   "batch=a:b after=b",
	`batch:"a" batch-ttl:90 after-all:!~`: "batch=a batch-ttl=1m30s after-all=!~",
	"after:a batch-ttl:1h delay:5":        "delay=5s batch-ttl=1h0m0s after=a",
	"batch:" + longBatch:                  "batch=" + longBatch,
	"key:delay:1 delay:1":                 "delay=1s key=delay:1",
	"key:k key-ttl:1 retry:1s,1m max:9 dead:d on-duplicate:keep at:7": "at=7 key=k on-duplicate=keep key-ttl=1s retry=[1s 1m0s] max=9 dead=d",
}

// wrongTags are tags with invalid values, and tags that contradict each other.
var wrongTags = []string{
	"delay:", "delay:1w", "delay:-1", "delay:1.5", "delay:3651d", "delay:ms", "delay:1m1", "delay:1,2", "delay:99999999999999999999",
	"delay:18446744073709551615ms", "delay:+1", "delay:1S", "delay:\t1",
	"at:", "at:x", "at:-1", "at:1s", "at:9223372036854", "at:32503680000000", "at:9007199254740992", "at:18446744073709551617",
	"key:", "key:" + longKey + "k", "key:\xff", "key:a\tmax:1", "key:\x7f", "key:é", "key:\n",
	"on-duplicate:", "on-duplicate:KEEP", "on-duplicate:kee", "on-duplicate:keepx",
	"key-ttl:", "key-ttl:x", "key-ttl:3651d",
	"retry:", "retry:,", "retry:1,", "retry:,1", "retry:1,,2", "retry:1,x", "retry:" + longRetry + ",1", "retry:1,3651d",
	"max:", "max:0", "max:1000001", "max:4294967297", "max:1s", "max:-1",
	"dead:", "dead:-a", "dead:a:b", "dead:" + longName + "n",
	"group:", `group:""`, `group:"a`, `group:"a"b`, "group:é", "group:\x7f", `group:"a` + "\t" + `"`, `group:"\x"`, `group:"` + "\xff" + `"`, "group:" + longGroup + "g",
	"batch:", "batch:é", `batch:"a b"`, "batch:" + longBatch + "b", "batch:a batch:a", "after:", "after:" + longBatch + "b", "after-all:", "batch-ttl:1h", "batch:a batch-ttl:0", "batch:a batch-ttl:x",
	"after:a after-all:b", "after-all:a after:a", "after:a after:a", "after:a batch:a", "batch:a after-all:a", "after:a at:5", "at:0 after-all:a",
	`group:"` + strings.Repeat("é", MaxGroup/2) + `g"`, "group:a group:b",
	"key:a key:a", "delay:1 delay:2", "max:1 dead:a max:1", "delay:1 at:1", "at:1 max:2 delay:1", "at:7 delay:0", "max:1 key:", "key: max:1",
}

// noTags are ends of put lines that are handled as in beanstalkd.
var noTags = []string{" ", "  ", " foo", " key", " key=a", "x", "\tkey", " 1", " after", " key ttl 5"}

// strangeTags are ends of put lines with words that look like tags and are none of a put, or that are in the wrong place.
var strangeTags = []string{
	" key:a ", " key:a  ", " key:a foo", " foo key:a", " foo key:", " key: foo", "key:a", "x key:a", "\tkey:a", " retries:5s", ` foo:"a b" 7`, " max=5 key:a",
	" Key:a", " quota-jobs:1", " quota-bytes:1", " :a", " :", " keys:a", " key\t:a", " kéy:a", " key:a key:a 1", " key : a", ` meta:a="b c" x`,
	" concurrency:1", " push:http://a", " rate:1", " weight:1", " ttl:1", " group-rate:1", " groups:a", " batches:a", " a:" + longName + longName,
}

func TestTags(t *testing.T) {
	for tags, want := range goodTags {
		check(t, "put 1 2 3 1 "+tags+"\r\na\r\n"+used+"\r\n", 5, `put 1 2 3 "a" `+want, used)
		check(t, "put 1 2 3 6 "+tags+"\r\nabcdef\r\n"+used+"\r\n", 5, "put JOB_TOO_BIG counted", used)
		check(t, "put 1 2 3 1 "+tags+"\r\nabc"+used+"\r\n", 5, "put EXPECTED_CRLF counted producer", used)
		check(t, "put 1 2 x 1 "+tags+"\r\nabc"+used+"\r\n", 5, "put BAD_FORMAT", used)
	}
}

// TestWrongTags checks that the body is skipped, whatever follows it.
func TestWrongTags(t *testing.T) {
	for _, tags := range wrongTags {
		line := "put 1 2 3 5 " + tags + "\r\n"
		check(t, line+"stats\r\n"+used+"\r\n", 5, "put BAD_FORMAT counted", used)
		check(t, line+"statsxx"+used+"\r\n", 5, "put BAD_FORMAT counted", used)
		check(t, line+"stats\r", 5)
		check(t, line+"stats\r\n"+used+"\r\n", 4, "put JOB_TOO_BIG counted", used)
	}
	check(t, "put 0 0 1 70000 max:0\r\n"+strings.Repeat("b", 70_002)+used+"\r\n", 1<<20, "put BAD_FORMAT counted", used)
	check(t, "put 0 0 1 0 max:0\r\n\r\n"+used+"\r\n", 1<<20, "put BAD_FORMAT counted", used)
}

// TestNoTags checks that a body is parsed as commands, unless it is too big.
func TestNoTags(t *testing.T) {
	for _, end := range noTags {
		check(t, "put 1 2 3 1"+end+"\r\nstats\r\n"+used+"\r\n", 5, "put BAD_FORMAT counted", "stats", used)
		check(t, "put 1 2 3 5"+end+"\r\nstats\r\n"+used+"\r\n", 4, "put JOB_TOO_BIG counted", used)
	}
}

// TestStrangeTags checks that no body is parsed as commands if its line has something like a tag, however
// wrong the line is.
func TestStrangeTags(t *testing.T) {
	const body = "\r\nstats\r\n" + used + "\r\n"
	for _, end := range strangeTags {
		check(t, "put 1 2 3 5"+end+body, 5, "put BAD_FORMAT counted", used)
		check(t, "put 1 2 3 5"+end+body, 4, "put JOB_TOO_BIG counted", used)
		check(t, "set-schedule a b 1 2 5"+end+body, 5, "set-schedule BAD_FORMAT counted", used)
		check(t, "put 1 2 3 x"+end[:min(len(end), 99)]+body, 5, "put BAD_FORMAT", "stats", used)
	}
	for _, line := range []string{
		"put 1 5s 3 5 key:a", "put -1 2 3 5 key:a", "put 1 2 4294967296 5 foo:a", "put key:a 1 2 3 5", "put 1 2 key:a 3 5", "put 1 2 3 key:a 5 max:7", "put  x  y  z  5  key:a",
		`put meta:a="1 2 3 4 5 6" 1 2 3 5`, `put foo:"1 2 3 4 5 6" 1 2 3 5`, "put 1 2 3 5 key:a\x00", "put 1 2 3 5\x00 key:a", "put 1 2 3 5 key:a\r", "put 1 2 3 5 meta:a=b\rdelete",
		"put 1 2 3 5 meta:a=" + strings.Repeat("x", MaxTagLine), "put 1 2 3 5" + strings.Repeat(" key:a", 1000), "put x 2 3 5" + strings.Repeat(" key:a", 1000),
		"set-schedule a b 1 2s 5 every:1h", "set-schedule a:b c 1 2s 5 every:1h", "set-schedule every:1h a b 1 2 5 x", "set-schedule a b 1 2 5 every:1h\x00",
		"set-schedule a b 1 2 5 every:1h meta:a=" + strings.Repeat("x", MaxTagLine),
	} {
		verb, _, _ := strings.Cut(line, " ")
		check(t, line+body, 5, verb+" BAD_FORMAT", used)
		check(t, line+body[:len("\r\nstats\r")], 5)
	}
	for _, line := range []string{"put 1 2 3 key:a", "put 1 2 3 4294967296 key:a", "put 1 2 3 -5 key:a", "put key:a"} { // there is no length
		check(t, line+body, 5, "put BAD_FORMAT", "stats", used)
	}
	check(t, "put 1 2 3 5 "+strings.Repeat("x", MaxTagLine)+":"+body, 5, bad, "stats", used)
}

// TestStrangeTagsAreNamed checks what the log says about words that are no tags of their line.
func TestStrangeTagsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"put 1 2 3 0 retries:5s": `there is no tag "retries"; did you mean retry?`, "put 1 2 3 0 key:a mxa:5": `there is no tag "mxa"; did you mean max?`,
		"put 1 2 3 0 unlike-any:5": `there is no tag "unlike-any"`, "put 1 2 3 0 quota-jobs:5": "the tag quota-jobs is one of other commands",
		"put 1 2 3 0 key:a max 5": `"max" is no tag: there is no colon`, "put 1 2 3 0key:a": "a space is missing before a tag", "put 1 2 3 0 key:a ": "there is a space after the last tag",
		"put 1 2s 3 0 key:a": "a number before the tags is malformed", "put 1 2 3 0 key:\x00": "the line has a NUL or a lone CR",
		"put 1 2 3 0 key:a x:" + strings.Repeat("x", MaxTagLine): "the line is too long",
		"set-schedule a b 1 2 0 evry:5":                          `there is no tag "evry"; did you mean every?`, "release 1 2 3 reasn:a": `there is no tag "reasn"; did you mean reason?`,
		"set-policy a retries:5": `there is no tag "retries"; did you mean retry?`, "put 1 2 3 0 junk": "",
	} {
		r := NewReader(strings.NewReader(line+"\r\n\r\n"), 5)
		var c Command
		if more(t, r, &c); c.Fault != BadFormat || c.Wrong != want {
			t.Errorf("%q: %v, %q, want %q", line[:min(len(line), 50)], c.Fault, c.Wrong, want)
		}
	}
}

// TestLongPutLine checks that only a put line with tags can be longer than others.
func TestLongPutLine(t *testing.T) {
	fill := func(line string, size int) string {
		return strings.Replace(line, "{}", strings.Repeat("0", size-len(line)+len("{}")-len(crlf)), 1) + "\r\nstats\r\n"
	}
	for _, size := range []int{MaxLine - 1, MaxLine, MaxLine + 1, MaxLine + 2, 300, MaxTagLine - 1, MaxTagLine, MaxTagLine + 1, 5000} {
		for line, short := range map[string][]string{
			"put 0 0 1 5 {}": {"put BAD_FORMAT counted", "stats"}, "put 0 0 1 5{} key:a": {"put BAD_FORMAT", "stats"},
			"put 0 0 1 {}5": {`put 0 0 1 "stats"`}, "put 0 0 1 x{}": {"put BAD_FORMAT", "stats"}, "put {}": {"put BAD_FORMAT", "stats"},
		} {
			want := []string{bad, "stats"}
			if size <= MaxLine {
				want = short
			}
			check(t, fill(line, size), 9, want...)
		}
		for line, text := range map[string]string{
			"put 0 0 1 {}5 key:a": `put 0 0 1 "stats" key=a`, "put {} 0 1 5 max:7": `put 0 0 1 "stats" max=7`, "put 0 0 1 5 max:{}7": `put 0 0 1 "stats" max=7`,
			"put 0 0 1 {}5 x:a": "put BAD_FORMAT counted", "put 0 0 1 {}5 key:a foo": "put BAD_FORMAT counted", "put 0 0 1 {}5 key:a ": "put BAD_FORMAT counted",
			"put 0 0 1 5 max:{}": "put BAD_FORMAT counted", "put 0 0 1 {}5 key:": "put BAD_FORMAT counted", "put 0 0 1 {}77 key:": "put JOB_TOO_BIG counted",
		} {
			want := []string{text}
			if strings.Contains(text, "TOO_BIG") {
				want = nil // its body never ends
			}
			switch inTime := size == MaxTagLine+1 || strings.Contains(line, "max:{}"); { // the size of the body is
			case size > MaxTagLine && !inTime:
				want = []string{bad, "stats"}
			case size > MaxTagLine && want != nil:
				want = []string{"put BAD_FORMAT"}
			}
			check(t, fill(line, size), 9, want...)
		}
	}
	nul := "put 0 0 1 5 key:" + strings.Repeat("k", 100) + "\x00" + strings.Repeat(" max:1", 50) + "\r\nstats\r\n"
	check(t, nul, 9, "put BAD_FORMAT")
	check(t, strings.Replace(nul, "\x00", "\r", 1), 9, "put BAD_FORMAT")
}

// TestTagsOutlive checks that tags do not change with the read buffer.
func TestTagsOutlive(t *testing.T) {
	src := &drip{}
	r := NewReader(src, 10)
	var put, found Command
	src.add("put 0 0 1 1 key:mine dead:there\r\na\r\nfind a mine\r\n")
	more(t, r, &put)
	more(t, r, &found)
	src.add(strings.Repeat("x", minBuffer) + "\r\n")
	var c Command
	more(t, r, &c)
	if got := fmt.Sprint(put.Tags.Key, put.Tags.Dead, found.Key); got != "minetheremine" {
		t.Errorf("the tags are %q now", got)
	}
}

// TestBegunTags checks that a put with invalid tags is counted when its line has arrived, and does
// not make the connection a producer.
func TestBegunTags(t *testing.T) {
	src := &drip{}
	r := NewReader(src, 10)
	src.add("put 0 0 1 5 max:0\r\nst")
	var c Command
	if r.Fill(); r.Next(&c) {
		t.Fatal("the body has arrived")
	}
	if verb, counted, producer := r.Begun(); verb != Put || !counted || producer {
		t.Errorf("%v %v %v", verb, counted, producer)
	}
	src.add("ats\r\n")
	if more(t, r, &c); c.Fault != BadFormat || c.Counted {
		t.Error(show(&c))
	}
}

// TestLimitsFit checks that the longest lines are long enough for the longest words.
func TestLimitsFit(t *testing.T) {
	put := fmt.Sprint("put 4294967295 4294967295 4294967295 ", MaxBody, " delay:86400000ms key:", longKey, " on-duplicate:replace key-ttl:3650d retry:",
		strings.Repeat("86400s,", field.MaxRetry-1), "1 max:1000000 dead:", longName, "\r\n")
	policy := fmt.Sprint("set-policy ", longName, " retry:", strings.Repeat("86400s,", field.MaxRetry-1), "1 max:1000000 dead:", longName,
		" key-ttl:3650d on-duplicate:replace quota-jobs:", uint64(math.MaxUint64), " quota-bytes:", uint64(math.MaxUint64), "\r\n")
	move := fmt.Sprint("move-jobs ", longName, " delayed ", longName, " 4294967295\r\n")
	flush := fmt.Sprint("flush-tube ", longName, " reserved\r\n")
	for line, verb := range map[string]Verb{put: Put, policy: SetPolicy, move: MoveJobs, flush: FlushTube} {
		r := NewReader(strings.NewReader(line), MaxBody)
		var c Command
		r.Fill()
		r.Next(&c)
		if r.state == inBody {
			c = r.pending
		}
		if c.Verb != verb || c.Fault != NoFault || r.Buffered() != 0 {
			t.Errorf("%d bytes: %v %v", len(line), c.Verb, c.Fault)
		}
	}
}

// TestJitter: the tag is a percentage, and of a schedule also a duration.
func TestJitter(t *testing.T) {
	for _, c := range []struct {
		tag       string
		in        field.Commands
		want      bool
		jitter    field.Jitter
		spreadSec int
	}{
		{" jitter:5", field.InPut, true, field.JitterOf(5), 0}, {" jitter:100", field.InPolicy, true, field.JitterOf(100), 0}, {" jitter:5m", field.InPut, false, 0, 0}, {" jitter:5m", field.InPolicy, false, 0, 0},
		{" jitter:101", field.InPut, false, 0, 0}, {" jitter:7", field.InSchedule, true, field.JitterOf(7), 0}, {" jitter:5m", field.InSchedule, true, 0, 300}, {" jitter:5w", field.InSchedule, false, 0, 0},
		{" jitter:1 jitter:5m", field.InSchedule, false, 0, 0}, {" jitter:5", field.InGroup, false, 0, 0},
	} {
		var tags Tags
		wrong, only := tags.read([]byte(c.tag), c.in)
		if got := wrong == "" && only; got != c.want {
			t.Errorf("%q in %d: %q, %v", c.tag, c.in, wrong, only)
		}
		if c.want && (tags.Jitter != c.jitter || tags.schedule().Spread.Seconds() != float64(c.spreadSec)) {
			t.Errorf("%q: %d %%, %v", c.tag, tags.Jitter, tags.Schedule.Spread)
		}
	}
}
