package protocol

import (
	"bytes"
	"iter"
	"math"
	"redstalk/tube/field"
	"time"
	"unicode"
)

// This file parses the arguments of extensions: commands that beanstalkd does not know.

const (
	// MaxLease is the longest token of a lease, in bytes.
	MaxLease = 32
	// MaxCursor is the longest cursor of list-jobs, in bytes.
	MaxCursor = 64
	// MaxResult is the longest result of a job, in bytes.
	MaxResult = 64 << 10
	// MaxCheckpoint is the largest checkpoint of a job, in bytes.
	MaxCheckpoint = 64 << 10
	// MaxClient is the longest name of a connection, in bytes.
	MaxClient = 128
	// MaxWeight is the largest weight of a watched tube.
	MaxWeight = 1000
	// MaxUser is the longest name of a user, in bytes.
	MaxUser = 128
	// defaultListCount is how many jobs or connections are listed if the line has no count.
	defaultListCount = 100
	// leaseDigits is the length of a lease token.
	leaseDigits = 20
)

// State is the state of a job, as it is named in the protocol.
type State uint8

const (
	NoState State = iota
	Ready
	Reserved
	Delayed
	Buried
)

var stateWords = [...]string{NoState: "", Ready: "ready", Reserved: "reserved", Delayed: "delayed", Buried: "buried"}

// String returns the word in the protocol, "" for NoState.
func (s State) String() string {
	if int(s) >= len(stateWords) {
		return ""
	}
	return stateWords[s]
}

// parseReserveBatch parses COUNT [SECONDS] [lease] [info], which must end the line.
func parseReserveBatch(c *Command, args []byte) (ok bool) {
	if c.MaxJobs, args, ok = u32(args); !ok || c.MaxJobs < 1 || c.MaxJobs > MaxBatch {
		return false
	}
	if timeout, rest, ok := u32(args); ok {
		c.Timeout, args = timeout, rest
	}
	args, c.ByLease = cutWord(args, "lease")
	args, c.Info = cutWord(args, "info")
	return len(args) == 0 && c.Timeout <= math.MaxInt32
}

// cutWord returns what follows a word in args, and true; or args and false if they do not begin
// with spaces and that word.
func cutWord(args []byte, word string) (rest []byte, found bool) {
	rest, found = bytes.CutPrefix(skipSpaces(args), []byte(word))
	if !found || len(args) == len(rest)+len(word) || len(rest) > 0 && rest[0] != ' ' {
		return args, false
	}
	return rest, true
}

// parseDeleteBatch parses ids, which must end the line.
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

// IDs returns the ids in Command.List.
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

// parseIDAndTime parses ID DURATION, which must end the line.
func parseIDAndTime(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	c.In, args, ok = duration(args)
	return ok && len(args) == 0
}

// duration skips spaces and parses a number with a unit, followed by a space or the end of
// the line.
func duration(b []byte) (d time.Duration, rest []byte, ok bool) {
	word, rest := nextWord(b)
	d, ok = field.ParseDuration(word)
	return d, rest, ok
}

// nextWord skips spaces and returns what is before the next space. The word is empty if
// there is none.
func nextWord(b []byte) (word, rest []byte) {
	b = skipSpaces(b)
	if end := bytes.IndexByte(b, ' '); end >= 0 {
		return b[:end], b[end:]
	}
	return b, nil
}

// parseReserveLease parses SECONDS [info], which must end the line.
func parseReserveLease(c *Command, args []byte) (ok bool) {
	c.Timeout, args, ok = u32(args)
	args, c.Info = cutWord(args, "info")
	return ok && len(args) == 0 && c.Timeout <= math.MaxInt32
}

// parseLease parses ID LEASE, which must end the line.
func parseLease(c *Command, args []byte) (ok bool) {
	args, ok = c.readLease(args)
	return ok && len(args) == 0
}

// parseTouchLease parses ID LEASE [TAG:VALUE]..., which must end the line.
func parseTouchLease(c *Command, args []byte) (ok bool) {
	args, ok = c.readLease(args)
	return ok && c.endTags(args, field.InTouch)
}

// parseReleaseLease parses ID LEASE PRI DELAY [TAG:VALUE]..., which must end the line.
func parseReleaseLease(c *Command, args []byte) (ok bool) {
	if args, ok = c.readLease(args); !ok {
		return false
	}
	if c.Pri, args, ok = u32(args); !ok {
		return false
	}
	c.Delay, args, ok = u32(args)
	return ok && c.endTags(args, field.InRelease)
}

// parseBuryLease parses ID LEASE PRI [TAG:VALUE]..., which must end the line.
func parseBuryLease(c *Command, args []byte) (ok bool) {
	if args, ok = c.readLease(args); !ok {
		return false
	}
	c.Pri, args, ok = u32(args)
	return ok && c.endTags(args, field.InBury)
}

// readLease parses ID LEASE. A token that this server cannot have made is lease 0.
func (c *Command) readLease(args []byte) (rest []byte, ok bool) {
	if c.ID, args, ok = u64(args); !ok || len(args) == 0 || args[0] != ' ' {
		return args, false
	}
	token, rest := nextWord(args)
	if lease, more, ok := field.Digits(token); ok && len(more) == 0 && len(token) == leaseDigits {
		c.Lease = lease
	}
	return rest, field.Printable(token, MaxLease)
}

// AppendLease appends a lease as it is in the protocol: the tokens of later leases are greater
// also when they are compared as text.
func AppendLease(b []byte, lease uint64) []byte {
	var text [leaseDigits]byte
	for i := leaseDigits - 1; i >= 0; i-- {
		text[i] = '0' + byte(lease%10)
		lease /= 10
	}
	return append(b, text[:]...)
}

// parseIDAndSize parses ID SIZE, which must end the line.
func parseIDAndSize(c *Command, args []byte) (ok bool) {
	c.ID, args, ok = u64(args)
	return ok && c.endSize(args)
}

// parseLeaseAndSize parses ID LEASE SIZE, which must end the line.
func parseLeaseAndSize(c *Command, args []byte) (ok bool) {
	args, ok = c.readLease(args)
	return ok && c.endSize(args)
}

// endSize parses SIZE, which must end the line.
func (c *Command) endSize(args []byte) (ok bool) {
	c.size, args, ok = u32(args)
	return ok && len(args) == 0
}

// parseWaitJob parses ID SECONDS, which must end the line.
func parseWaitJob(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok {
		return false
	}
	c.Timeout, args, ok = u32(args)
	return ok && len(args) == 0 && c.Timeout <= math.MaxInt32
}

// batchPrefix is before the name of a batch where the name of a tube is expected, which never has a colon.
var batchPrefix = []byte("batch:")

// parseListEnded parses TUBE [COUNT [CURSOR]] or batch:NAME [COUNT [CURSOR]], which must end the line. Of a batch, Name is nil.
func parseListEnded(c *Command, args []byte) (ok bool) {
	if batch, of := bytes.CutPrefix(skipSpaces(args), batchPrefix); of {
		args, ok = c.readBatchName(batch)
	} else {
		c.Name, args, ok = readName(args)
	}
	return ok && c.readListed(args, MaxCursor)
}

// readName parses a word that is the name of a tube.
func readName(args []byte) (name, rest []byte, ok bool) {
	name, rest = nextWord(args)
	return name, rest, ValidName(name)
}

// readState parses a word that is a state.
func readState(args []byte) (s State, rest []byte, ok bool) {
	word, rest := nextWord(args)
	for s := Ready; s <= Buried; s++ {
		if string(word) == stateWords[s] {
			return s, rest, true
		}
	}
	return NoState, rest, false
}

// parseListJobs parses TUBE STATE [COUNT [CURSOR]], which must end the line.
func parseListJobs(c *Command, args []byte) (ok bool) {
	if c.Name, args, ok = readName(args); !ok {
		return false
	}
	if c.State, args, ok = readState(args); !ok {
		return false
	}
	return c.readListed(args, MaxCursor)
}

// readListed parses [COUNT [CURSOR]], which must end the line. A cursor has at most that many bytes.
func (c *Command) readListed(args []byte, maxCursor int) (ok bool) {
	if c.MaxJobs = defaultListCount; len(args) == 0 {
		return true
	}
	if c.MaxJobs, args, ok = u32(args); !ok || c.MaxJobs < 1 || c.MaxJobs > MaxBatch {
		return false
	}
	if len(args) == 0 {
		return true
	}
	if args[0] != ' ' {
		return false
	}
	cursor, args := nextWord(args)
	c.Cursor = string(cursor)
	return field.Printable(cursor, maxCursor) && len(args) == 0
}

// parseHistoryTube parses TUBE hours|days [COUNT], which must end the line.
func parseHistoryTube(c *Command, args []byte) (ok bool) {
	c.Name, args, ok = readName(args)
	return ok && len(args) > 0 && args[0] == ' ' && parseHistory(c, args)
}

// parseHistory parses hours|days [COUNT], which must end the line.
func parseHistory(c *Command, args []byte) (ok bool) {
	period, args := nextWord(args)
	c.Days = string(period) == "days"
	if !c.Days && string(period) != "hours" {
		return false
	}
	if c.MaxJobs = MaxBatch; len(args) == 0 {
		return true
	}
	c.MaxJobs, args, ok = u32(args)
	return ok && len(args) == 0 && 0 < c.MaxJobs && c.MaxJobs <= MaxBatch
}

// parseListClients parses [COUNT [CURSOR]], which must end the line.
func parseListClients(c *Command, args []byte) bool { return c.readListed(args, MaxCursor) }

// parseCloseClient parses ID [INSTANCE], which must end the line.
func parseCloseClient(c *Command, args []byte) (ok bool) {
	if c.ID, args, ok = u64(args); !ok || len(args) == 0 {
		return ok
	}
	c.To, args = nextWord(args)
	return field.Printable(c.To, MaxClient) && len(args) == 0
}

// parseNameClient parses NAME, which must end the line. In double quotes it can have spaces and UTF-8.
func parseNameClient(c *Command, args []byte) (ok bool) {
	if args = skipSpaces(args); len(args) > 0 && args[0] == '"' {
		c.Name, ok = unquote(args)
		return ok && 0 < len(c.Name) && len(c.Name) <= MaxClient && bytes.IndexFunc(c.Name, unicode.IsControl) < 0
	}
	c.Name, args = nextWord(args)
	return field.Printable(c.Name, MaxClient) && len(args) == 0
}

// parseWatch parses TUBE [WEIGHT], which must end the line.
func parseWatch(c *Command, args []byte) (ok bool) {
	name, rest, weighted := bytes.Cut(args, space)
	c.Name = name
	if !ValidName(name) || !weighted {
		return ValidName(name)
	}
	c.Weight, rest, ok = u32(rest)
	return ok && len(rest) == 0 && 1 <= c.Weight && c.Weight <= MaxWeight
}

// parseKey parses TUBE KEY, which must end the line.
func parseKey(c *Command, args []byte) (ok bool) {
	if c.Name, args, ok = readName(args); !ok {
		return false
	}
	key, args := nextWord(args)
	c.Key = string(key)
	return field.Printable(key, MaxKey) && len(args) == 0
}

// parseFlush parses TUBE [STATE], which must end the line.
func parseFlush(c *Command, args []byte) (ok bool) {
	if c.Name, args, ok = readName(args); !ok || len(args) == 0 {
		return ok
	}
	c.State, args, ok = readState(args)
	return ok && len(args) == 0
}

// parseMoveJobs parses FROM STATE TO COUNT, which must end the line. Reserved jobs cannot
// be moved.
func parseMoveJobs(c *Command, args []byte) (ok bool) {
	if c.Name, args, ok = readName(args); !ok {
		return false
	}
	if c.State, args, ok = readState(args); !ok || c.State == Reserved {
		return false
	}
	if c.To, args, ok = readName(args); !ok {
		return false
	}
	c.MaxJobs, args, ok = u32(args)
	return ok && len(args) == 0 && c.MaxJobs >= 1
}

// parseSetPolicy parses TUBE or PATTERN, and [TAG:VALUE]..., which must end the line. A pattern
// cannot push: nothing says which tubes there are to be watched.
func parseSetPolicy(c *Command, args []byte) bool {
	c.Name, args = nextWord(args)
	c.List = args
	if !ValidScope(c.Name) || !c.endTags(args, field.InPolicy) {
		return false
	}
	if c.Tags != nil && c.Tags.Push.URL != "" && !ValidName(c.Name) {
		c.Wrong = "the tag push needs one tube, not a pattern"
		return false
	}
	return true
}

// parseAuth parses USER SECRET. The secret is all that follows one space, and can contain
// more spaces.
func parseAuth(c *Command, args []byte) bool {
	user, rest := nextWord(args)
	if !field.Printable(user, MaxUser) || len(rest) < 2 {
		return false
	}
	c.Name, c.Secret = user, rest[1:]
	return true
}
