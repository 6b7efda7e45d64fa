package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
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
	giveUp                   // answer with an error
)

// passing are the beginnings of errors that pass by themselves, or when
// another server takes over. Nothing was carried out.
var passing = []string{"LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "NOSCRIPT", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "MOVED", "ASK", "UNBLOCKED"}

// codeOf returns the first word of an error that Redis has answered, "" if it
// has not. Before Redis 7 errors within a script are wrapped in others.
func codeOf(err error) string {
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	if _, inner, wrapped := strings.Cut(text, ": -"); wrapped && strings.HasPrefix(text, "ERR Error running script") {
		text = inner
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

func reactionTo(err error) reaction {
	switch code := codeOf(err); {
	case code == "OOM":
		return withhold
	case code == unstaged:
		return restage
	case code == lost:
		return renew
	case slices.Contains(passing, code):
		return hold
	case code != "", errors.Is(err, errReply), errors.Is(err, goredis.ErrClosed):
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
	return codeOf(err) == "" && sent && !errors.Is(err, errOtherServer) && !errors.As(err, &registering)
}

// classify turns an error of Redis into one of package storage.
func classify(err error) error {
	if codeOf(err) == "OOM" {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection was closed by Redis")
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}
