package conn

import (
	"errors"
	"regexp"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Errors that are not answers of Redis. After each of them nothing was sent, except for
// ErrClosed.
var (
	// ErrNoNode: the server of a key is unknown.
	ErrNoNode = errors.New("no node of the cluster says who has the partition")

	// ErrOtherServer: a new connection leads to another Redis process than those before. It is
	// returned once for each other process.
	ErrOtherServer = errors.New("another Redis process answers than before")

	// ErrBusy: all connections of the pool are in use.
	ErrBusy = goredis.ErrPoolTimeout

	// ErrClosed: the pool is closed.
	ErrClosed = goredis.ErrClosed
)

// Codes of errors that callers compare, see CodeOf.
const (
	NoScript      = "NOSCRIPT"
	FullMemory    = "OOM"
	InvalidLength = "Protocol error: invalid bulk length" // after it Redis closes the connection
)

// meaning is what an error of Redis says about server, connection and user. Whatever it is,
// nothing was carried out.
type meaning struct {
	words     string // its beginning, after an optional ERR
	temporary bool   // the same command can be accepted later, perhaps by another server or connection
	closes    bool   // retire the connection: another one can lead to another server, or be accepted
	operator  bool   // it does not go away by itself
	forbidden bool   // a command is forbidden to this user, or unknown
}

// meanings are all errors of Redis that are more than a definite refusal.
var meanings = []meaning{
	// Not now. The same server will accept it later.
	{words: "LOADING", temporary: true},
	{words: "BUSY", temporary: true},
	{words: "UNKILLABLE", temporary: true},
	{words: NoScript, temporary: true},
	{words: "TRYAGAIN", temporary: true},
	{words: "NOREPLICAS", temporary: true},
	{words: "MISCONF", temporary: true, operator: true},

	// Not this server: another one has the keys, or will have them.
	{words: "READONLY", temporary: true, closes: true},
	{words: "MASTERDOWN", temporary: true, closes: true},
	{words: "UNBLOCKED", temporary: true, closes: true},
	{words: "CLUSTERDOWN", temporary: true},
	{words: "MOVED", temporary: true},
	{words: "ASK", temporary: true},

	// Not by this connection. The last two are what a server without users answers to AUTH.
	{words: "max number of clients", temporary: true, closes: true, operator: true},
	{words: "NOAUTH", temporary: true, closes: true, operator: true},
	{words: "WRONGPASS", temporary: true, closes: true, operator: true},
	{words: "invalid password", temporary: true, closes: true, operator: true},

	// Not by this user, or not at all.
	{words: "NOPERM", operator: true, forbidden: true},
	{words: "The user executing the script can't run", operator: true, forbidden: true},
	{words: "ACL failure in script:", operator: true, forbidden: true},
	{words: "unknown command", operator: true, forbidden: true},
	{words: "Unknown Redis command", operator: true, forbidden: true},
	{words: "Unknown command", operator: true, forbidden: true},

	// Not in this form.
	{words: FullMemory},
	{words: InvalidLength, closes: true},
}

// ServerError is an error that Redis has answered.
type ServerError string

// Error implements error.
func (e ServerError) Error() string { return string(e) }

// RedisError marks the error as an answer of Redis, as go-redis does.
func (e ServerError) RedisError() {}

// meaningOf returns the meaning of an error; a zero one if it has none.
func meaningOf(err error) meaning { return meaningOfText(answerOf(err)) }

func meaningOfText(text string) meaning {
	text = strings.TrimPrefix(text, "ERR ")
	for _, m := range meanings {
		if rest, ok := strings.CutPrefix(text, m.words); ok && (rest == "" || rest[0] == ' ') {
			return m
		}
	}
	return meaning{}
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

// CodeOf returns the words by which an error of Redis is known, or its first word, without an
// ERR before another one; "" if err is not an error of Redis.
func CodeOf(err error) string {
	text := answerOf(err)
	if m := meaningOfText(text); m.words != "" {
		return m.words
	}
	code, rest, _ := strings.Cut(text, " ")
	if code == "ERR" && rest != "" {
		code, _, _ = strings.Cut(rest, " ")
	}
	return code
}

// IsTemporary returns whether the same command can be accepted later.
func IsTemporary(err error) bool { return meaningOf(err).temporary }

// closesConnection returns whether an error of Redis retires the connection.
func closesConnection(err error) bool { return meaningOf(err).closes }

// NeedsOperator returns whether an error will not go away by itself.
func NeedsOperator(err error) bool { return meaningOf(err).operator }

// Forbids returns whether Redis does not know this command, or does not let this user run it.
// The error can also be about another command, such as the AUTH of a new connection.
func Forbids(err error, command string) bool {
	return IsForbidden(err) && strings.Contains(strings.ToLower(answerOf(err)), command)
}

// IsForbidden returns whether Redis does not know some command, or does not let this user run
// it.
func IsForbidden(err error) bool { return meaningOf(err).forbidden }
