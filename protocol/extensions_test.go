package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// extended has lines of extensions, without CRLF, and their commands. {name}, {key}, {lease} and
// {cursor} have the longest allowed length, and one byte more with a +.
var extended = map[string]string{
	"reserve-lease 5":                     "reserve-lease 5",
	"reserve-lease  2147483647":           "reserve-lease 2147483647",
	"reserve-lease 2147483648":            "reserve-lease BAD_FORMAT",
	"reserve-lease 5 ":                    "reserve-lease BAD_FORMAT",
	"reserve-lease 5 info":                "reserve-lease 5 info",
	"reserve-lease 5info":                 "reserve-lease BAD_FORMAT",
	"reserve-lease 5 information":         "reserve-lease BAD_FORMAT",
	"reserve-lease info":                  "reserve-lease BAD_FORMAT",
	"reserve-lease 5 lease":               "reserve-lease BAD_FORMAT",
	"reserve-batch 2 lease":               "reserve-batch [2 0] lease",
	"reserve-batch 2  5  lease  info":     "reserve-batch [2 5] lease info",
	"reserve-batch 2 info":                "reserve-batch [2 0] info",
	"reserve-batch 2 info lease":          "reserve-batch BAD_FORMAT",
	"reserve-batch 2 leaseinfo":           "reserve-batch BAD_FORMAT",
	"reserve-batch 2lease":                "reserve-batch BAD_FORMAT",
	"reserve-batch 2 5 lease ":            "reserve-batch BAD_FORMAT",
	"reserve-batch 2 lease 5":             "reserve-batch BAD_FORMAT",
	"reserve-batch 2 2147483648":          "reserve-batch BAD_FORMAT",
	"reserve-lease 5x":                    "reserve-lease BAD_FORMAT",
	"reserve-lease ":                      "reserve-lease BAD_FORMAT",
	"reserve-lease":                       "reserve BAD_FORMAT",
	"delete-lease":                        unknown,
	"delete-lease 1 {20}":                 "delete-lease 1 20",
	"delete-lease  1  {20}":               "delete-lease 1 20",
	"touch-lease 1 {20}":                  "touch-lease 1 20",
	"release-lease 1 {20} 2 3":            "release-lease 1 20 2 3",
	"bury-lease 1 {20} 2":                 "bury-lease 1 20 2",
	"bury-lease 1 {lease}  2":             "bury-lease 1 0 2",
	"touch-lease 1 20":                    "touch-lease 1 0",
	"touch-lease 1 {20}0":                 "touch-lease 1 0",
	"touch-lease 1 {20}x":                 "touch-lease 1 0",
	"touch-lease 1 {lease}":               "touch-lease 1 0",
	"touch-lease 1 -":                     "touch-lease 1 0",
	"touch-lease 1 {lease+}":              "touch-lease BAD_FORMAT",
	"touch-lease 1 ":                      "touch-lease BAD_FORMAT",
	"touch-lease 1":                       "touch-lease BAD_FORMAT",
	"touch-lease 1x":                      "touch-lease BAD_FORMAT",
	"touch-lease 1 a\tb":                  "touch-lease BAD_FORMAT",
	"touch-lease 1 \x7f":                  "touch-lease BAD_FORMAT",
	"touch-lease 1 \xff":                  "touch-lease BAD_FORMAT",
	"touch-lease 1 a ":                    "touch-lease BAD_FORMAT",
	"touch-lease 1 a b":                   "touch-lease BAD_FORMAT",
	"touch-lease x a":                     "touch-lease BAD_FORMAT",
	"release-lease 1 {20} 2":              "release-lease BAD_FORMAT",
	"release-lease 1 {20} 2 3 ":           "release-lease BAD_FORMAT",
	"release-lease 1 a 2 3 4":             "release-lease BAD_FORMAT",
	"bury-lease 1 a":                      "bury-lease BAD_FORMAT",
	"bury-lease 1 a 4294967296":           "bury-lease BAD_FORMAT",
	"bury-lease 1 a 1x":                   "bury-lease BAD_FORMAT",
	"delete-lease 1 0{20}":                "delete-lease 1 0",
	"delete-lease 1 18446744073709551615": "delete-lease 1 18446744073709551615",
	"delete-lease 1 18446744073709551616": "delete-lease 1 0",

	"list-jobs a ready":                     "list-jobs a ready 100",
	"list-jobs a delayed 1":                 "list-jobs a delayed 1",
	"list-jobs  a  reserved  1000":          "list-jobs a reserved 1000",
	"list-jobs {name} buried 1000 {cursor}": "list-jobs {name} buried 1000 {cursor}",
	"list-jobs a ready 5 ~!:":               "list-jobs a ready 5 ~!:",
	"list-jobs a ready 5 {cursor+}":         "list-jobs BAD_FORMAT",
	"list-jobs a ready 5 \x80":              "list-jobs BAD_FORMAT",
	"list-jobs a ready 5 ":                  "list-jobs BAD_FORMAT",
	"list-jobs a ready 5x":                  "list-jobs BAD_FORMAT",
	"list-jobs a ready 5 c ":                "list-jobs BAD_FORMAT",
	"list-jobs a ready 5 c d":               "list-jobs BAD_FORMAT",
	"list-jobs a ready ":                    "list-jobs BAD_FORMAT",
	"list-jobs a ready 0":                   "list-jobs BAD_FORMAT",
	"list-jobs a ready 1001":                "list-jobs BAD_FORMAT",
	"list-jobs a ready c":                   "list-jobs BAD_FORMAT",
	"list-jobs a READY":                     "list-jobs BAD_FORMAT",
	"list-jobs a readyx":                    "list-jobs BAD_FORMAT",
	"list-jobs a gone":                      "list-jobs BAD_FORMAT",
	"list-jobs a":                           "list-jobs BAD_FORMAT",
	"list-jobs -a ready":                    "list-jobs BAD_FORMAT",
	"list-jobs a: ready":                    "list-jobs BAD_FORMAT",
	"list-jobs":                             unknown,
	"list-jobsx":                            unknown,

	"find a k":                "find a k",
	"find {name} {key}":       "find {name} {key}",
	"find a key:1,2":          "find a key:1,2",
	"find a {key+}":           "find BAD_FORMAT",
	"find {name+} k":          "find BAD_FORMAT",
	"find a k ":               "find BAD_FORMAT",
	"find a ":                 "find BAD_FORMAT",
	"find a":                  "find BAD_FORMAT",
	"find ":                   "find BAD_FORMAT",
	"find a é":                "find BAD_FORMAT",
	"find":                    unknown,
	"delete-key a k":          "delete-key a k",
	"delete-key {name} {key}": "delete-key {name} {key}",
	"delete-key a":            "delete-key BAD_FORMAT",
	"delete-key a k l":        "delete-key BAD_FORMAT",

	"flush-tube a":               "flush-tube a",
	"flush-tube {name} ready":    "flush-tube {name} ready",
	"flush-tube {name} reserved": "flush-tube {name} reserved",
	"flush-tube a delayed":       "flush-tube a delayed",
	"flush-tube a buried":        "flush-tube a buried",
	"flush-tube a buried ":       "flush-tube BAD_FORMAT",
	"flush-tube a ":              "flush-tube BAD_FORMAT",
	"flush-tube a all":           "flush-tube BAD_FORMAT",
	"flush-tube ":                "flush-tube BAD_FORMAT",
	"flush-tube":                 unknown,

	"move-jobs a ready b 1":                      "move-jobs a ready b 1",
	"move-jobs {name} delayed {name} 4294967295": "move-jobs {name} delayed {name} 4294967295",
	"move-jobs a buried a 7":                     "move-jobs a buried a 7",
	"move-jobs a reserved b 7":                   "move-jobs BAD_FORMAT",
	"move-jobs a ready b 0":                      "move-jobs BAD_FORMAT",
	"move-jobs a ready b 4294967296":             "move-jobs BAD_FORMAT",
	"move-jobs a ready b":                        "move-jobs BAD_FORMAT",
	"move-jobs a ready -b 1":                     "move-jobs BAD_FORMAT",
	"move-jobs a ready 1":                        "move-jobs BAD_FORMAT",
	"move-jobs a ready b 1 ":                     "move-jobs BAD_FORMAT",

	"auth a b":      `auth a "b"`,
	"auth a:b c d ": `auth a:b "c d "`,
	"auth  a  b":    `auth a " b"`,
	"auth a \xff\t": `auth a "\xff\t"`,
	"auth {key} b":  `auth {key} "b"`,
	"auth {key+} b": "auth BAD_FORMAT",
	"auth \xff b":   "auth BAD_FORMAT",
	"auth a":        "auth BAD_FORMAT",
	"auth a ":       "auth BAD_FORMAT",
	"auth ":         "auth BAD_FORMAT",
	"auth":          unknown,
	"authx a b":     unknown,

	"seal-batch a":                    "seal-batch a",
	"stats-batch  a:b":                "stats-batch a:b",
	"cancel-batch {batch}":            "cancel-batch {batch}",
	"seal-batch {batch}b":             "seal-batch BAD_FORMAT",
	"seal-batch a b":                  "seal-batch BAD_FORMAT",
	"seal-batch é":                    "seal-batch BAD_FORMAT",
	"seal-batch ":                     "seal-batch BAD_FORMAT",
	"seal-batch":                      unknown,
	"list-batches":                    "list-batches 100",
	"list-batches 7 {batch}":          "list-batches 7 {batch}",
	"list-batches 7 {batch}b":         "list-batches BAD_FORMAT",
	"list-batches ":                   "list-batches BAD_FORMAT",
	"list-batchesx":                   unknown,
	"list-members a":                  "list-members a 100",
	"list-members {batch} 7 {cursor}": "list-members {batch} 7 {cursor}",
	"list-members a 7 {cursor+}":      "list-members BAD_FORMAT",
	"list-members a 1001":             "list-members BAD_FORMAT",
	"list-members":                    unknown,

	"history hours":               "history hours 1000",
	"history  days  7":            "history days 7",
	"history-tube a days 90":      "history-tube a days 90",
	"history-tube {name} hours 7": "history-tube {name} hours 7",
	"history-tube a hours 0":      "history-tube BAD_FORMAT",
	"history-tube a weeks":        "history-tube BAD_FORMAT",
	"history-tube a":              "history-tube BAD_FORMAT",
	"history hours 1001":          "history BAD_FORMAT",
	"history hours x":             "history BAD_FORMAT",
	"history ":                    "history BAD_FORMAT",
	"history":                     unknown,

	"get-policy a":      "get-policy a",
	"get-policy {name}": "get-policy {name}",
	"get-policy ":       "get-policy BAD_FORMAT",
	"get-policy a b":    "get-policy BAD_FORMAT",
	"list-policies":     "list-policies",
	"list-policies ":    unknown,
	"list-policiesx":    unknown,

	"set-policy a":      "set-policy a",
	"set-policy {name}": "set-policy {name}",
	"set-policy a retry:1,2m max:3 dead:d key-ttl:1h on-duplicate:fail quota-jobs:4 quota-bytes:18446744073709551615": "set-policy a" +
		" on-duplicate=fail key-ttl=1h0m0s retry=[1s 2m0s] max=3 dead=d quota-jobs=4 quota-bytes=18446744073709551615",
	"set-policy  a  quota-jobs:0":                   "set-policy a quota-jobs=0",
	"set-policy a quota-jobs:":                      "set-policy BAD_FORMAT",
	"set-policy a quota-jobs:-1":                    "set-policy BAD_FORMAT",
	"set-policy a quota-jobs:1x":                    "set-policy BAD_FORMAT",
	"set-policy a quota-jobs:1 quota-jobs:1":        "set-policy BAD_FORMAT",
	"set-policy a quota-bytes:18446744073709551616": "set-policy BAD_FORMAT",
	"set-policy a key:k":                            "set-policy BAD_FORMAT",
	"set-policy a push:https://a.b:8443/c?d=e%20f push-concurrency:10000 push-timeout:1h push-rate:1000000/m": "set-policy a" +
		" push=https://a.b:8443/c?d=e%20f push-concurrency=10000 push-timeout=1h0m0s push-rate=1000000/m",
	"set-policy a push:http://[::1]:1 push-rate:7":      "set-policy a push=http://[::1]:1 push-rate=7/s",
	"set-policy a push:http://a:65536/":                 "set-policy BAD_FORMAT",
	"set-policy a push:http://a:/":                      "set-policy BAD_FORMAT",
	"set-policy a push:http:///":                        "set-policy BAD_FORMAT",
	"set-policy a push:http://u:p@a/":                   "set-policy BAD_FORMAT",
	"set-policy a push:http://a/#b":                     "set-policy BAD_FORMAT",
	"set-policy a push:http://a/%zz":                    "set-policy BAD_FORMAT",
	"set-policy a push:HTTP://a/":                       "set-policy BAD_FORMAT",
	"set-policy a push:ftp://a/":                        "set-policy BAD_FORMAT",
	"set-policy a push:a":                               "set-policy BAD_FORMAT",
	"set-policy a push:":                                "set-policy BAD_FORMAT",
	"set-policy a push-rate:7":                          "set-policy BAD_FORMAT",
	"set-policy a push:http://a push-rate:0":            "set-policy BAD_FORMAT",
	"set-policy a push:http://a push-rate:1/d":          "set-policy BAD_FORMAT",
	"set-policy a push:http://a push-timeout:0":         "set-policy BAD_FORMAT",
	"set-policy a push:http://a push-timeout:61m":       "set-policy BAD_FORMAT",
	"set-policy a push:http://a push-concurrency:10001": "set-policy BAD_FORMAT",
	"set-policy a group-concurrency:3 group-rate:100/m,1000/h group-order:strict concurrency:50 rate:200/s": "set-policy a" +
		" group-concurrency=3 group-rate=100/m,1000/h group-order=strict concurrency=50 rate=200/s",
	"set-policy a rate:3/h,2/m,1":                                            "set-policy a rate=1/s,2/m,3/h",
	"set-policy a group-order:fair concurrency:1":                            "set-policy a group-order=fair concurrency=1",
	"set-policy a concurrency:1000000 rate:1000000/h group-concurrency:0001": "set-policy a group-concurrency=1 concurrency=1000000 rate=1000000/h",
	"set-policy a concurrency:0":                                             "set-policy BAD_FORMAT",
	"set-policy a concurrency:1000001":                                       "set-policy BAD_FORMAT",
	"set-policy a group-concurrency:0":                                       "set-policy BAD_FORMAT",
	"set-policy a group-concurrency:x":                                       "set-policy BAD_FORMAT",
	"set-policy a rate:":                                                     "set-policy BAD_FORMAT",
	"set-policy a rate:0/s":                                                  "set-policy BAD_FORMAT",
	"set-policy a rate:1000001":                                              "set-policy BAD_FORMAT",
	"set-policy a rate:1/d":                                                  "set-policy BAD_FORMAT",
	"set-policy a rate:1/s,":                                                 "set-policy BAD_FORMAT",
	"set-policy a rate:1/s,2":                                                "set-policy BAD_FORMAT",
	"set-policy a rate:1/m,2/h,3/m":                                          "set-policy BAD_FORMAT",
	"set-policy a group-rate:-1":                                             "set-policy BAD_FORMAT",
	"set-policy a group-order:":                                              "set-policy BAD_FORMAT",
	"set-policy a group-order:Strict":                                        "set-policy BAD_FORMAT",
	"set-policy a rate:1 rate:2/m":                                           "set-policy BAD_FORMAT",
	"set-policy a group:g":                                                   "set-policy BAD_FORMAT",
	"set-policy a weight:1":                                                  "set-policy BAD_FORMAT",
	"set-policy a ttl:1":                                                     "set-policy BAD_FORMAT",

	"set-group a g":          `set-group a "g"`,
	"set-group {name} {key}": `set-group {name} "{key}"`,
	"set-group  a  g  concurrency:3  rate:5/m weight:7 ttl:30d": `set-group a "g" concurrency=3 rate=5/m weight=7 ttl=720h0m0s`,
	`set-group a "g h" ttl:0`:                                   `set-group a "g h" ttl=0s`,
	`set-group a "\"\\\n\tä" weight:1000`:                       `set-group a "\"\\\n\tä" weight=1000`,
	`set-group a g"h`:                                           `set-group a "g\"h"`,
	"set-group a weight:1":                                      `set-group a "weight:1"`,
	"set-group a g weight:0":                                    "set-group BAD_FORMAT",
	"set-group a g weight:1001":                                 "set-group BAD_FORMAT",
	"set-group a g weight:1 weight:1":                           "set-group BAD_FORMAT",
	"set-group a g ttl:":                                        "set-group BAD_FORMAT",
	"set-group a g ttl:3651d":                                   "set-group BAD_FORMAT",
	"set-group a g concurrency:0":                               "set-group BAD_FORMAT",
	"set-group a g group-concurrency:1":                         "set-group BAD_FORMAT",
	"set-group a g group-order:strict":                          "set-group BAD_FORMAT",
	"set-group a g group:g":                                     "set-group BAD_FORMAT",
	"set-group a g ":                                            "set-group BAD_FORMAT",
	"set-group a g weight:1 ":                                   "set-group BAD_FORMAT",
	"set-group a g h":                                           "set-group BAD_FORMAT",
	"set-group a {key+}":                                        "set-group BAD_FORMAT",
	"set-group a ":                                              "set-group BAD_FORMAT",
	"set-group a":                                               "set-group BAD_FORMAT",
	"set-group -a g":                                            "set-group BAD_FORMAT",
	"set-group ":                                                "set-group BAD_FORMAT",
	"set-group":                                                 unknown,
	"get-group a g":                                             `get-group a "g"`,
	`get-group a "g h"`:                                         `get-group a "g h"`,
	`get-group a "{key}"`:                                       `get-group a "{key}"`,
	`get-group a "{key+}"`:                                      "get-group BAD_FORMAT",
	`get-group a ""`:                                            "get-group BAD_FORMAT",
	`get-group a "g`:                                            "get-group BAD_FORMAT",
	`get-group a "g"h`:                                          "get-group BAD_FORMAT",
	`get-group a "g" `:                                          "get-group BAD_FORMAT",
	`get-group a "\x"`:                                          "get-group BAD_FORMAT",
	"get-group a \"\t\"":                                        "get-group BAD_FORMAT",
	"get-group a \"\xff\"":                                      "get-group BAD_FORMAT",
	"get-group a \xff":                                          "get-group BAD_FORMAT",
	"get-group a g\t":                                           "get-group BAD_FORMAT",
	"get-group a g weight:1":                                    "get-group BAD_FORMAT",
	"get-group a":                                               "get-group BAD_FORMAT",
	"stats-group a g":                                           `stats-group a "g"`,
	"stats-group a g 1":                                         "stats-group BAD_FORMAT",
	"stats-group a":                                             "stats-group BAD_FORMAT",
	"flush-group a g":                                           `flush-group a "g"`,
	"flush-group a g ready":                                     "flush-group BAD_FORMAT",
	"flush-group a":                                             "flush-group BAD_FORMAT",
	"pause-group a g 5":                                         `pause-group a "g" 5`,
	`pause-group a "5" 0`:                                       `pause-group a "5" 0`,
	"pause-group a 5 4294967295":                                `pause-group a "5" 4294967295`,
	"pause-group a g 4294967296":                                "pause-group BAD_FORMAT",
	"pause-group a g -1":                                        "pause-group BAD_FORMAT",
	"pause-group a g 5 ":                                        "pause-group BAD_FORMAT",
	"pause-group a g 5x":                                        "pause-group BAD_FORMAT",
	"pause-group a g":                                           "pause-group BAD_FORMAT",
	"pause-group a 5":                                           "pause-group BAD_FORMAT",
	`pause-group a "g"5`:                                        "pause-group BAD_FORMAT",
	"pause-group a":                                             "pause-group BAD_FORMAT",
	"list-groups a":                                             "list-groups a 100",
	"list-groups {name} 1000 {groupcursor}":                     "list-groups {name} 1000 {groupcursor}",
	"list-groups  a  1  Zw":                                     "list-groups a 1 Zw",
	"list-groups a 1 {groupcursor+}":                            "list-groups BAD_FORMAT",
	"list-groups a 0":                                           "list-groups BAD_FORMAT",
	"list-groups a 1001":                                        "list-groups BAD_FORMAT",
	"list-groups a ":                                            "list-groups BAD_FORMAT",
	"list-groups a 1 c d":                                       "list-groups BAD_FORMAT",
	"list-groups ":                                              "list-groups BAD_FORMAT",
	"list-groups":                                               unknown,
	"set-policy a delay:1":                                      "set-policy BAD_FORMAT",
	"set-policy a at:1":                                         "set-policy BAD_FORMAT",
	"set-policy a max:1 ":                                       "set-policy BAD_FORMAT",
	"set-policy a ":                                             "set-policy BAD_FORMAT",
	"set-policy -a max:1":                                       "set-policy BAD_FORMAT",
	"set-policy max:1":                                          "set-policy BAD_FORMAT",
	"set-policy ":                                               "set-policy BAD_FORMAT",

	"reserve-batch 1":              "reserve-batch [1 0]",
	"reserve-batch 1000":           "reserve-batch [1000 0]",
	"reserve-batch 5  10":          "reserve-batch [5 10]",
	"reserve-batch 0":              "reserve-batch BAD_FORMAT",
	"reserve-batch 1001":           "reserve-batch BAD_FORMAT",
	"reserve-batch 1 2 3":          "reserve-batch BAD_FORMAT",
	"reserve-batch 1 ":             "reserve-batch BAD_FORMAT",
	"reserve-batch 9 8 lease info": "reserve-batch [9 8] lease info",
	"reserve-batch 9 info":         "reserve-batch [9 0] info",
	"reserve-batch 9 8 info lease": "reserve-batch BAD_FORMAT",
	"reserve-batch 9 2147483647":   "reserve-batch [9 2147483647]",
	"reserve-batch 9 2147483648":   "reserve-batch BAD_FORMAT",

	"delete-batch 1 22  333": "delete-batch [1 22 333]",
	"delete-batch 1x":        "delete-batch BAD_FORMAT",
	"delete-batch":           unknown,
	"delete-batch ":          "delete-batch BAD_FORMAT",
	"delete-batch 1 ":        "delete-batch BAD_FORMAT",
	"delete-batch{1000}":     "delete-batch [{ones}]",
	"delete-batch{1001}":     "delete-batch BAD_FORMAT",

	"reschedule 1 5":                    "reschedule 1 5s",
	"reschedule 2 250ms":                "reschedule 2 250ms",
	"reschedule 3  36h":                 "reschedule 3 36h0m0s",
	"reschedule 4 3650d":                "reschedule 4 87600h0m0s",
	"reschedule 4 3651d":                "reschedule BAD_FORMAT",
	"reschedule 5 1w":                   "reschedule BAD_FORMAT",
	"reschedule 5 -1":                   "reschedule BAD_FORMAT",
	"reschedule 5":                      "reschedule BAD_FORMAT",
	"reschedule 5 1 ":                   "reschedule BAD_FORMAT",
	"reschedule 18446744073709551616 1": "reschedule BAD_FORMAT",

	"set-priority 7 12":         "set-priority 7 12",
	"set-priority 7 4294967295": "set-priority 7 4294967295",
	"set-priority 7 4294967296": "set-priority BAD_FORMAT",
	"set-priority 7":            "set-priority BAD_FORMAT",
	"set-priority 7 1 ":         "set-priority BAD_FORMAT",
	"set-priority 7 1 2":        "set-priority BAD_FORMAT",

	"replay-job 7":                    "replay-job 7",
	"replay-job 18446744073709551615": "replay-job 18446744073709551615",
	"replay-job 18446744073709551616": "replay-job BAD_FORMAT",
	"replay-job":                      unknown,
	"replay-job 7 ":                   "replay-job BAD_FORMAT",
	"replay-job x":                    "replay-job BAD_FORMAT",

	"take-back 7":   "take-back 7",
	"take-back 7 8": "take-back BAD_FORMAT",
	"take-back x":   "take-back BAD_FORMAT",
	"take-back":     unknown,

	"close-client 7":          "close-client 7",
	"close-client 7 host:1:2": "close-client 7 host:1:2",
	"close-client 7 {key+}":   "close-client BAD_FORMAT",
	"close-client 7 a b":      "close-client BAD_FORMAT",
	"close-client 7 ":         "close-client BAD_FORMAT",
	"close-client a":          "close-client BAD_FORMAT",
	"close-client":            unknown,

	"list-hung":   "list-hung",
	"list-hung 7": unknown,

	"client b-1:":   "client b-1:",
	"client {key}":  "client {key}",
	"client {key+}": "client BAD_FORMAT",
	"client a b":    "client BAD_FORMAT",
	"client":        unknown,
	"client ":       "client BAD_FORMAT",
	`client "a b"`:  "client a b",
	`client ""`:     "client BAD_FORMAT",
	`client "a\n"`:  "client BAD_FORMAT",
	`client "a" b`:  "client BAD_FORMAT",

	"list-clients":             "list-clients 100",
	"list-clients 7":           "list-clients 7",
	"list-clients 1000 c:1":    "list-clients 1000 c:1",
	"list-clients 1001":        "list-clients BAD_FORMAT",
	"list-clients 0":           "list-clients BAD_FORMAT",
	"list-clients 7 {cursor}":  "list-clients 7 {cursor}",
	"list-clients 7 {cursor+}": "list-clients BAD_FORMAT",
	"list-clientsx":            unknown,
	"list-clients ":            "list-clients BAD_FORMAT",
	"list-clients 7 c d":       "list-clients BAD_FORMAT",

	"watch a 1":       "watch a 1",
	"watch a 1000":    "watch a 1000",
	"watch a 1001":    "watch BAD_FORMAT",
	"watch a 0":       "watch BAD_FORMAT",
	"watch a ":        "watch BAD_FORMAT",
	"watch  a 1":      "watch BAD_FORMAT",
	"watch a 1 2":     "watch BAD_FORMAT",
	"watch {name+} 1": "watch BAD_FORMAT",

	"list-schedules":            "list-schedules 100",
	"list-schedules 5 a":        "list-schedules 5 a",
	"list-schedules 1000":       "list-schedules 1000",
	"list-schedules 1001":       "list-schedules BAD_FORMAT",
	"list-schedules 0":          "list-schedules BAD_FORMAT",
	"list-schedules 5 {batch}":  "list-schedules 5 {batch}",
	"list-schedules 5 {batch}b": "list-schedules BAD_FORMAT",
	"list-schedulesx":           unknown,

	"get-schedule a":        "get-schedule a",
	"get-schedule {batch}":  "get-schedule {batch}",
	"get-schedule {batch}b": "get-schedule BAD_FORMAT",
	"get-schedule -a":       "get-schedule BAD_FORMAT",
	"get-schedule":          unknown,
	"get-schedule a b":      "get-schedule BAD_FORMAT",

	"preview-schedule a 5":                  "preview-schedule a 5",
	`preview-schedule "* * * * *" 5 tz:UTC`: `preview-schedule  5 cron="* * * * *" tz=UTC`,
	"preview-schedule a 1000":               "preview-schedule a 1000",
	"preview-schedule a 1001":               "preview-schedule BAD_FORMAT",
	"preview-schedule a 0":                  "preview-schedule BAD_FORMAT",
	`preview-schedule "a"5`:                 "preview-schedule BAD_FORMAT",
	"preview-schedule a":                    "preview-schedule BAD_FORMAT",

	"finish 7 0\r\n":               `finish 7 ""`,
	"finish 7 3\r\nabc":            `finish 7 "abc"`,
	"finish 7 3x":                  "finish BAD_FORMAT",
	"finish 7 3 ":                  "finish BAD_FORMAT",
	"finish 7":                     "finish BAD_FORMAT",
	"finish":                       unknown,
	"finish-lease 7 {20} 3\r\nabc": `finish-lease 7 20 "abc"`,
	"finish-lease 7 x 3\r\nabc":    `finish-lease 7 0 "abc"`,
	"finish-lease 7 3":             "finish-lease BAD_FORMAT",
	"finish-lease 7 {lease+} 3":    "finish-lease BAD_FORMAT",

	"checkpoint 7 0\r\n":               `checkpoint 7 ""`,
	"checkpoint 7 3\r\nabc":            `checkpoint 7 "abc"`,
	"checkpoint 7 3 ":                  "checkpoint BAD_FORMAT",
	"checkpoint":                       unknown,
	"checkpoint-lease 7 {20} 3\r\nabc": `checkpoint-lease 7 20 "abc"`,
	"checkpoint-lease 7 {lease+} 3":    "checkpoint-lease BAD_FORMAT",
	"get-checkpoint 7":                 "get-checkpoint 7",
	"get-checkpoint 7 8":               "get-checkpoint BAD_FORMAT",
	"get-checkpoint":                   unknown,
	"kick 7 keep-checkpoint":           "kick 7 keep-checkpoint",
	"kick  7  keep-checkpoint x":       "kick 7 keep-checkpoint",
	"kick 7keep-checkpoint":            "kick 7",
	"kick 7 keep-checkpoints":          "kick 7",
	"kick-job 7 keep-checkpoint":       "kick-job 7 keep-checkpoint",
	"kick-job 7 keep-checkpoint ":      "kick-job BAD_FORMAT",
	"kick-job 7keep-checkpoint":        "kick-job BAD_FORMAT",
	"kick-job keep-checkpoint":         "kick-job BAD_FORMAT",
	"replay-job 7 keep-checkpoint":     "replay-job 7 keep-checkpoint",
	"replay-job 7 keep":                "replay-job BAD_FORMAT",

	"wait-job 7 5":          "wait-job 7 5",
	"wait-job 7 2147483647": "wait-job 7 2147483647",
	"wait-job 7 2147483648": "wait-job BAD_FORMAT",
	"wait-job 7":            "wait-job BAD_FORMAT",
	"wait-job 7 5x":         "wait-job BAD_FORMAT",
	"wait-job 7 5 ":         "wait-job BAD_FORMAT",
	"wait-job x 5":          "wait-job BAD_FORMAT",

	"stats-ended 7":   "stats-ended 7",
	"stats-ended 7 8": "stats-ended BAD_FORMAT",

	"list-ended a":                        "list-ended a 100",
	"list-ended {name} 1000 {cursor}":     "list-ended {name} 1000 {cursor}",
	"list-ended batch:{batch} 7 {cursor}": "list-ended batch:{batch} 7 {cursor}",
	"list-ended batch:a:b":                "list-ended batch:a:b 100",
	"list-ended batch:":                   "list-ended BAD_FORMAT",
	"list-ended batch:{batch}b":           "list-ended BAD_FORMAT",
	"list-ended a:b":                      "list-ended BAD_FORMAT",
	"list-ended {name+}":                  "list-ended BAD_FORMAT",
	"list-ended a 1001":                   "list-ended BAD_FORMAT",
	"list-ended a 7 {cursor+}":            "list-ended BAD_FORMAT",
	"list-ended":                          unknown,

	"drain":          "drain",
	"drain 1":        unknown,
	"undrain":        "undrain",
	"capabilities":   "capabilities",
	"capabilities 1": unknown,
}

func TestExtensions(t *testing.T) {
	fill := strings.NewReplacer(
		"{name}", strings.Repeat("n", MaxName), "{name+}", strings.Repeat("n", MaxName+1),
		"{batch}", strings.Repeat("b", MaxBatchName),
		"{key}", strings.Repeat("~", MaxKey), "{key+}", strings.Repeat("~", MaxKey+1),
		"{cursor}", strings.Repeat("!", MaxCursor), "{cursor+}", strings.Repeat("!", MaxCursor+1),
		"{groupcursor}", strings.Repeat("!", MaxGroupCursor), "{groupcursor+}", strings.Repeat("!", MaxGroupCursor+1),
		"{lease}", strings.Repeat("l", MaxLease), "{lease+}", strings.Repeat("l", MaxLease+1),
		"{20}", "00000000000000000020",
		"{1000}", strings.Repeat(" 1", MaxBatch), "{1001}", strings.Repeat(" 1", MaxBatch+1), "{ones}", strings.TrimSpace(strings.Repeat("1 ", MaxBatch)),
	)
	for line, want := range extended {
		check(t, fill.Replace(line)+"\r\n"+used+"\r\n", 65535, fill.Replace(want), used)
	}
	for _, tag := range []string{"every:0", `cron:""`, "catch-up-all:0", "catch-up-all:1001", "overlap:never", "from:0"} {
		check(t, "set-schedule a b 1 2 3 "+tag+"\r\nabc\r\n"+used+"\r\n", 65535, "set-schedule BAD_FORMAT counted", used)
	}
}

// TestResultTooBig checks that a result or a checkpoint has a limit of its own, whatever that of bodies is, and that a longer one is skipped.
func TestResultTooBig(t *testing.T) {
	for word, limit := range map[string]int{"finish": MaxResult, "checkpoint": MaxCheckpoint} {
		largest := strings.Repeat("r", limit)
		for _, maxBody := range []int{0, MaxBody} {
			check(t, fmt.Sprintf("%s 7 %d\r\n%s\r\n%s\r\n", word, limit, largest, used), maxBody, fmt.Sprintf("%s 7 %s", word, showBody([]byte(largest))), used)
			check(t, fmt.Sprintf("%s 7 %d\r\n%sr\r\n%s\r\n", word, limit+1, largest, used), maxBody, word+" JOB_TOO_BIG counted", used)
			check(t, word+"-lease 7 00000000000000000020 3\r\nabcd\r\n"+used+"\r\n", maxBody, word+"-lease EXPECTED_CRLF counted", unknown)
		}
	}
}

// TestLongestLines checks that a line can be exactly as long as its verb allows, and that a
// longer one is skipped like any line that is too long, and with it a body behind tags.
func TestLongestLines(t *testing.T) {
	for _, tc := range []struct {
		line, want   string // with a run of zeros for 0+
		largestSoFar int
	}{
		{"set-policy a max:0+1", "set-policy a max=1", 4096},
		{"put 0 0 1 1 max:0+1\r\na", `put 0 0 1 "a" max=1`, 4096},
		{"set-group a g weight:0+1", `set-group a "g" weight=1`, 4096},
		{"pause-group a g 0+1", `pause-group a "g" 1`, 4096},
		{"list-groups a 0+1", "list-groups a 1", 450},
		{"list-jobs a ready 0+1", "list-jobs a ready 1", 450},
		{"move-jobs a ready b 0+1", "move-jobs a ready b 1", 450},
		{"find a" + "0+k", "find BAD_FORMAT", 450},
		{"delete-key a" + "0+k", "delete-key BAD_FORMAT", 450},
		{"touch 0+1", "touch 1", 224},
		{"touch-lease 0+1 a", "touch-lease 1 0", 224},
		{"touch 0+1 progress:a", `touch 1 progress="a"`, 4096},
		{"touch-lease 0+1 a progress:a", `touch-lease 1 0 progress="a"`, 4096},
		{"reserve-lease 0+1", "reserve-lease 1", 224},
		{"list-ended a 0+1", "list-ended a 1", 450},
		{"wait-job 0+1 2", "wait-job 1 2", 224},
	} {
		line, body, _ := strings.Cut(tc.line, "\r\n")
		if body != "" {
			body += "\r\n"
		}
		for _, size := range []int{tc.largestSoFar, tc.largestSoFar + 1} {
			zeros := strings.Repeat("0", size-len(line)-len(crlf)+len("0+"))
			input, want := strings.Replace(line, "0+", zeros, 1)+"\r\n"+body+used+"\r\n", []string{tc.want, used}
			if size > tc.largestSoFar {
				if want[0] = bad; body != "" {
					want[0] = "put BAD_FORMAT"
				}
			}
			check(t, input, 65535, want...)
		}
	}
}

// TestStateWords checks the words of all states, and that nothing else has a word.
func TestStateWords(t *testing.T) {
	for s, want := range map[State]string{NoState: "", Ready: "ready", Reserved: "reserved", Delayed: "delayed", Buried: "buried", Buried + 1: ""} {
		if got := s.String(); got != want {
			t.Errorf("state %d is %q, want %q", uint8(s), got, want)
		}
	}
}

// TestLeaseOnTheWire checks that the token of a reply can be used in a command.
func TestLeaseOnTheWire(t *testing.T) {
	for _, lease := range []uint64{1, 9, 10, 1 << 40, 1<<64 - 1} {
		text := string(AppendLease(nil, lease))
		if len(text) > MaxLease {
			t.Errorf("%q has %d bytes", text, len(text))
		}
		check(t, "touch-lease 7 "+text+"\r\n", 0, fmt.Sprint("touch-lease 7 ", lease))
		if lease > 1 && text <= string(AppendLease(nil, lease-1)) {
			t.Errorf("%s is not larger than the token before", text)
		}
	}
}
