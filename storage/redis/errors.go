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
	"redstalk/storage/redis/lua"
)

// reaction is what is done after a failed call.
type reaction int

const (
	hold     reaction = iota // send it again
	withhold                 // encode it again, without what needs memory
	restage                  // encode it again, with staged records in its arguments
	renew                    // continue as a new instance
	shrink                   // encode it again, without what is too large
	giveUp                   // answer with an error
)

// meaning is what an error of Redis means for this engine. Whatever it is, nothing was carried
// out.
type meaning struct {
	words           string // its beginning, after an optional ERR
	reaction        reaction
	closeConnection bool // retire the connection: another one can lead to another server, or be accepted
	operator        bool // it does not go away by itself, so it is logged as an error

	forbidden bool // a command is forbidden to this user, or unknown
}

// meanings are all errors that this engine knows. Any other one is a definite refusal.
var meanings = []meaning{
	// Not now. The same server will accept it later.
	{words: "LOADING", reaction: hold},
	{words: "BUSY", reaction: hold},
	{words: "UNKILLABLE", reaction: hold},
	{words: "NOSCRIPT", reaction: hold},
	{words: "TRYAGAIN", reaction: hold},
	{words: "NOREPLICAS", reaction: hold},
	{words: "MISCONF", reaction: hold, operator: true},

	// Not this server: another one has the keys, or will have them.
	{words: "READONLY", reaction: hold, closeConnection: true},
	{words: "MASTERDOWN", reaction: hold, closeConnection: true},
	{words: "UNBLOCKED", reaction: hold, closeConnection: true},
	{words: "CLUSTERDOWN", reaction: hold},
	{words: "MOVED", reaction: hold},
	{words: "ASK", reaction: hold},

	// Not by this connection. The last two are what a server without users answers to AUTH.
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

	// Not in this form.
	{words: fullMemory, reaction: withhold},
	{words: invalidLength, reaction: shrink, closeConnection: true},
	{words: lua.Unstaged, reaction: restage},
	{words: lua.Lost, reaction: renew},
}

// Codes that are compared by name.
const (
	fullMemory    = "OOM"
	invalidLength = "Protocol error: invalid bulk length" // after it Redis closes the connection
)

// meaningOf returns the meaning of the text of an error; nil if it is unknown.
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

// wrapping is what Redis before 7 puts before an error within a script: the call, and the
// lines.
var wrapping = regexp.MustCompile(`^(ERR Error running script \([^)]*\): )?(@\w+: ?\d+: )*-?`)

// answerOf returns the text of an error that Redis has answered, "" if err is not one.
func answerOf(err error) string {
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	return text[len(wrapping.FindString(text)):]
}

// codeOf returns the words by which meanings lists an error of Redis, or its first word; "" if
// err is not an error of Redis.
func codeOf(err error) string {
	text := answerOf(err)
	if m := meaningOf(text); m != nil {
		return m.words
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

// closesConnection returns whether an error of Redis retires the connection.
func closesConnection(err error) bool {
	m := meaningOf(answerOf(err))
	return m != nil && m.closeConnection
}

// needsOperator returns whether an error will not go away by itself.
func needsOperator(err error) bool {
	m := meaningOf(answerOf(err))
	return m != nil && m.operator
}

// forbids returns whether Redis does not know this command, or does not let this user run it.
// The error can also be about another command, such as the AUTH of a new connection.
func forbids(err error, command string) bool {
	return isForbidden(err) && strings.Contains(strings.ToLower(answerOf(err)), command)
}

// isForbidden returns whether Redis does not know some command, or does not let this user run
// it.
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

// unknown returns whether a call that failed with err may have been carried out, or may still
// be.
func unknown(err error) bool {
	var op *net.OpError
	sent := !(errors.As(err, &op) && op.Op == "dial") && !errors.Is(err, goredis.ErrPoolTimeout) && !errors.Is(err, errNoNode)
	var registering registrationError
	if _, ok := errors.AsType[unsent](err); ok {
		return false
	}
	return codeOf(err) == "" && sent && !errors.Is(err, errOtherServer) && !errors.As(err, &registering)
}

// classify turns an error of Redis into an error of package storage.
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
