package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
)

// lost begins the error of the script that says that the batch does not follow
// the last one that Redis knows of this instance.
const lost = "LOST"

// declaredDead is in that error if others have declared the instance dead. Then Redis
// has lost nothing.
const declaredDead = "declared dead"

// reaction is what is done about a failed call.
type reaction int

const (
	hold     reaction = iota // send it again
	withhold                 // encode it again, without what needs memory
	restage                  // encode it again, with the records in it
	renew                    // go on as a new instance
	shrink                   // encode it again, without what is too large
	giveUp                   // answer with an error
)

// meaning is what an error that Redis answers means for this engine. Nothing was carried out,
// whatever it is.
type meaning struct {
	words           string // with which it begins, behind an ERR that may be there or not
	reaction        reaction
	closeConnection bool // the connection is given up: another one may lead to another server, or be let in
	operator        bool // it does not end by itself: the log has it as an error

	forbidden bool // it is about a command that this user may not run, or that is not there
}

// meanings are all answers that this engine knows. Any other one is a definite refusal.
var meanings = []meaning{
	// Not now. The same server will do it later.
	{words: "LOADING", reaction: hold},
	{words: "BUSY", reaction: hold},
	{words: "UNKILLABLE", reaction: hold},
	{words: "NOSCRIPT", reaction: hold},
	{words: "TRYAGAIN", reaction: hold},
	{words: "NOREPLICAS", reaction: hold},
	{words: "MISCONF", reaction: hold, operator: true},

	// Not this server: another one has the keys, or will have.
	{words: "READONLY", reaction: hold, closeConnection: true},
	{words: "MASTERDOWN", reaction: hold, closeConnection: true},
	{words: "UNBLOCKED", reaction: hold, closeConnection: true},
	{words: "CLUSTERDOWN", reaction: hold},
	{words: "MOVED", reaction: hold},
	{words: "ASK", reaction: hold},

	// Not by this connection. The last two are what a server without users says to AUTH.
	{words: "max number of clients", reaction: hold, closeConnection: true, operator: true},
	{words: "NOAUTH", reaction: hold, closeConnection: true, operator: true},
	{words: "WRONGPASS", reaction: hold, closeConnection: true, operator: true},
	{words: "invalid password", reaction: hold, closeConnection: true, operator: true},

	// Not by this user, or not at all.
	{words: "NOPERM", reaction: giveUp, operator: true, forbidden: true},
	{words: "The user executing the script can't run", reaction: giveUp, operator: true, forbidden: true},
	{words: "ACL failure in script:", reaction: giveUp, operator: true, forbidden: true},
	{words: "unknown command", reaction: giveUp, operator: true, forbidden: true},
	{words: "Unknown Redis command", reaction: giveUp, operator: true, forbidden: true},
	{words: "Unknown command", reaction: giveUp, operator: true, forbidden: true},

	// Not in this way.
	{words: fullMemory, reaction: withhold},
	{words: invalidLength, reaction: shrink, closeConnection: true},
	{words: unstaged, reaction: restage},
	{words: lost, reaction: renew},
}

// Codes that are asked for by name.
const (
	fullMemory    = "OOM"
	invalidLength = "Protocol error: invalid bulk length" // Redis closes the connection then
)

// meaningOf returns what the text of an answer means; nil if that is not known.
func meaningOf(text string) *meaning {
	text = strings.TrimPrefix(text, "ERR ")
	for i := range meanings {
		m := &meanings[i]
		if rest, ok := strings.CutPrefix(text, m.words); ok && (rest == "" || rest[0] == ' ') {
			return m
		}
	}
	return nil
}

// wrapping is what comes before an error within a script in Redis before 7: where it was called,
// and which lines it went through.
var wrapping = regexp.MustCompile(`^(ERR Error running script \([^)]*\): )?(@\w+: ?\d+: )*-?`)

// answerOf returns the text of an error that Redis has answered, "" if it has not.
func answerOf(err error) string {
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	return text[len(wrapping.FindString(text)):]
}

// codeOf returns the words of an answer by which meanings has it, or its first word; "" if Redis has
// answered no error.
func codeOf(err error) string {
	text := answerOf(err)
	if m := meaningOf(text); m != nil {
		return m.words
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

// leaves returns whether the connection is to be given up on which Redis has answered this.
func closesConnection(err error) bool {
	m := meaningOf(answerOf(err))
	return m != nil && m.closeConnection
}

// needsOperator returns whether an error will not end by itself.
func needsOperator(err error) bool {
	m := meaningOf(answerOf(err))
	return m != nil && m.operator
}

// forbids returns whether Redis does not know this command, or does not let this user run it. The
// answer may be about another one, such as the AUTH of a new connection.
func forbids(err error, command string) bool {
	return isForbidden(err) && strings.Contains(strings.ToLower(answerOf(err)), command)
}

// isForbidden returns whether Redis does not know a command, or does not let this user run it.
func isForbidden(err error) bool {
	m := meaningOf(answerOf(err))
	return m != nil && m.forbidden
}

func reactionTo(err error) reaction {
	if e, ok := errors.AsType[unsent](err); ok {
		return e.reaction
	}
	text := answerOf(err)
	if m := meaningOf(text); m != nil {
		return m.reaction
	}
	if text != "" || errors.Is(err, errReply) || errors.Is(err, goredis.ErrClosed) {
		return giveUp
	}
	return hold
}

// unknown returns whether a call that failed so may have been carried out, now
// or later.
func unknown(err error) bool {
	var op *net.OpError
	sent := !(errors.As(err, &op) && op.Op == "dial") && !errors.Is(err, goredis.ErrPoolTimeout) && !errors.Is(err, errNoNode)
	var registering registrationError
	if _, ok := errors.AsType[unsent](err); ok {
		return false
	}
	return codeOf(err) == "" && sent && !errors.Is(err, errOtherServer) && !errors.As(err, &registering)
}

// classify turns an error of Redis into one of package storage.
func classify(err error) error {
	if errors.Is(err, storage.ErrNoSpace) {
		return err
	}
	if codeOf(err) == fullMemory {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection was closed by Redis")
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}
