package differ

// Difference is an allowed difference from beanstalkd, or
// random behaviour of either server, and how this package excludes it.
// Transcript names the file in testdata/transcripts that shows it; a test checks that all files with
// an `only` block are listed.
type Difference struct {
	Name       string
	Transcript string // without its ending; "" if none can show it
	Reason     string
	Means      string
}

// Differences is everything that is not compared, in one place.
// docs/compatibility.md explains the same for users.
var Differences = []Difference{
	{"ttr-expiry-idle-holder", "ttr-expiry-idle-holder",
		"beanstalkd often forgets to take a job back from a holder that does nothing; the next command of the holder reminds it",
		"after a TTR has run out the holder sends list-tube-used, to both servers"},
	{"ttr-expiry-idle-holder", "wait-ends-with-ttr",
		"the same, so that a wait that ends with another's TTR can get the job or not",
		"the same"},
	{"ttr-after-deadline-soon", "ttr-after-deadline-soon",
		"the same, by another bug",
		"the same"},
	{"waiters-fifo", "waiters-fifo",
		"beanstalkd serves waiting connections in no useful order, the subject first come first served",
		"no two connections wait for the same tube"},
	{"disconnect-serves-one", "disconnect-serves-one",
		"of several jobs released at once a waiting connection gets any",
		"no connection ends with more than one job while another waits"},
	{"kick-many-serves-one", "kick-many-serves-one",
		"of several jobs kicked at once a waiting connection gets any",
		"nobody kicks more than one job while another waits"},
	{"burst-and-waiter", "",
		"a subject can execute a packet of commands as one step and serve waiting connections after it",
		"while others wait, a packet has at most one command that may wake one of them, and after it none that could show the difference, nor does it end a connection that holds a job; the same for commands after a waiting reserve"},
	{"delay-due-order", "delay-due-order",
		"jobs that are due within the same few milliseconds become ready in any order, and are peeked at and kicked in any order",
		"no event is caused near another, except the end of a wait after a due event in the same packet, and no two long delays are equal"},
	{"waiting-then-gone", "",
		"the disconnect of a client that waits and has sent more than 64 KiB after its reserve is noticed only when it is served",
		"less is sent after a reserve"},
	{"framing-lone-cr", "framing-lone-cr",
		"beanstalkd hangs on a CR without LF",
		"never sent as part of a line"},
	{"framing-line-of-223", "framing-line-of-223",
		"beanstalkd misses the end of such a line",
		"never sent"},
	{"numbers-reserve-with-timeout", "numbers-reserve-with-timeout",
		"1.12 reads the timeout with C's strtol, 1.13 like other numbers",
		"only timeouts that both read in the same way are sent"},
	{"stats-counting-reserve", "stats-counting-reserve",
		"the same",
		"the same"},
	{"put-failed-ids", "put-failed-ids",
		"a put that fails uses up an id with beanstalkd",
		"jobs are compared by the order in which they were inserted"},
	{"put-half-received", "put-half-received",
		"with beanstalkd a job has its id, and is visible, before its body is complete; its age counts from then",
		"its id is not used before INSERTED; while a body is incomplete, no put that began later is completed; none is left incomplete while another connection has a put after a waiting reserve; times may differ by the duration of a put"},
	{"stats", "stats",
		"the subject quotes os; 1.13 quotes more",
		"quotes around values are removed"},
	{"stats-job-bytes", "stats-job-bytes",
		"1.13 quotes tube",
		"the same"},
	{"own-questions", "",
		"whether a server is idle is asked with stats, which counts itself",
		"these requests are subtracted; after a reserve, where their number is random, stats is not sent"},
	{"stats-own", "",
		"process, version and files are the server's own: pid, version, rusage, uptime, id, binlog-*, file",
		"must exist; the value is not compared"},
	{"others-figures", "",
		"a subject of several processes learns periodically how many connections of the others use, watch and wait for a tube",
		"if there is a lag, the figures in lagging are not compared until nothing was done for that time; then they are exact"},
	{"clock", "",
		"whole seconds of age, time-left and pause-time-left change at different times",
		"may differ by one; by more when the machine has stood still"},
}

// lagging are the figures of stats-tube that a subject of several processes may
// not know at once, see Config.Lag.
var lagging = []string{"current-using", "current-watching", "current-waiting"}

// agreement is how a value of a stats page is compared.
type agreement uint8

const (
	exact   agreement = iota
	free              // the server's own
	near              // a time in seconds
	nearMs            // a time in milliseconds
	quoting           // except for quotes
)

var agreements = map[string]agreement{
	"pid": free, "version": free, "rusage-utime": free, "rusage-stime": free, "uptime": free, "id": free,
	"binlog-oldest-index": free, "binlog-current-index": free, "binlog-records-migrated": free,
	"binlog-records-written": free, "binlog-max-size": free, "file": free,
	"age": near, "time-left": near, "pause-time-left": near,
	"oldest-ready": near, "waits": free, "runs": free,
	"due-ms":   nearMs,
	"hostname": quoting, "os": quoting, "platform": quoting, "tube": quoting, "name": quoting,
}

// ruleFor returns how the value of a key is compared on a page.
func ruleFor(key string, all page) agreement {
	state := all.value("state")
	switch {
	case key == "id" && state != "":
		return exact // of a job
	case key == "time-left" && state != "reserved" && state != "delayed":
		return exact // 0
	case key == "pause-time-left" && all.value("pause") == "0":
		return exact
	}
	return agreements[key]
}
