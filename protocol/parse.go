package protocol

import (
	"bytes"
	"iter"
	"math"
	"time"
)

// MaxLine is the longest line of most verbs, in bytes, CRLF included. Spec.MaxLine has
// that of the others.
const MaxLine = 224

// MaxName is the longest tube name, in bytes.
const MaxName = 200

// MaxBatch is how many jobs one command may name or ask for.
const MaxBatch = 1000

// MaxBody is the highest limit on bodies that a Reader takes, in bytes without
// the CRLF: beanstalkd's cap for -z.
const MaxBody = 1 << 30

// Fault says what is wrong with the line or the body itself, whatever the queue
// holds. The server answers with [Writer.Fault] and does nothing else, apart from
// counting the command if Command.Counted is true.
type Fault uint8

const (
	NoFault        Fault = iota
	BadFormat            // BAD_FORMAT: the word is known, the rest of the line is not right
	UnknownCommand       // UNKNOWN_COMMAND: no such word
	JobTooBig            // JOB_TOO_BIG: a body above the limit; it was skipped
	ExpectedCRLF         // EXPECTED_CRLF: a body that is not followed by CRLF
)

var faultWords = [...]string{"", "BAD_FORMAT", "UNKNOWN_COMMAND", "JOB_TOO_BIG", "EXPECTED_CRLF"}

// String is the reply word, "" for NoFault.
func (f Fault) String() string {
	if int(f) >= len(faultWords) {
		return ""
	}
	return faultWords[f]
}

// Command is one command as it came over the wire. Only the fields that the
// verb takes are set; the others are zero. If there is a Fault, only Verb, Counted
// and Producer have a meaning.
type Command struct {
	// Verb is Unknown if no word fits. It is Unknown as well if the line is bad
	// before its word is looked at: too long, or with a NUL or a lone CR in it.
	Verb Verb
	// Fault is the reply to give, unless it is NoFault.
	Fault Fault
	// Counted says that the command moves its cmd-* counter, if the verb has
	// one. That is so when the arguments parse, even if there is a Fault:
	// beanstalkd counts put before it looks at the size and at what follows it,
	// and pause-tube before it looks at the name.
	Counted bool
	// Producer says that the connection counts as a producer from now on. That
	// is so for every put line that is accepted, even if its body turns out to
	// lack the CRLF.
	Producer bool

	ID uint64 // job id

	Pri   uint32 // priority of put, release, bury; 0 is the most urgent
	Delay uint32 // seconds; put, release, and the length of pause-tube
	TTR   uint32 // seconds, as sent: 0 stays 0 here

	Timeout uint32 // seconds; reserve-with-timeout and reserve-batch, at most 2^31-1
	Bound   uint32 // kick, reserve-batch: how many at most

	In time.Duration // reschedule: whole milliseconds, at most MaxDuration

	// Name is the tube's name, valid by [ValidName]. It is in memory of the
	// Reader, which the next call of Next or Fill may overwrite: copy it to keep
	// it longer. This holds for a verb with a name and a body, too.
	Name []byte
	// List is the ids of delete-batch as they were sent, 1 to [MaxBatch] of them:
	// [IDs] reads it. It is valid for as long as Name is.
	List []byte
	// Body is the body without its CRLF. It is not nil even if it is empty. It
	// belongs to the caller, who may keep it until it releases Buffer.
	Body []byte
	// Buffer has the memory of Body, and is the caller's to release. Nil: Body is
	// an ordinary slice.
	Buffer Buffer

	size uint32 // verbs with a body: its announced length
	junk bool   // verbs with a body: something follows the length
}

// parseLine reads a line without its CRLF into c, which must be zero.
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
}

// parsePut reads PRI DELAY TTR SIZE. If something follows, it only sets junk:
// beanstalkd looks at the size first.
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
	c.junk = len(args) > 0
	return true
}

// parseID reads ID, which must end the line.
func parseID(c *Command, args []byte) (ok bool) {
	c.ID, args, ok = u64(args)
	return ok && len(args) == 0
}

// parseRelease reads ID PRI DELAY, which must end the line.
func parseRelease(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	if c.Pri, args, ok = u32(args); !ok {
		return false
	}
	c.Delay, args, ok = u32(args)
	return ok && len(args) == 0
}

// parseReschedule reads ID DURATION, which must end the line.
func parseReschedule(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	c.In, args, ok = duration(args)
	return ok && len(args) == 0
}

// MaxDuration is the longest time that may be asked for in a duration: ten years.
const MaxDuration = 10 * 365 * 24 * time.Hour

// units of durations, by the letters behind the number. Without any it is seconds.
var units = []struct {
	letters string
	is      time.Duration
}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"", time.Second}}

// duration skips spaces and reads a number with a unit, which a space or the end of the
// line must follow.
func duration(b []byte) (d time.Duration, rest []byte, ok bool) {
	n, rest, ok := u64(b)
	if !ok {
		return 0, rest, false
	}
	unit := rest
	if end := bytes.IndexByte(rest, ' '); end >= 0 {
		unit = rest[:end]
	}
	for _, u := range units {
		if string(unit) == u.letters {
			return time.Duration(n) * u.is, rest[len(unit):], n <= uint64(MaxDuration/u.is)
		}
	}
	return 0, rest, false
}

// parseBury reads ID PRI, which must end the line.
func parseBury(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	c.Pri, args, ok = u32(args)
	return ok && len(args) == 0
}

// parseTimeout reads the seconds of reserve-with-timeout. As in beanstalkd, and
// unlike every other number, anything may follow.
func parseTimeout(c *Command, args []byte) (ok bool) {
	c.Timeout, _, ok = u32(args)
	return ok && c.Timeout <= math.MaxInt32
}

// parseReserveBatch reads COUNT [SECONDS], which must end the line.
func parseReserveBatch(c *Command, args []byte) (ok bool) {
	if c.Bound, args, ok = u32(args); !ok || c.Bound < 1 || c.Bound > MaxBatch {
		return false
	}
	if len(args) == 0 {
		return true
	}
	c.Timeout, args, ok = u32(args)
	return ok && len(args) == 0 && c.Timeout <= math.MaxInt32
}

// parseDeleteBatch reads ids, which must end the line.
func parseDeleteBatch(c *Command, args []byte) bool {
	c.List = args
	n := 0
	for len(args) > 0 {
		var ok bool
		if _, args, ok = u64(args); !ok || len(args) > 0 && args[0] != ' ' {
			return false
		}
		n++
	}
	return 1 <= n && n <= MaxBatch
}

// IDs are the ids in Command.List.
func IDs(list []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for len(list) > 0 {
			id, rest, ok := u64(list)
			if !ok || !yield(id) {
				return
			}
			list = rest
		}
	}
}

// parseKick reads the bound of kick and keeps its low 32 bits, because
// beanstalkd reads 64 bits and stores 32: "kick 4294967296" kicks nothing, and
// "kick -1" kicks all jobs.
func parseKick(c *Command, args []byte) bool {
	n, ok := strtoul(args)
	c.Bound = uint32(n)
	return ok
}

// parseName takes all that is left of the line as a tube's name.
func parseName(c *Command, args []byte) bool {
	c.Name = args
	return ValidName(args)
}

// parsePause reads NAME SECONDS. A name of the right bytes that is not valid (it
// is too long, or begins with '-') is a Fault in a command that counts.
func parsePause(c *Command, args []byte) (ok bool) {
	args = skipSpaces(args)
	n := 0
	for n < len(args) && nameByte[args[n]] {
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

// nameByte says which bytes may occur in a tube's name.
var nameByte = func() (set [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()") {
		set[b] = true
	}
	return set
}()

// ValidName reports whether name can be a tube's name: 1 to [MaxName] bytes of
// A-Z a-z 0-9 - + / ; . $ _ ( ), the first one not '-'.
func ValidName(name []byte) bool {
	if len(name) == 0 || len(name) > MaxName || name[0] == '-' {
		return false
	}
	for _, b := range name {
		if !nameByte[b] {
			return false
		}
	}
	return true
}

func skipSpaces(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}

// u64 skips spaces (no other white space) and reads decimal digits without a
// sign. ok is false if there are no digits, or if the number does not fit.
func u64(b []byte) (n uint64, rest []byte, ok bool) {
	return digits(skipSpaces(b))
}

// u32 is u64 for numbers up to 2^32-1.
func u32(b []byte) (n uint32, rest []byte, ok bool) {
	wide, rest, ok := u64(b)
	return uint32(wide), rest, ok && wide <= math.MaxUint32
}

// digits reads one or more decimal digits. Leading zeros are allowed.
func digits(b []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i] - '0')
		if d > 9 {
			break
		}
		if n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			return 0, b[i:], false
		}
		n = n*10 + d
	}
	return n, b[i:], i > 0
}

// strtoul is C's strtoul in base 10 on a 64-bit machine: white space, a sign,
// digits, then anything. A negative number wraps around. ok is false if there
// are no digits, or if the number without its sign exceeds 2^64-1.
func strtoul(b []byte) (n uint64, ok bool) {
	for len(b) > 0 && (b[0] == ' ' || '\t' <= b[0] && b[0] <= '\r') {
		b = b[1:]
	}
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	n, _, ok = digits(b)
	if negative {
		n = -n
	}
	return n, ok
}
