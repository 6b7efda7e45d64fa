package protocol

import "math"

// MaxLine is the longest line that is read, in bytes, CRLF included.
const MaxLine = 224

// MaxName is the longest tube name, in bytes.
const MaxName = 200

// MaxBody is the highest limit on bodies that a Reader takes, in bytes without
// the CRLF: beanstalkd's cap for -z.
const MaxBody = 1 << 30

// Fault is what the line or body itself has earned, before any rule of the
// queue was asked. The server answers with [Writer.Fault] and does nothing else
// (but count the command if Command.Counted says so).
type Fault uint8

const (
	NoFault        Fault = iota
	BadFormat            // BAD_FORMAT: the word is known, the rest of the line is not right
	UnknownCommand       // UNKNOWN_COMMAND: no such word
	JobTooBig            // JOB_TOO_BIG: a put above the limit; its body has been swallowed
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
// verb takes are set; the others are zero. With a Fault only Verb, Counted and
// Producer mean anything.
type Command struct {
	// Verb is Unknown if no word fits, and also for a line that is bad before
	// its word is looked at: too long, or with a NUL or a lone CR in it.
	Verb Verb
	// Fault is the reply to give if it is not NoFault.
	Fault Fault
	// Counted says that the arguments parsed, so that the command moves its
	// cmd-* counter (if the verb has one), even if there is a Fault: beanstalkd
	// counts put before it looks at the size and at what follows, and
	// pause-tube before it looks at the name.
	Counted bool
	// Producer says that a put line was accepted, so that the connection counts
	// as a producer from now on, even if the body turned out to lack its CRLF.
	Producer bool

	ID uint64 // job id

	Pri   uint32 // priority of put, release, bury; 0 is the most urgent
	Delay uint32 // seconds; put, release, and the length of pause-tube
	TTR   uint32 // seconds, as sent: 0 stays 0 here

	Timeout uint32 // seconds; reserve-with-timeout, at most 2^31-1
	Bound   uint32 // kick: how many at most

	// Name is the tube's name, valid by [ValidName]. It lies in the Reader's
	// buffer and is good only until the next call of Next or Fill.
	Name []byte
	// Body is the body of a put without its CRLF, not nil even if empty. It
	// belongs to the caller, who may keep it.
	Body []byte

	size uint32 // put: the announced length of the body
	junk bool   // put: something follows the fourth number
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

// parsePut reads PRI DELAY TTR SIZE. What follows is only noted: beanstalkd
// minds it after it has looked at the size.
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

// parseKick reads the bound of kick, of which only the low 32 bits remain:
// beanstalkd reads 64 bits and stores 32, so "kick 4294967296" kicks nothing
// and "kick -1" all there is.
func parseKick(c *Command, args []byte) bool {
	n, ok := strtoul(args)
	c.Bound = uint32(n)
	return ok
}

// parseName takes the whole rest of the line for a tube's name.
func parseName(c *Command, args []byte) bool {
	c.Name = args
	return ValidName(args)
}

// parsePause reads NAME SECONDS. A name that is made of the right bytes but is
// not valid (too long, begins with '-') is found out only after the command
// has been counted.
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

// u64 reads any number of spaces (no other white space), then decimal digits
// without sign. ok is false if there are none or the number does not fit.
func u64(b []byte) (n uint64, rest []byte, ok bool) {
	return digits(skipSpaces(b))
}

// u32 is u64 for numbers up to 2^32-1.
func u32(b []byte) (n uint32, rest []byte, ok bool) {
	wide, rest, ok := u64(b)
	return uint32(wide), rest, ok && wide <= math.MaxUint32
}

// digits reads one or more decimal digits; leading zeros do no harm.
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
// are no digits, or if the magnitude (not the wrapped value) exceeds 2^64-1.
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
