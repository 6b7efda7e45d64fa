package protocol

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// FuzzReader checks that the commands do not depend on how the input is split.
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
		"finish 1 3\r\nabc\r\nfinish 1 65537\r\nfinish-lease 1 00000000000000000002 1\r\na\r\nwait-job 1 5\r\nstats-ended 1\r\nlist-ended a 5 c\r\nlist-ended batch:b\r\nlist-ended batch:\r\n",
		"touch 1 progress:\"1\\n2\"\r\ntouch-lease 1 00000000000000000002 progress:\"\"\r\ntouch 1 progress:\r\ncheckpoint 1 3\r\nabc\r\ncheckpoint 1 65537\r\ncheckpoint-lease 1 00000000000000000002 1\r\na\r\nget-checkpoint 1\r\nkick 5 keep-checkpoint\r\nkick-job 1 keep-checkpoint\r\nreplay-job 1 keep-checkpoint \r\n",
		"seal-batch a\r\nstats-batch a:b\r\nlist-batches\r\nlist-batches 5 a\r\nlist-batchesx\r\nlist-members a\r\nlist-members a 5 c:1\r\nhistory hours\r\nhistory-tube a days 7\r\nhistory-tube a\r\ncancel-batch " + strings.Repeat("n", 101) + "\r\n",
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
		want, _ := commands(t, input, int(maxBody), whole)
		for name, cut := range map[string]func() int{"byte by byte": oneByte, "split": randomly(seed)} {
			if got, _ := commands(t, input, int(maxBody), cut); !slices.Equal(got, want) {
				t.Fatalf("%s:\ngot  %q\nwant %q", name, got, want)
			}
		}
	})
}

// FuzzLine checks that the parser of lines makes a consistent command of each, and changes no line.
func FuzzLine(f *testing.F) {
	for v := Unknown + 1; v < NumVerbs; v++ {
		for _, args := range []string{"", "1", " 1 2 3", "18446744073709551616", "-1", "a 5", "\t0x", "a g", `a "g h" 5`, "a g rate:1/m weight:2", "a b 1 2 3 every:5m", "a batch:b after:c", `a b 1 2 3 cron:"* * * * *" tz:x overlap:skip`, `"* * * * *" 7 tz:UTC`, "1 keep-checkpoint", `1 progress:"a"`, `1 a progress:"\t"`} {
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
		var c Command
		text := []byte(line)
		parseLine(&c, text)
		if c.Verb.Spec().Body && c.Fault == NoFault { // as the Reader does
			c.Producer, c.Body = c.Verb == Put, []byte{}
		}
		if got := show(&c); strings.HasPrefix(got, "inconsistent") && !c.junk && !c.badTags || string(text) != line {
			t.Fatalf("%q: %s", line, got)
		}
	})
}
