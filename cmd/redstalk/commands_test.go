package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// step is one run of the program with its expected result. The word "lease" in the
// arguments stands for the lease of the last reserved job.
type step struct {
	args  string // with single spaces between
	stdin string
	code  int
	out   string // regular expression for all of standard output
	err   string // and for a part of standard error
}

// anywhere are steps with the same result on every server.
var anywhere = []step{
	{args: "put hello -t a", out: "1\n"},
	{args: "put -t a", stdin: "from\nstdin\n", out: "2\n"},
	{args: "--json put -t b --pri 5 --delay 1h --ttr 2m later", out: `{"id":3}` + "\n"},
	{args: "put -l -t c", stdin: "one\ntwo\n\nfour", out: "4\n5\n6\n7\n"},
	{args: "put -l x -t c", code: exitUsage, err: "no argument"},
	{args: "peek 1", out: "hello"},
	{args: "peek -t a", out: "hello"},
	{args: "peek -t b --state delayed --json", out: `{"id":3,"tube":"b","state":"delayed","priority":5,"ttr":120,.*"body":"later"}` + "\n"},
	{args: "peek -t b", code: exitNothing, err: "next ready job of b"},
	{args: "peek 99", code: exitNothing},
	{args: "peek x", code: exitUsage},
	{args: "peek 1 2", code: exitUsage, err: `"2"`},
	{args: "delete 1 98 99", code: exitNothing, out: "1 job deleted\n", err: "98 99"},
	{args: "delete - --json", stdin: "4\n5\n", out: `{"deleted":2,"missing":\[\]}` + "\n"},
	{args: "delete", code: exitUsage},
	{args: "bury 2", out: "job 2 buried\n"},
	{args: "kick -t a all", out: "1 job kicked\n"},
	{args: "bury 2 --pri 9", out: "job 2 buried\n"},
	{args: "stats 2 --json", out: `{.*"id":2,.*"pri":9,.*"state":"buried".*}` + "\n"},
	{args: "kick --id 2 --id 77", code: exitNothing, out: "1 job kicked\n", err: "77"},
	{args: "release 2 --delay 90m", out: "job 2 released\n"},
	{args: "peek --state delayed -t a", out: "from\nstdin\n"},
	{args: "kick -t a 0x", code: exitUsage},
	{args: "release 77", code: exitNothing},
	{args: "touch 2", code: exitUsage, err: "--lease"},
	{args: "reserve -t empty --delete --wait 1", code: exitNothing},
	{args: "reserve --wait sometimes", code: exitUsage, err: "forever"},
	{args: "reserve -t c --delete", out: "^$"},
	{args: "reserve -t c -t a --delete --json", out: `{"id":7,"tube":"c",.*"body":"four"}` + "\n"},
	{args: "pause -t a 10m", out: "tube a paused for 10m0s\n"},
	{args: "stats -t a --json", out: `{.*"pause":600,.*}` + "\n"},
	{args: "pause -t a 0", out: "tube a is not paused\n"},
	{args: "pause -t none 1", code: exitNothing, err: "there is no tube none"},
	{args: "pause -t a soon", code: exitUsage},
	{args: "tubes --names", out: "a\nb\nc\ndefault\n|a\nb\ndefault\n"},
	{args: "tubes", out: `TUBE +READY.*\na +0 +0 +0 +1 +0 +0 +\d+ +-\nb .*\n(c .*\n)?default .*\n`},
	{args: "tubes --names --filter [ab]", out: "a\nb\n"},
	{args: "tubes --sort delayed --filter b", out: `TUBE +READY.*\nb .*\n`},
	{args: "tubes --sort colour", code: exitUsage, err: "colour"},
	{args: "tubes --srot total", code: exitUsage, err: "did you mean --sort"},
	{args: "tbues", code: exitUsage, err: "did you mean tubes"},
	{args: "status", out: `(redstalk|beanstalkd) .* at .*, up (.|\n)*delayed, 0 buried\n`},
	{args: "status --json --filter none", out: `{"server":.*"trouble":\[\]}` + "\n"},
	{args: "top", out: `TUBE +READY(.|\n)*PUTS/s(.|\n)*\na +0 +1(.|\n)*`},
	{args: "top --json --filter b --sort puts", out: `{"at":\d+,"tubes":\[{"name":"b",.*}\]}` + "\n"},
	{args: "top --sort colour", code: exitUsage},
	{args: "flush -t a", code: exitUsage, err: `Delete 1 job \(ready, delayed, buried\) of tube a\? Use --yes`},
	{args: "flush -t a --state sideways --yes", code: exitUsage},
	{args: "flush -t b --state delayed --yes", out: "1 job deleted\n"},
	{args: "stats --json", out: `{.*"current-jobs-delayed":1.*}` + "\n"},
	{args: "put x --at 2020-01-01T00:00:00Z", out: "8\n"},
	{args: "put x --at 2020-01-01T00:00:00Z --delay 1", code: exitUsage},
	{args: "put x --at noon", code: exitUsage},
	{args: "put x --ttr 1w", code: exitUsage},
	{args: "put x --nonsense", code: exitUsage, err: "nonsense"},
	{args: "put -t a\tb x", code: exitUsage},
	{args: "put --user somebody x", code: exitUsage, err: "REDSTALK_SECRET"},
	{args: "put --tls-ca /nowhere x", code: exitUsage, err: "/nowhere"},
	{args: "put --timeout 0 x", code: exitUsage},
	{args: "nonsense", code: exitUsage, err: "nonsense"},
	{args: "tubes --server unix:/nowhere", code: exitServer, err: "/nowhere"},
}

// extensions are steps that need redstalk.
var extensions = []step{
	{args: "put x -t k --key one --retry 1h,2h --max 9 --dead d", out: "1\n"},
	{args: "put y -t k --key one", out: "1\n", err: "is ready; nothing was put"},
	{args: "put y -t k --key one --on-duplicate fail", code: exitFailed, err: "DUPLICATE 1"},
	{args: "put y -t k --key one --json", out: `{"id":1,"state":"ready"}` + "\n"},
	{args: "put y -t k --delay 250h --on-duplicate sideways", code: exitFailed, err: "BAD_FORMAT"},
	{args: "find one -t k", out: "x"},
	{args: "find one -t k --json", out: `{"id":1,.*"key":"one","retry":\["1h","2h"\],"max":9,"dead":"d".*}` + "\n"},
	{args: "find two -t k", code: exitNothing},
	{args: "list -t k", out: `ID +PRI.*\n +1 +1024 .* one\n`},
	{args: "list -t k --json", out: `{"id":1,"tube":"k","state":"ready",.*}` + "\n"},
	{args: "list -t k --state sideways", code: exitUsage},
	{args: "reserve -t k", out: "x", err: "redstalk delete 1 --lease "},
	{args: "reserve -t empty", code: exitNothing, err: "no job is ready in empty"},
	{args: "bury 1", code: exitNothing, err: "only its holder can do that"},
	{args: "touch 1 --lease lease", out: "job 1 touched\n"},
	{args: "release 1 --lease 123", code: exitNothing},
	{args: "release 1 --lease lease --delay 1h", out: "job 1 released\n"},
	{args: "reschedule 1 0", out: "job 1 rescheduled\n"},
	{args: "reschedule 1 soon", code: exitUsage},
	{args: "set-priority 1 7", out: "job 1 updated\n"},
	{args: "set-priority 1 -- -7", code: exitUsage},
	{args: "reserve -t k --json", out: `{"id":1,.*"priority":7.*}` + "\n"},
	{args: "bury 1 --lease lease", out: "job 1 buried\n"},
	{args: "kick -t k", out: "1 job kicked\n"},
	{args: "reserve -t k", out: "x"},
	{args: "delete 1 --lease lease", out: "job 1 deleted\n"},
	{args: "delete 1 --lease lease", code: exitNothing},
	{args: "put z -t k --at 9999-12-31T00:00:00Z", code: exitUsage, err: "too late"},
	{args: "put z -t k --key one", out: "2\n"},
	{args: "delete --key one -t k", out: "1 job deleted\n"},
	{args: "policy k retry:1s,2s max:5", out: "policy of k set\n"},
	{args: "policy k", out: "retry  1s,2s\nmax    5\n"},
	{args: "policy -t k", out: "retry  1s,2s\nmax    5\n"},
	{args: "policy", out: "k\n"},
	{args: "policy k* max:7 dead:d", out: "policy of k\\* set\n"},
	{args: "policy * dead:e key-ttl:1h max:8", out: "policy of \\* set\n"},
	{args: "policy k", out: `retry +1s,2s\nmax +5\ndead +d +from k\*\nkey-ttl +1h +from \*\n`},
	{args: "policy kk --json", out: `{"dead":"d","inherited":{"dead":"k\*","key-ttl":"\*","max":"k\*"},"key-ttl":"1h","max":7}\n`},
	{args: "policy k*", out: "max +7\ndead +d\n"},
	{args: "policy --remove k*", out: "policy of k\\* set\n"},
	{args: "policy --remove *", out: "policy of \\* set\n"},
	{args: "policy --remove k", out: "policy of k set\n"},
	{args: "policy k", code: exitNothing},
	{args: "put -l -t m", stdin: "1\n2\n3\n", out: "3\n4\n5\n"},
	{args: "move -t m --to n 2 --yes", out: "2 jobs moved\n"},
	{args: "move -t m --to n", code: exitUsage, err: `Move 1 job \(ready\) from m to n\? Use --yes`},
	{args: "move -t m --yes", code: exitUsage, err: "--to"},
	{args: "flush -t n --yes", out: "2 jobs deleted\n"},
	{args: "drain", out: "draining\n"},
	{args: "put x", code: exitFailed, err: "DRAINING"},
	{args: "drain --off --json", out: `{"draining":false}` + "\n"},
	{args: "put letter -t w --max 1 --dead morgue", out: "8\n"},
	{args: "reserve -t w", out: "letter"},
	{args: "release 8 --lease lease", out: "job 8 released\n"},
	{args: "put held -t w --max 1", out: "10\n"},
	{args: "reserve -t w", out: "held"},
	{args: "release 10 --lease lease", out: "job 10 released\n"},
	{args: "parked", out: `ID +TUBE +REASON +SINCE +BODY\n9 +morgue +from w +20\d\d-.* [+-]\d{4} \(\d+s ago\) +letter\n10 +w +deliveries +after 20\d\d-\d\d-\d\d .* [+-]\d{4} +held\n`},
	{args: "parked -n 1", out: `ID.*\n9 .*\n`},
	{args: "parked -t w -t nowhere --json", code: exitNothing, err: "no tube nowhere", out: `{"id":10,"tube":"w",.*}` + "\n"},
	{args: "parked morgue --json", out: `{"id":9,"tube":"morgue",.*"from_tube":"w","from_id":8,.*"excerpt":"letter"}` + "\n"},
	{args: "list -t nowhere", code: exitNothing, err: "no tube nowhere"},
	{args: "list -t nowhere --json", code: exitNothing, err: "no tube nowhere"},
	{args: "kick -t nowhere", code: exitNothing, err: "no tube nowhere"},
	{args: "move -t nowhere --to w --yes", code: exitNothing, err: "no tube nowhere"},
	{args: "flush -t nowhere --yes", code: exitNothing, err: "no tube nowhere"},
	{args: "parked w nowhere --json", code: exitNothing, err: "no tube nowhere", out: `{"id":10,"tube":"w",.*"parked":"deliveries",.*}` + "\n"},
	{args: "status --filter morgue", out: `(?s).*\n1 ready \(1 of them dead letters\), 0 reserved, 0 delayed, 0 buried\n`},
	{args: "status --filter morgue --json", out: `{.*"dead_letters":1,.*"trouble":\[\]}\n`},
	{args: "list -t w --state buried", out: `ID .* KEY +REASON\n10 .* deliveries\n`},
	{args: "list -t morgue", out: `ID .* KEY +REASON\n +9 .* from w\n`},
	{args: "replay", code: exitUsage, err: "--reason, or --all"},
	{args: "replay 9 --all", code: exitUsage},
	{args: "replay --all --rate fast", code: exitUsage, err: "fast"},
	{args: "replay --all", code: exitUsage, err: `Replay 2 jobs of all tubes \(dead letter 1, deliveries 1\)\? Use --yes`},
	{args: "replay --all --dry-run", out: "JOBS  REASON\n   1  dead letter\n   1  deliveries\n", err: "2 jobs would be replayed"},
	{args: "replay 9 10 --dry-run", out: "9\n10\n", err: "2 jobs would be replayed"},
	{args: "replay --tube w --json", out: `{"missing":\[\],"replayed":1}` + "\n"},
	{args: "replay 9 10 --rate 20/s", code: exitNothing, out: "1 job replayed\n", err: ": 10"},
	{args: "replay --all --yes", out: "0 jobs replayed\n"},
	{args: "parked", out: `ID.*\n`},
	{args: "reserve -t w --delete", out: "held"},
	{args: "reserve -t w --delete", out: "letter"},
	{args: "put snoozed -t s --max 1", out: "12\n"},
	{args: "release 12 --no-failure --reason x", code: exitUsage, err: "together"},
	{args: "release 12 --no-failure", out: "job 12 released\n"},
	{args: "peek -t s", out: "snoozed"},
	{args: "reserve -t s", out: "snoozed"},
	{args: "release 12 --lease lease --no-failure --delay 1h", out: "job 12 released\n"},
	{args: "stats 12 --json", out: `{.*"deliveries":0,.*"failures":0,.*"state":"delayed".*}\n`},
	{args: "clients", out: `ADDRESS +NAME +USER +INSTANCE +WAITING +HOLDS +CONNECTED +WATCHES\n(?:local|127.0.0.1:\d+) +- +- +- +- +- +0s +default\n`},
	{args: "policy g group-concurrency:1 group-order:fair", out: "policy of g set\n"},
	{args: "put one -t g --group a", out: "13\n"},
	{args: "put two -t g --group a", out: "14\n"},
	{args: "put three -t g --group b", out: "15\n"},
	{args: "reserve -t g", out: "one"},
	{args: "groups -t g", out: `GROUP +HELD +RATE.*\na +concurrency +- +- +1 +0 +1 +0 +1 +1\nb +- +- +- +1 +0 +0 +0 +1 +1\n`},
	{args: "groups -t g -n 1 --json", out: `{"name":"a",.*"held":"concurrency"}` + "\n"},
	{args: "group a -t g concurrency:2 rate:5/m", out: "limits of group \"a\" set\n"},
	{args: "group a -t g concurrency:2 rate:5", out: "limits of group \"a\" set\n"},
	{args: "group a -t g", out: `(?s).*reserved +1.*concurrency +2.*rate +5/s.*held +no\n`},
	{args: "history", out: `HOUR +PUT +STARTED(.|\n)*`},
	{args: "history g --days -n 0", code: exitUsage, err: "--count"},
	{args: "history g --days --json", out: `({"begin":\d+,"put":(.|\n)*)?`},
	{args: "group a -t g weight:0", code: exitFailed, err: "the tag weight needs"},
	{args: "group -t g", code: exitUsage},
	{args: "group a -t g --remove", out: "limits of group \"a\" set\n"},
	{args: "pause -t g --group b 10m", out: "group \"b\" paused for 10m0s\n"},
	{args: "list -t g", out: `ID .* KEY +REASON\n14 .* held: concurrency\n15 .* held: paused\n`},
	{args: "list -t g --json", out: `{"id":14,.*"group":"a","held":"concurrency".*}\n{"id":15,.*"group":"b","held":"paused".*}` + "\n"},
	{args: "pause -t g --group b 0", out: "group \"b\" is not paused\n"},
	{args: "flush -t g --group a --yes", out: "1 job deleted\n"},
	{args: "group nobody -t g", code: exitNothing},
	{args: "schedules set hourly every:1h meta:a=b -t h --body x", out: "schedule hourly set\n"},
	{args: "schedules set leap cron:@yearly tz:Asia/Kolkata jitter:5m catch-up-all:3 -t h --pri 3 --ttr 2m", stdin: "from\nstdin", out: "schedule leap set\n"},
	{args: "schedules set zoned cron:@yearly from:2090-01-01T00:00:00Z --tz Asia/Kolkata --body x", out: "schedule zoned set\n"},
	{args: "schedules get zoned --json", out: `{.*"from":3786912000000,.*"tz":"Asia/Kolkata"}\n`},
	{args: "schedules delete zoned --dry-run", code: exitUsage, err: "delete does not take --dry-run"},
	{args: "schedules --tube h", code: exitUsage, err: "does not take --tube"},
	{args: "schedules delete zoned", out: "schedule zoned deleted\n"},
	{args: "schedules set never cron:@yearly tz:UTC --tz UTC --body x", code: exitUsage, err: "tz occurs twice"},
	{args: "schedules set never cron:@sometimes --body x", code: exitFailed, err: "BAD_FORMAT: the expression or the time zone is invalid"},
	{args: "schedules set never every:1ms --body x", code: exitUsage, err: "every must be at least 1s"},
	{args: "schedules set hourly every:1h -t other --body x", code: exitFailed, err: "its tube is h, and cannot be changed"},
	{args: "schedules set never every:1h from:noon --body x", code: exitUsage, err: `from:noon: "noon" is not a time`},
	{args: "schedules set never every:1h foo:1 --body x", code: exitUsage, err: "foo:1: there is no such setting"},
	{args: "schedules set never tz:UTC --body x", code: exitUsage, err: "one of the tags cron and every"},
	{args: "schedules set never every:soon --body x", code: exitUsage, err: "the tag every needs"},
	{args: "schedules set a\"b every:1h --body x", code: exitUsage, err: "not the name of a schedule"},
	{args: "schedules set hourly", code: exitUsage},
	{args: "schedules sideways", code: exitUsage},
	{args: "schedules", out: `SCHEDULE +TUBE .*\nhourly +h +every 1h +- +20\d\d-\S+ \S+ \S+ +- +0 +0\nleap +h +@yearly +Asia/Kolkata +20\d\d-\S+ \S+ \S+ +- +0 +0\n`},
	{args: "schedules get leap --json", out: `{.*"catch-up-all":3,"cron":"@yearly",.*"jitter":"5m",.*"pri":3,.*"size":10,.*"ttr":120,"tube":"h","tz":"Asia/Kolkata"}\n`},
	{args: "schedules get never", code: exitNothing},
	{args: "schedules preview leap -n 2", out: `20\d\d-01-01T00:00:00\+05:30\n20\d\d-01-01T00:00:00\+05:30\n`},
	{args: "schedules preview @yearly -n 1 --tz Europe/Berlin --json", out: `\["20\d\d-01-01T00:00:00\+01:00"\]\n`},
	{args: "schedules preview never", code: exitNothing},
	{args: "schedules preview leap --tz UTC", code: exitUsage, err: "the schedule leap has a time zone of its own"},
	{args: "schedules preview @sometimes", code: exitFailed, err: "BAD_FORMAT: the expression or the time zone is invalid"},
	{args: "schedules preview leap -n 1001", code: exitUsage},
	{args: "schedules run hourly", out: "16\n"},
	{args: "schedules run hourly", out: "16\n", err: "is ready; nothing was put"},
	{args: "stats 16 --json", out: `{.*"meta":"{a: \\"b\\"}","nominal-ms":\d+,.*"schedule":"hourly",.*}\n`},
	{args: "schedules pause hourly", out: "schedule hourly paused\n"},
	{args: "schedules", out: `SCHEDULE.*\nhourly +h +every 1h +- +paused +overlapped +1 +1\n.*\n`},
	{args: "schedules resume hourly --json", out: `{"resumed":"hourly"}\n`},
	{args: "schedules delete leap", out: "schedule leap deleted\n"},
	{args: "schedules delete leap", code: exitNothing},
	{args: "put row -t rows --batch b:1 --batch-ttl 1h", out: "17\n"},
	{args: "put mail -t mails --after b:1 --batch next", out: "18\n"},
	{args: "put mail --after b:1 --after-all b:1", code: exitFailed, err: "the tags after and after-all contradict each other"},
	{args: "batches", out: `BATCH +STATE.*\nb:1 +open +\S+ +1 +1 +0 +0 +0 +1 +0\nnext +open +\S+ +1 +1 +0 +0 +0 +0 +0\n`},
	{args: "batches --json", out: `{"name":"b:1","state":"open",.*"ttl-ms":3600000}\n{"name":"next".*}\n`},
	{args: "batch b:1", out: `(?s)BATCH +b:1\nstate +open\n.*pending +1\n.*AFTER IT.*\n18 +mails +delayed +when all are done +next\n`},
	{args: "batch seal b:1", out: "batch b:1 sealed\n"},
	{args: "put row -t rows --batch b:1", code: exitFailed, err: "BATCH_SEALED"},
	{args: "batch members b:1", out: `ID +TUBE.*\n17 +rows +ready +1024 .*\n`},
	{args: "batch members b:1 --json", out: `{"id":17,"tube":"rows","state":"ready",.*"batch":"b:1".*}\n`},
	{args: "stats 18 --json", out: `{.*"after":"b:1",.*"batch":"next",.*"held":"batch".*}\n`},
	{args: "batch cancel next", code: exitUsage, err: "Delete up to 1 job of batch next\\? Use --yes"},
	{args: "batch cancel next --yes", out: "batch next cancelled: 1 job deleted\n"},
	{args: "batch b:1 --json", out: `{"name":"b:1","state":"sealed","sealed":true,.*"pending":1,.*}\n`},
	{args: "batch none", code: exitNothing},
	{args: "batch open b:1", code: exitUsage, err: "open"},
	{args: "batch", code: exitUsage},
	{args: "schedules --json", out: `{"name":"hourly","tube":"h","every":"1h","paused":false,.*"put":1,"overlapped":1,.*"last-result":"overlapped"}\n`},
	{args: "put x -t r --keep 1h --key rk", out: "19\n"},
	{args: "wait 19 --wait 0", code: exitNothing, err: "timed out"},
	{args: "reserve -t r", out: "x"},
	{args: "finish 19 fine", code: exitUsage, err: "--lease"},
	{args: "finish 19 fine --lease lease", out: "job 19 finished\n"},
	{args: "finish 19 fine --lease lease", code: exitNothing},
	{args: "wait 19", out: "fine"},
	{args: "wait 19 --json", out: `{"id":19,"how":"done","result":"fine"}\n`},
	{args: "put x -t r --keep 1h --max 1 --dead gone", out: "20\n"},
	{args: "reserve -t r", out: "x"},
	{args: "finish 20 --lease lease", stdin: strings.Repeat("r", 65537), code: exitUsage, err: "65536"},
	{args: "release 20 --lease lease --reason Oops", out: "job 20 released\n"},
	{args: "wait 20 --json", code: exitJobs, out: `{"id":20,"how":"dead","to":"gone 21"}\n`, err: "job 20: dead gone 21"},
	{args: "wait 999", code: exitNothing},
	{args: "wait 21", code: exitFailed, err: "keep"},
	{args: "ended r", out: `ID +HOW +ENDED +TOOK +TRIES +KEY +RESULT OR REASON\n20 +dead +\S+ \S+ \S+ +\S+ +1 +to gone: Oops\n19 +done +\S+ \S+ \S+ +\S+ +1 +rk +fine\n`},
	{args: "ended -t r --reason oops --json", out: `{"id":20,"tube":"r","how":"dead",.*"reason":"Oops","to_tube":"gone","to_id":21,.*}\n`},
	{args: "ended r --how done -n 1", out: `ID.*\n19 .*\n`},
	{args: "ended r --how never", code: exitUsage, err: "--how"},
	{args: "ended batch:none", out: `ID.*\n`},
	{args: "put --lines --wait 1", code: exitUsage, err: "together"},
}

// lacking are steps that need extensions, and must say so on beanstalkd.
var lacking = []step{
	{args: "put x -t never --at 2250-01-01T00:00:00Z", out: "1\n"},
	{args: "stats -t never", out: `(?s).*current-jobs-delayed +1\n.*`},
	{args: "put x --key k", code: exitExtension, err: "put-tags"},
	{args: "find k", code: exitExtension},
	{args: "list", code: exitExtension, err: "list-jobs"},
	{args: "parked", code: exitExtension, err: "list-jobs"},
	{args: "search x", code: exitExtension, err: "list-jobs"},
	{args: "ended", code: exitExtension, err: "results"},
	{args: "wait 1", code: exitExtension, err: "results"},
	{args: "finish 1 x --lease l", code: exitExtension, err: "results"},
	{args: "put x --wait 1", code: exitExtension, err: "results"},
	{args: "replay 1", code: exitExtension, err: "replay"},
	{args: "clients", code: exitExtension, err: "clients"},
	{args: "release 1 --no-failure", code: exitExtension, err: "reason"},
	{args: "delete --key k", code: exitExtension},
	{args: "delete 1 --lease l", code: exitExtension, err: "lease"},
	{args: "reserve", code: exitExtension, err: "--delete or --exec"},
	{args: "policy", code: exitExtension},
	{args: "groups", code: exitExtension, err: "groups"},
	{args: "history", code: exitExtension, err: "history"},
	{args: "schedules", code: exitExtension, err: "schedules"},
	{args: "schedules delete s", code: exitExtension, err: "schedules"},
	{args: "move --to b --yes", code: exitExtension},
	{args: "drain", code: exitExtension},
	{args: "reschedule 1 1", code: exitExtension},
	{args: "flush --state reserved --yes", code: exitExtension},
	{args: "stats --json", out: `{.*"current-jobs-ready":0,.*"total-jobs":1,.*}` + "\n"},
}

var leaseTold = regexp.MustCompile(`(?:--lease |"lease":")(\w+)`)

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start func(*testing.T) string
		steps []step
	}{
		{"beanstalkd", beanstalkd, anywhere}, {"redstalkd", ours, anywhere}, {"extensions", ours, extensions}, {"searching", ours, searching}, {"lacking", beanstalkd, lacking},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr, lease := c.start(t), ""
			for _, s := range c.steps {
				args := strings.Split(s.args, " ")
				for i := range args {
					if i > 0 && args[i-1] == "--lease" && args[i] == "lease" {
						args[i] = lease
					}
				}
				got := runIn(t.Context(), s.stdin, append([]string{"--server", addr}, args...)...)
				if m := leaseTold.FindStringSubmatch(got.out + got.err); m != nil {
					lease = m[1]
				}
				s.check(t, got)
			}
		})
	}
}

func (s *step) check(t *testing.T, got outcome) {
	t.Helper()
	if got.code != s.code {
		t.Errorf("%s: exit code %d, want %d", s.args, got.code, s.code)
	}
	if !regexp.MustCompile(`^(?:` + s.out + `)$`).MatchString(got.out) {
		t.Errorf("%s: printed %q, want %q", s.args, got.out, s.out)
	}
	if !regexp.MustCompile(s.err).MatchString(got.err) || s.code != 0 && got.err == "" {
		t.Errorf("%s: said %q, want %q", s.args, got.err, s.err)
	}
}

// TestCopy: exported and imported jobs are the same, between all kinds of servers, as far as the
// destination supports it.
func TestCopy(t *testing.T) {
	t.Parallel()
	for _, from := range []func(*testing.T) string{beanstalkd, ours} {
		for _, to := range []func(*testing.T) string{beanstalkd, ours} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				source, target := on(t, from(t)), on(t, to(t))
				source("put", "-t", "a", "plain")
				source("put", "-t", "b", "--pri", "3", "--ttr", "7", "--delay", "1h", "later")
				source("put", "-t", "b", "--", "\xff\x00\r\n binary")
				source("put", "-t", "b", "--pri", "4", "sad")
				source("bury", "4")
				file := filepath.Join(t.TempDir(), "jobs")
				exported := source("export", "-q")
				if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
					t.Fatal(err)
				}
				target("import", file)
				want, got := alike(t, exported), alike(t, target("export"))
				if !slices.Equal(want, got) || len(want) != 4 {
					t.Errorf("exported\n%s\nimported\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
				}
			})
		}
	}
}

// alike returns exported jobs sorted, without values that differ between servers.
func alike(t *testing.T, exported string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(exported) {
		var j job
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		if j.State == "delayed" && (j.Left < 3000_000 || j.Left > 3600_000) {
			t.Errorf("a delay of 1h is due in %d ms", j.Left)
		}
		j.ID, j.Age, j.At, j.Left, j.Reserves, j.Buries = 0, 0, 0, 0, 0, 0
		text, err := lineOf(&j)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	slices.Sort(lines)
	return lines
}

func TestTagsAreCopied(t *testing.T) {
	t.Parallel()
	from, addr, to := ours(t), ours(t), beanstalkd(t)
	source, target := on(t, from), on(t, addr)
	source("policy", "a", "max:5")
	source("put", "-t", "a", "--key", "k", "--retry", "1h,2h", "--delay", "1h", "--group", "Ann & \"Co\"", "x")
	file := filepath.Join(t.TempDir(), "jobs")
	exported := source("export")
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(exported, `"max"`) || !strings.Contains(exported, `"retry":["1h","2h"]`) {
		t.Errorf("a job's own tags are not what is exported: %s", exported)
	}
	target("import", file)
	if got := target("find", "-t", "a", "k", "--json"); !strings.Contains(got, `"retry":["1h","2h"]`) || !strings.Contains(got, `"state":"delayed"`) || !strings.Contains(got, `"group":"Ann & \"Co\""`) {
		t.Error("tags were lost:", got)
	}
	if got := runIn(t.Context(), "", "import", file, "-s", to); got.code != exitExtension || !strings.Contains(got.err, "--skip 0") {
		t.Error("beanstalkd took tags:", got)
	}
	on(t, to)("import", file, "--drop-tags")
}

// TestBrokenImport: a bad line in the middle is reported, and the lines before it were put.
func TestBrokenImport(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	good := `{"tube":"a","body":"x"}` + "\n"
	for _, bad := range []string{"nonsense", `{"tube":"a","colour":1}`, `{"body":"x"}`, `{"tube":"a","body_base64":"*"}`, `{"tube":"a b"}`, `{"tube":"a","body":"x","state":"delayed","at":32503680000000}`,
		`{"tube":"a","body":"x","state":"evil"}`} {
		got := runIn(t.Context(), good+good+bad+"\n"+good, "import", "-s", addr)
		if got.code == 0 || !strings.Contains(got.err, "line 3") || !strings.Contains(got.err, "--skip 2") {
			t.Errorf("%s: %+v", bad, got)
		}
		on(t, addr)("flush", "-t", "a", "--yes")
	}
	if got := runIn(t.Context(), good+good+"nonsense\n"+good, "import", "-s", addr, "--skip", "3"); got.code != 0 || !strings.Contains(got.err, "1 job imported") {
		t.Errorf("%+v", got)
	}
}

// TestImportDeadLetters: import says how many jobs are no dead letters any more.
func TestImportDeadLetters(t *testing.T) {
	t.Parallel()
	const lines = `{"tube":"a","body":"x","from_tube":"b","from_id":3}` + "\n" + `{"tube":"b","body":"home again","from_tube":"b","from_id":4}` + "\n"
	got := runIn(t.Context(), lines, "import", "-s", ours(t))
	if got.code != 0 || !strings.Contains(got.err, "2 jobs imported") || !strings.Contains(got.err, "1 dead letter became ordinary") {
		t.Errorf("%+v", got)
	}
}

// TestFullDisk: an error of writing the output is not reported as one of the server.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	addr := ours(t)
	for range 3 {
		on(t, addr)("put", strings.Repeat("x", 3000))
	}
	for _, command := range []string{"export", "tubes", "peek 1", "reserve --delete"} {
		var said buffer
		args := append([]string{"redstalk", "-s", addr}, strings.Fields(command)...)
		if code := run(t.Context(), stdio{strings.NewReader(""), full, &said}, args); code != exitFailed || !strings.Contains(said.String(), "writing the result") {
			t.Errorf("%s: exit code %d, %s", command, code, said.String())
		}
	}
	if got := on(t, addr)("peek", "1"); len(got) != 3000 {
		t.Errorf("the job that could not be printed: %q", got)
	}
}

// TestTerminal: no control sequences from a server or a job reach a terminal.
func TestTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;pwned\a\x1b[2J\x9b31m\u009b31m\u202eo\r\b"
	page := "---\n- \"a" + evil + "\"\n- x" + evil + "\n"
	for _, answer := range []string{"BAD " + evil + "\r\n", fmt.Sprintf("OK %d\r\n%s\r\n", len(page), page), "HTTP/1.1 400 " + evil + "\r\n\r\n"} {
		addr := rogue(t, answer)
		for _, command := range []string{"tubes", "tubes --names", "stats", "stats 1", "peek 1", "put x", "reserve", "policy", "policy x", "list", "export", "top --count 1", "find k", "delete 1"} {
			got := toTerminal(t, append([]string{"-s", addr, "--timeout", "1s"}, strings.Fields(command)...)...)
			if strings.ContainsAny(got, "\x1b\a\b\r\u009b\u202e") || !utf8.ValidString(got) {
				t.Errorf("%s: %q", command, got)
			}
		}
	}
	addr := ours(t)
	on(t, addr)("put", "--", "ä\n"+evil)
	if got := toTerminal(t, "-s", addr, "peek", "1"); got != `ä`+"\n"+`\x1b]0;pwned\a\x1b[2J\x9b31m\u009b31m\u202eo\r\b`+"\n" {
		t.Errorf("a job: %q", got)
	}
	got := toTerminal(t, "-s", addr, "reserve", "--exec", `printf '\033[1mbold'`)
	if !strings.HasPrefix(got, "\x1b[1mbold") {
		t.Errorf("what a command says: %q", got)
	}
}

// rogue is a server with the same reply to everything.
func rogue(t *testing.T, answer string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for buf := make([]byte, 1000); err == nil; {
					if _, err = conn.Read(buf); err == nil {
						_, err = io.WriteString(conn, answer)
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// toTerminal runs a command on a terminal, and returns its output.
func toTerminal(t *testing.T, args ...string) string {
	t.Helper()
	screen, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	run(t.Context(), stdio{strings.NewReader(""), &terminal{file: screen}, &terminal{file: screen}}, append([]string{"redstalk"}, args...))
	got, err := os.ReadFile(screen.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestCutCharacters: a character can be split over several writes.
func TestCutCharacters(t *testing.T) {
	t.Parallel()
	screen, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	to := &terminal{file: screen}
	for _, b := range []byte("ä€😀\xe2\x82x\xff\u202e\n") {
		if n, err := to.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, _ := os.ReadFile(screen.Name()); string(got) != `ä€😀\xe2\x82x\xff\u202e`+"\n" {
		t.Errorf("%q", got)
	}
}

// TestDrainWaits: drain --wait ends after that time, and the server refuses puts meanwhile; with --after it does not before.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	began := time.Now()
	if got := runIn(t.Context(), "", "drain", "--wait", "200ms", "-s", addr); got.code != 0 || time.Since(began) < 200*time.Millisecond {
		t.Errorf("%+v after %v", got, time.Since(began))
	}
	ctx, end := context.WithCancel(t.Context())
	outcomes := make(chan outcome)
	on(t, addr)("drain", "--off")
	go func() { outcomes <- runIn(ctx, "", "drain", "--after", "100ms", "--wait", "1h", "-s", addr) }()
	await(t, "a drain", func() bool { return strings.Contains(on(t, addr)("stats", "--json"), `"draining":true`) })
	end()
	if got := <-outcomes; got.code != exitInterrupted {
		t.Errorf("%+v", got)
	}
	on(t, addr)("drain", "--off")
	ctx, end = context.WithCancel(t.Context())
	end()
	if got := runIn(ctx, "", "drain", "--after", "1h", "-s", addr); got.code != exitInterrupted || strings.Contains(on(t, addr)("stats", "--json"), `"draining":true`) {
		t.Errorf("%+v", got)
	}
}

// TestEndsWhenTold: waiting commands end with their context, and nothing is lost.
func TestEndsWhenTold(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	ctx, end := context.WithCancel(t.Context())
	outcomes := make(chan outcome)
	go func() { outcomes <- runIn(ctx, "", "reserve", "-t", "a", "--wait", "forever", "-s", addr) }()
	await(t, "a waiting worker", func() bool {
		return strings.Contains(on(t, addr)("stats", "--json"), `"current-waiting":1`)
	})
	end()
	if got := <-outcomes; got.code != exitInterrupted {
		t.Errorf("%+v", got)
	}
	on(t, addr)("put", "-t", "a", "x")
	if got := on(t, addr)("reserve", "-t", "a", "--delete"); got != "x" {
		t.Error("the job went to", got)
	}
}
