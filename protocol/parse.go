package protocol

import (
	"bytes"
	"math"
	"redstalk/tube/field"
	"time"
)

// MaxLine is the longest line of most verbs, in bytes, including CRLF. Spec.MaxLine has
// the length for the others.
const MaxLine = 224

// MaxName is the longest tube name, in bytes.
const MaxName = 200

// MaxBatch is the largest number of jobs that one command can name or ask for.
const MaxBatch = 1000

// MaxBody is the highest limit on bodies that a Reader accepts, in bytes without
// the CRLF: beanstalkd's maximum for -z.
const MaxBody = 1 << 30

// Fault says what is wrong with the line or the body itself, independent of the
// queue. The server answers with [Writer.Fault] and does nothing else, except
// counting the command if Command.Counted is true.
type Fault uint8

const (
	NoFault        Fault = iota
	BadFormat            // BAD_FORMAT: the word is known, the rest of the line is malformed
	UnknownCommand       // UNKNOWN_COMMAND: no such word
	JobTooBig            // JOB_TOO_BIG: a body above the limit; it was skipped
	ExpectedCRLF         // EXPECTED_CRLF: a body that is not followed by CRLF
	HTTPRequest          // no reply: the peer speaks HTTP. The connection must be closed, since a web page may have chosen what follows
)

var faultWords = [...]string{"", "BAD_FORMAT", "UNKNOWN_COMMAND", "JOB_TOO_BIG", "EXPECTED_CRLF", "HTTP_REQUEST"}

// String returns the reply word, "" for NoFault. That of HTTPRequest is never sent.
func (f Fault) String() string {
	if int(f) >= len(faultWords) {
		return ""
	}
	return faultWords[f]
}

// Command is a command as it was received. Only the fields that the verb uses are
// set; the others are zero. If there is a Fault, only Verb, Counted and Producer are
// meaningful.
type Command struct {
	// Verb is Unknown if no word matches. It is also Unknown if the line is bad
	// before its word is examined: too long, or with a NUL or a lone CR in it.
	Verb Verb
	// Fault is the reply to give, unless it is NoFault.
	Fault Fault
	// Counted says that the command increments its cmd-* counter, if the verb has
	// one. That is so when the arguments parse, even if there is a Fault:
	// beanstalkd counts put before it checks the size and what follows it, and
	// pause-tube before it checks the name.
	Counted bool
	// Producer says that the connection counts as a producer from now on. That
	// is so for every put line that is accepted, even if the CRLF after its body turns
	// out to be missing.
	Producer bool

	ID uint64 // job id

	Pri   uint32 // priority of put, release, bury, set-priority; 0 is the most urgent
	Delay uint32 // seconds; put, release, and the length of pause-tube
	TTR   uint32 // seconds, as sent: 0 stays 0 here

	Timeout uint32 // seconds; reserve-with-timeout, reserve-batch, reserve-lease and wait-job, at most 2^31-1
	MaxJobs uint32 // kick, reserve-batch, list-…, move-jobs, preview-schedule, history, history-tube: the largest number
	Weight  uint32 // watch: 1 to MaxWeight; 0 if the line has none
	ByLease bool   // reserve-batch: the word lease
	Info    bool   // reserve-batch, reserve-lease: the word info
	Days    bool   // history, history-tube: the word days

	KeepCheckpoint bool // kick, kick-job, replay-job: the word keep-checkpoint

	In time.Duration // a time from now: whole milliseconds, at most MaxDuration

	// Name is the tube's name, valid by [ValidName]; for auth it is the user's, for client the
	// connection's, of 1 to [MaxUser] or [MaxClient] printable characters. It is in memory of the Reader, which the next call of
	// Next or Fill can overwrite: copy it to keep it longer. This also holds for a verb with
	// a name and a body.
	Name []byte
	// List has the ids of delete-batch as they were sent, 1 to [MaxBatch] of them:
	// [IDs] parses it. Of set-policy, set-group and set-schedule it is the tags as they were sent. It is valid for as long as Name is.
	List []byte
	// Secret is the secret of auth, not empty. It is valid for as long as Name is, and must
	// not be logged.
	Secret []byte
	// Body is the body without its CRLF. It is not nil even if it is empty. It
	// belongs to the caller until the caller releases Buffer.
	Body []byte
	// Buffer owns the memory of Body; the caller must release it. Nil: Body is an
	// ordinary slice.
	Buffer Buffer

	// Tags are nil if the line has none. They are valid until the next call of Next; the strings and
	// slices in them are valid forever.
	Tags *Tags
	// Wrong says, with a Fault, which tag is wrong and what is expected; "": no tag is.
	Wrong string

	Lease  uint64 // the -lease commands; 0 is a malformed token, which no job has
	State  State  // list-jobs, flush-tube, move-jobs
	To     []byte // move-jobs: the second tube, valid by [ValidName], for as long as Name is
	Key    string // find, delete-key: 1 to MaxKey printable characters; commands about a group, a schedule or a batch: its name, valid by [ValidGroup], [ValidSchedule] or [ValidBatch]; a copy
	Cursor string // list-jobs, list-ended, list-clients, list-members: at most MaxCursor, list-groups: MaxGroupCursor, list-schedules: MaxSchedule, list-batches: MaxBatchName printable characters; a copy, "" if there is none

	spare   *Tags  // memory for Tags; nil: there is none
	size    uint32 // verbs with a body: its announced length
	junk    bool   // verbs with a body: something other than tags follows the length
	badTags bool   // verbs with a body: what follows the length is invalid, and the body is skipped
}

// parseLine parses a line without its CRLF into c, which must be zero but for spare.
func parseLine(c *Command, line []byte) {
	c.Verb = lookup(line)
	if c.Verb == Unknown {
		c.Fault = UnknownCommand
		return
	}
	spec := &table[c.Verb]
	args := line[len(spec.Prefix):]
	switch {
	case spec.Exact && len(args) > 0, spec.parse != nil && !spec.parse(c, args):
		c.Fault = BadFormat
	default:
		c.Counted = true
	}
	if spec.Body && (c.junk || c.Fault != NoFault) {
		c.skipBody(spec, args)
	}
	if len(line) > MaxLine-len(crlf) && spec.MaxLine == MaxTagLine && !spec.Long && c.Tags == nil && c.Wrong == "" {
		*c = Command{Fault: BadFormat} // only a line with tags can be that long
	}
}

// skipBody makes the Reader skip the body of a line that is malformed, if the line has tags.
func (c *Command) skipBody(spec *Spec, args []byte) {
	size, ok := c.size, bytes.IndexByte(args, ':') >= 0
	if c.Fault != NoFault {
		size, ok = spec.skippedBody(args)
	}
	if !ok {
		return
	}
	c.size, c.junk, c.badTags, c.Fault = size, false, true, NoFault
	if c.Wrong == "" {
		c.Wrong = "a number before the tags is malformed"
	}
}

// isHTTP reports whether a line that is no command belongs to an HTTP request: METHOD /PATH
// HTTP/1.1, or the header Host. Every browser sends that header before anything else that a
// page can choose, also after a request line that is too long or, with a method chosen by the
// page, a command.
func isHTTP(line []byte) bool {
	if len(line) >= len(hostHeader) && bytes.EqualFold(line[:len(hostHeader)], hostHeader) {
		return true
	}
	method, rest, _ := bytes.Cut(line, space)
	target, version, _ := bytes.Cut(rest, space)
	isTarget := bytes.HasPrefix(target, slash) || bytes.Contains(target, schemeEnd)
	return len(method) > 0 && isTarget && len(version) == len("HTTP/1.1") && bytes.HasPrefix(version, httpVersion)
}

var (
	hostHeader, httpVersion = []byte("host:"), []byte("HTTP/")
	space, slash, schemeEnd = []byte(" "), []byte("/"), []byte("://")
)

// parsePut parses PRI DELAY TTR SIZE [TAG:VALUE]... If something else follows, it only
// sets junk: beanstalkd checks the size first.
func parsePut(c *Command, args []byte) (ok bool) {
	if c.Pri, args, ok = u32(args); !ok {
		return false
	}
	if c.Delay, args, ok = u32(args); !ok {
		return false
	}
	if c.TTR, args, ok = u32(args); !ok {
		return false
	}
	if c.size, args, ok = u32(args); !ok {
		return false
	}
	if len(args) > 0 {
		c.parsePutTags(args)
	}
	return true
}

// parsePutTags parses what follows the length. What is not only tags is junk.
func (c *Command) parsePutTags(args []byte) {
	ok := c.readTags(args, field.InPut|field.InCopy)
	c.junk, c.badTags = !ok, ok && c.Tags == nil
}

// readTags parses args, and sets Tags or Wrong. ok is false if they are something other than tags.
func (c *Command) readTags(args []byte, in field.Commands) (ok bool) {
	if c.spare == nil {
		c.spare = new(Tags)
	}
	if c.Wrong, ok = c.spare.read(args, in); !ok {
		c.Wrong = strange(args, in)
	} else if c.Wrong == "" {
		c.Tags = c.spare
	}
	return ok
}

// endTags parses tags, which must end the line.
func (c *Command) endTags(args []byte, in field.Commands) bool {
	if len(args) == 0 {
		return true
	}
	return c.readTags(args, in) && c.Tags != nil
}

// parseID parses ID, which must end the line.
func parseID(c *Command, args []byte) (ok bool) {
	c.ID, args, ok = u64(args)
	return ok && len(args) == 0
}

// parseTouch parses ID [TAG:VALUE]..., which must end the line.
func parseTouch(c *Command, args []byte) (ok bool) {
	c.ID, args, ok = u64(args)
	return ok && c.endTags(args, field.InTouch)
}

// parseRelease parses ID PRI DELAY [TAG:VALUE]..., which must end the line.
func parseRelease(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	if c.Pri, args, ok = u32(args); !ok {
		return false
	}
	c.Delay, args, ok = u32(args)
	return ok && c.endTags(args, field.InRelease)
}

// parseBury parses ID PRI [TAG:VALUE]..., which must end the line.
func parseBury(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	c.Pri, args, ok = u32(args)
	return ok && c.endTags(args, field.InBury)
}

// parseIDAndPri parses ID PRI, which must end the line.
func parseIDAndPri(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	c.Pri, args, ok = u32(args)
	return ok && len(args) == 0
}

// parseTimeout parses the seconds of reserve-with-timeout. As in beanstalkd, and
// unlike after every other number, anything can follow.
func parseTimeout(c *Command, args []byte) (ok bool) {
	c.Timeout, _, ok = u32(args)
	return ok && c.Timeout <= math.MaxInt32
}

// parseKick parses the number of kick and keeps its low 32 bits, because beanstalkd
// reads 64 bits and stores 32: "kick 4294967296" kicks nothing, and "kick -1" kicks
// all jobs. As in beanstalkd, anything can follow; only keep-checkpoint has a meaning.
func parseKick(c *Command, args []byte) bool {
	n, rest, ok := strtoul(args)
	c.MaxJobs = uint32(n)
	_, c.KeepCheckpoint = cutWord(rest, keepCheckpoint)
	return ok
}

const keepCheckpoint = "keep-checkpoint"

// parseKickJob parses ID [keep-checkpoint], which must end the line.
func parseKickJob(c *Command, args []byte) (ok bool) {
	c.ID, args, ok = u64(args)
	args, c.KeepCheckpoint = cutWord(args, keepCheckpoint)
	return ok && len(args) == 0
}

// parseName takes the rest of the line as a tube's name.
func parseName(c *Command, args []byte) bool {
	c.Name = args
	return ValidName(args)
}

// parseScope parses the name of a tube or a pattern, which must end the line.
func parseScope(c *Command, args []byte) bool {
	c.Name = args
	return ValidScope(args)
}

// ValidScope reports whether a policy can be for a name: that of a tube, or a pattern, which is the
// beginning of names followed by *; "*" is all tubes. * is no character of a name.
func ValidScope(name []byte) bool {
	prefix, pattern := bytes.CutSuffix(name, []byte("*"))
	return ValidName(prefix) || pattern && len(prefix) == 0
}

// parsePause parses NAME SECONDS. A name of valid bytes that is invalid as a whole
// (too long, or beginning with '-') is a Fault in a command that is counted.
func parsePause(c *Command, args []byte) (ok bool) {
	args = skipSpaces(args)
	n := 0
	for n < len(args) && field.TubeByte[args[n]] {
		n++
	}
	if n == 0 {
		return false
	}
	c.Name, args = args[:n], args[n:]
	if c.Delay, args, ok = u32(args); !ok || len(args) > 0 {
		return false
	}
	if !ValidName(c.Name) {
		c.Fault = BadFormat
	}
	return true
}

// ValidName reports whether name can be a tube's name, see [field.ValidTube].
func ValidName(name []byte) bool { return field.ValidTube(name) }
