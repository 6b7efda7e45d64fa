package protocol

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// model is a second, naive implementation of the reference: it parses the whole input at once,
// with regular expressions and big numbers. It returns the commands in the format of show.
func model(input string, maxBody uint64) (got []string) {
	for {
		line, rest, found := strings.Cut(input, "\r\n")
		if !found {
			return got
		}
		input = rest
		m := &modelLine{}
		if long := len(line)+2 > modelMaxLine(line); long || strings.ContainsAny(line, "\r\x00") {
			m.bad(line, long)
		} else {
			m.read(line)
		}
		if m.fault != "" && modelHTTP.MatchString(line[:min(len(line), modelMaxLine(line))]) {
			m = &modelLine{verb: "unknown", fault: "HTTP_REQUEST"}
		}
		if modelBodies[m.verb] && m.fault == "" {
			size := m.n[len(m.n)-1]
			if size <= maxBody && m.junk {
				m.fault, m.counted = "BAD_FORMAT", true
			} else {
				if uint64(len(input)) < size+2 {
					return got
				}
				body, end := input[:size], input[size:size+2]
				input = input[size+2:]
				m.text = m.textWith(showBody([]byte(body)))
				if size > maxBody {
					m.fault, m.counted = "JOB_TOO_BIG", !m.malformed
				} else if m.badTags {
					m.fault, m.counted = "BAD_FORMAT", !m.malformed
				} else if end != "\r\n" {
					m.fault, m.counted, m.producer = "EXPECTED_CRLF", true, m.verb == "put"
				}
			}
		}
		got = append(got, m.show())
	}
}

// modelBodies are the verbs with a body.
var modelBodies = map[string]bool{"put": true, "set-schedule": true}

// textWith returns the text of a valid command with such a body.
func (m *modelLine) textWith(body string) string {
	numbers := ""
	for _, n := range m.n[:len(m.n)-1] {
		numbers += fmt.Sprint(" ", n)
	}
	return m.verb + m.names + numbers + " " + body + m.tagText
}

type modelLine struct {
	verb, fault, text, rest string
	names                   string // set-schedule: those before the numbers
	counted, producer       bool
	n                       []uint64

	tagText       string // the tags in the format of show
	junk, badTags bool
	malformed     bool // with badTags: not only the tags are
}

func (m *modelLine) show() string {
	if m.fault == "" {
		return m.text
	}
	s := m.verb + " " + m.fault
	if m.counted {
		s += " counted"
	}
	if m.producer {
		s += " producer"
	}
	return s
}

// shapes are the arguments of each word. Q is a 64-bit number, D a 32-bit one. After them
// the line ends, unless the shape ends in "…".
var shapes = map[string]string{
	"peek_": "Q", "reserve-with-timeout_": "D…", "reserve-job_": "Q", "delete_": "Q",
	"release_": "QDD…", "bury_": "QD…", "kick-job_": "Q", "touch_": "Q", "stats-job_": "Q",
}

var (
	modelNumber = regexp.MustCompile(`(?s)^ *([0-9]+)(.*)$`)
	modelName   = regexp.MustCompile(`^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}$`)
	modelPause  = regexp.MustCompile(`(?s)^ *([A-Za-z0-9+/;.$_()-]+)(.*)$`)
	modelHTTP   = regexp.MustCompile(`(?s)^([^ ]+ (/[^ ]*|[^ ]*://[^ ]*) HTTP/...|(?i:host:).*)$`)
	modelKick   = regexp.MustCompile(`(?s)^[ \t\n\v\f\r]*([+-]?)([0-9]+)`)
)

func (m *modelLine) read(line string) {
	for _, w := range strings.Split(matchOrder, ", ") {
		args, found := strings.CutPrefix(line, strings.ReplaceAll(w, "_", " "))
		if !found || args != "" && slices.Contains([]string{"drain", "undrain", "capabilities", "list-policies"}, w) || slices.Contains(modelLists, w) && args != "" && args[0] != ' ' {
			continue
		}
		m.verb = strings.TrimSuffix(w, "_")
		if !m.args(w, args) && m.fault == "" {
			m.fault = "BAD_FORMAT"
		}
		return
	}
	m.verb, m.fault = "unknown", "UNKNOWN_COMMAND"
}

func (m *modelLine) args(w, args string) bool {
	m.text = m.verb
	switch w {
	case "quit":
		return true
	case "put_":
		if !m.numbers("DDDD…", args) {
			return m.skip(w, args)
		}
		m.tags(m.rest, modelPutTags)
		if m.junk && strings.Contains(m.rest, ":") {
			m.junk, m.badTags = false, true
		}
		return true
	case "use_", "ignore_", "stats-tube_", "get-policy_":
		m.text += " " + args
		return modelName.MatchString(args)
	case "pause-tube":
		p := modelPause.FindStringSubmatch(args)
		if p == nil || !m.numbers("D", p[2]) {
			return false
		}
		m.counted = true
		m.text = fmt.Sprintf("pause-tube %s %d", p[1], m.n[0])
		return modelName.MatchString(p[1])
	case "kick_":
		k := modelKick.FindStringSubmatch(args)
		if k == nil {
			return false
		}
		n, _ := new(big.Int).SetString(k[2], 10)
		if n.BitLen() > 64 {
			return false
		}
		if k[1] == "-" {
			n.Neg(n)
		}
		m.text = "kick " + n.Mod(n, big.NewInt(1<<32)).String()
		return true
	}
	shape, found := shapes[w]
	if !found {
		return m.extension(w, args)
	}
	ok := m.numbers(shape, args)
	for _, n := range m.n {
		m.text += fmt.Sprint(" ", n)
	}
	if known := modelEndTags[w]; ok && known != "" {
		m.tags(m.rest, known)
		m.text += m.tagText
		return !m.junk && !m.badTags
	}
	return ok && !(w == "reserve-with-timeout_" && m.n[0] > 2147483647)
}

func (m *modelLine) numbers(shape, args string) bool {
	for _, s := range strings.TrimSuffix(shape, "…") {
		p := modelNumber.FindStringSubmatch(args)
		if p == nil {
			return false
		}
		n, _ := new(big.Int).SetString(p[1], 10)
		if s == 'D' && n.BitLen() > 32 || n.BitLen() > 64 {
			return false
		}
		m.n, args = append(m.n, n.Uint64()), p[2]
	}
	m.rest = args
	return args == "" || strings.HasSuffix(shape, "…")
}

// FuzzReader checks that the commands do not depend on how the input is split, and are those of
// the model.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"put 1 2 3 4\r\nabcd\r\nreserve\r\ndelete 1\r\n",
		"put 0 0 1 3\r\nabcde\r\nput 0 0 1 101 x\r\n" + strings.Repeat("z", 103) + "stats\r\n",
		"put 0 0 1 1 \r\nput 0 0 1 4294967296\r\n",
		"foo\rbar\r\nlist-tube-used\r\r\nuse a\x00b\r\nuse a\r\n",
		strings.Repeat("a", 223) + "\r\nlist-tubes\r\n" + strings.Repeat("a\r", 300) + "\nquit now\r\n",
		"reserve-batch 1000\r\nreserve-batch 5  10\r\nreserve-batch 0\r\nreserve-batch 1001\r\nreserve-batch 1 2 3\r\nreserve-batch 1 \r\nreserve-batch 9 8 lease info\r\nreserve-batch 9 info\r\nreserve-lease 1 info\r\n",
		"delete-batch 1 22  333\r\ndelete-batch" + strings.Repeat(" 1", 1001) + "\r\ndelete-batch 1x\r\ndrain\r\ndrain 1\r\nundrain\r\ncapabilities\r\n",
		"delete-batch " + strings.Repeat("1234567890123456 ", 900) + "7\r\ndelete-batch " + strings.Repeat("1234567890123456 ", 963) + "7\r\nstats\r\n",
		"delete-batch " + strings.Repeat("1 ", 900) + strings.Repeat("0", 16384-13-1800-2) + "\r\ndelete-batch " + strings.Repeat("1 ", 900) + strings.Repeat("0", 16384-13-1800-1) + "\r\n",
		"reschedule 1 5\r\nreschedule 2 250ms\r\nreschedule 3  36h\r\nreschedule 4 3650d\r\nreschedule 4 3651d\r\nreschedule 5 1w\r\nreschedule 5 -1\r\nset-priority 7 12\r\nset-priority 7\r\n",
		"put 0 0 1 5 key:a\r\nstats\r\nput 0 0 1 5 key:\r\nstats\r\nput 0 0 1 5 key:a foo\r\nstats\r\nput 0 0 1 101 max:0\r\n" + strings.Repeat("z", 103) + "stats\r\n",
		"put 0 0 1 0 delay:250ms key:k:1 on-duplicate:replace key-ttl:1h retry:1s,2m,3d max:9 dead:d\r\n\r\nput 0 0 1 0 at:9223372036853 \r\nput 0 0 1 0 at:1 delay:1\r\n\r\n",
		"put 0 0 1 1 " + strings.Repeat("0", 300) + "\r\nput 0 0 1 1" + strings.Repeat(" ", 300) + "key:a\r\na\r\nput 0 0 1 1" + strings.Repeat(" max:1", 80) + "\r\na\r\nput 0 0 1 1 max:" + strings.Repeat("0", 1100) + "1\r\na\r\n",
		"set-policy a retry:1,2,3 max:4 dead:b key-ttl:1 on-duplicate:fail quota-jobs:5 quota-bytes:6\r\nset-policy a\r\nset-policy a key:b\r\nget-policy a\r\nlist-policies\r\nset-policy a max:" + strings.Repeat("0", 1100) + "\r\n",
		"reserve-lease 5\r\ndelete-lease 1 00000000000000000002\r\ntouch-lease 1 x\r\nrelease-lease 1 18446744073709551616 2 3\r\nbury-lease 1 y 4\r\nreserve-lease 1 2\r\n",
		"list-jobs a ready\r\nlist-jobs a buried 7\r\nlist-jobs a delayed 1000 cur\r\nlist-jobs a reserved 1001\r\nfind a k\r\ndelete-key a k\r\nfind " + strings.Repeat("n", 200) + " " + strings.Repeat("k", 128) + "\r\nfind a " + strings.Repeat("k", 500) + "\r\n",
		"flush-tube a\r\nflush-tube a reserved\r\nflush-tube a x\r\nmove-jobs a ready b 5\r\nmove-jobs a reserved b 5\r\nmove-jobs a ready b 0\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("GET", 70) + " / HTTP/1.1\r\nhOsT:" + strings.Repeat("a", 300) + "\r\nHost\r\nuse /a HTTP/1.1\r\nfind /a HTTP/1.1\r\nGET / HTTP/1.1 \r\n / HTTP/1.1\r\n",
		"client \"a b\"\r\nclient \"\"\r\nclient \"a\\\"ö\"\r\nclient \"a\\n\"\r\nclient \"a\" b\r\nclient \"" + strings.Repeat("a", 129) + "\"\r\nclient a\r\nclient  b-1:\r\nclient a b\r\nclient\r\nlist-clients\r\nlist-clients 7\r\nlist-clients 7 c:1\r\nlist-clients 0\r\nlist-clients \r\nlist-clientsx\r\nwatch a 1\r\nwatch a 1000\r\nwatch a 1001\r\nwatch a \r\nwatch  a 1\r\nwatch a 1 2\r\n",
		"set-group a g concurrency:3 rate:1/s,2/h weight:5 ttl:30d\r\nset-group a \"g h\"\r\nget-group a \"g\\n\"\r\nstats-group a g\r\nlist-groups a 5 Zw\r\npause-group a g 7\r\nflush-group a \"g\"x\r\n",
		"put 0 0 1 5 retries:5s\r\nstats\r\nput 0 0 x 5 retry:5s\r\nstats\r\nput 0 0 1 5 key:a\x00\r\nstats\r\nput retry:1 0 meta:a=\"b 7\" 1 5 6\r\nstats\r\nput 0 0 1 101 :\r\n" + strings.Repeat("z", 103) + "stats\r\n",
		"put 0 0 1 5 x:" + strings.Repeat("x", 4999) + "\r\nstats\r\nput 0 0 1 5 x:\r\r\nstats\r\nset-schedule a:b c 1 2s 5 x:1\r\nstats\r\nput 0 0 1 x:5\r\nstats\r\n",
		"put 0 0 1 1 group:\"a b\"\r\nx\r\nput 0 0 1 5 group:\r\nstats\r\nset-policy a group-concurrency:3 group-rate:100/m,1000/h group-order:strict concurrency:50 rate:200\r\n",
		"set-schedule a b 1 2 3 cron:\"0 1 * * *\" tz:Europe/Berlin overlap:buffer-one catch-up:1h from:5 key:k retry:1s\r\nabc\r\nset-schedule a b 1 2 3 every:5m x\r\nput\r\nset-schedule a b 1 2 3 cron:x every:1\r\nabcdeset-schedule a b 1 2\r\n",
		"get-schedule a\r\nlist-schedules\r\nlist-schedules 5 a\r\ndelete-schedule a\r\npause-schedule a\r\nresume-schedule a b\r\nrun-schedule " + strings.Repeat("n", 101) + "\r\npreview-schedule a 5\r\npreview-schedule \"* * * * *\" 5 tz:UTC\r\npreview-schedule a 1001\r\npreview-schedule \"a\"5\r\n",
		"put 0 0 1 1 batch:b batch-ttl:1h after-all:c\r\nx\r\nput 0 0 1 5 after:a batch:a\r\nstats\r\nput 0 0 1 5 after:a after-all:b\r\nstats\r\nput 0 0 1 5 batch-ttl:5\r\nstats\r\n",
		"seal-batch a\r\nstats-batch a:b\r\nlist-batches\r\nlist-batches 5 a\r\nlist-batchesx\r\nlist-members a\r\nlist-members a 5 c:1\r\ncancel-batch " + strings.Repeat("n", 101) + "\r\n",
		"auth user secret\r\nauth user a secret \r\nauth user\r\nauth  u  s\r\nauth " + strings.Repeat("u", 129) + " s\r\n",
		"kick \t-1x\r\nkick +18446744073709551616\r\nreserve-with-timeout 2147483648\r\nreserve-with-timeout 0 x\r\n",
		"pause-tube  -a 5\r\npause-tubea 5\r\npause-tube a 4294967295 \r\nstats-tube a-b\r\n",
		"release 1  2   3\r\nbury 1 2\r\nkick-job 0001\r\nstatsx\r\npeek-ready\r\nwatch a b\r\nignore " + strings.Repeat("n", 201) + "\r\n",
		"put 0 0 0 5000\r\n" + strings.Repeat("b", 5000) + "\r\nput 0 0 0 0\r\n\r\n",
		"put 0 0 0 5500\r\n" + strings.Repeat("b", 5500) + "\r\rput 0 0 0 9999\r\nnever complete",
	} {
		f.Add([]byte(seed), uint16(100), uint64(1))
		f.Add([]byte(seed), uint16(6000), uint64(2))
	}
	f.Fuzz(func(t *testing.T, data []byte, maxBody uint16, seed uint64) {
		input := string(data)
		want := strings.Join(model(input, uint64(maxBody)), "\n")
		for name, cut := range map[string]func() int{"whole": whole, "byte by byte": oneByte, "split": randomly(seed)} {
			got, _ := commands(t, input, int(maxBody), cut)
			if g := strings.Join(got, "\n"); g != want {
				t.Fatalf("%s:\ngot  %q\nwant %q", name, g, want)
			}
		}
	})
}

// FuzzLine tests only the parser of lines.
func FuzzLine(f *testing.F) {
	for v := Unknown + 1; v < NumVerbs; v++ {
		for _, args := range []string{"", "1", " 1 2 3", "18446744073709551616", "-1", "a 5", "\t0x", "a g", `a "g h" 5`, "a g rate:1/m weight:2", "a b 1 2 3 every:5m", "a batch:b after:c", `a b 1 2 3 cron:"* * * * *" tz:x overlap:skip`, `"* * * * *" 7 tz:UTC`} {
			f.Add(v.Spec().Prefix + args)
		}
	}
	for _, group := range [][]string{wrongTags, noTags, strangeTags, slices.Collect(maps.Keys(goodTags)), slices.Collect(maps.Keys(extended))} {
		for _, end := range group {
			f.Add("put 1 2 3 4 " + end)
			f.Add("put 1 2 3 4" + end)
			f.Add("put 1 " + end + " 2 3 4")
			f.Add("set-schedule a b 1 x 4 " + end)
			f.Add("set-policy a " + end)
			f.Add(end)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > modelMaxLine(line)-2 || strings.ContainsAny(line, "\r\x00") {
			return
		}
		var c Command
		parseLine(&c, []byte(line))
		m := &modelLine{}
		m.read(line)
		if c.Verb.Spec().Body && c.Fault == NoFault && m.fault == "" {
			c.Producer, c.Body = c.Verb == Put, []byte{}
			m.text = m.textWith(`""`)
			if c.junk != m.junk || c.badTags != m.badTags || uint64(c.size) != m.n[len(m.n)-1] {
				t.Fatalf("%q: size %d, junk %v, bad tags %v", line, c.size, c.junk, c.badTags)
			}
			if m.junk || m.badTags {
				return
			}
		}
		if got, want := show(&c), m.show(); got != want {
			t.Fatalf("%q:\ngot  %q\nwant %q", line, got, want)
		}
	})
}
