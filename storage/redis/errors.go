package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
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

// reactionTo returns what is done after a call has failed. Whatever Redis has answered, nothing
// was carried out.
func reactionTo(err error) reaction {
	if e, ok := errors.AsType[unsent](err); ok {
		return e.reaction
	}
	switch code := conn.CodeOf(err); {
	case code == conn.FullMemory:
		return withhold
	case code == conn.InvalidLength:
		return shrink
	case code == lua.Unstaged:
		return restage
	case code == lua.Lost:
		return renew
	case conn.IsTemporary(err):
		return hold
	case code != "" || errors.Is(err, errReply) || errors.Is(err, conn.ErrClosed):
		return giveUp
	}
	return hold
}

// unknown returns whether a call that failed with err may have been carried out, or may still
// be.
func unknown(err error) bool {
	var op *net.OpError
	sent := !(errors.As(err, &op) && op.Op == "dial") && !errors.Is(err, conn.ErrBusy) && !errors.Is(err, conn.ErrNoNode)
	var registering registrationError
	if _, ok := errors.AsType[unsent](err); ok {
		return false
	}
	return conn.CodeOf(err) == "" && sent && !errors.Is(err, conn.ErrOtherServer) && !errors.As(err, &registering)
}

// classify turns an error of Redis into an error of package storage.
func classify(err error) error {
	if errors.Is(err, storage.ErrNoSpace) {
		return err
	}
	if conn.CodeOf(err) == conn.FullMemory {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection was closed by Redis")
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// ErrUnreachable: Open has failed because no server accepts calls yet: it does not listen, loads its
// data, or is no primary. That can end by itself, unlike a wrong password.
var ErrUnreachable = errors.New("the Redis server accepts no calls")

// openError wraps an error of Open. It is an ErrUnreachable where that applies.
func openError(a *conn.Address, err error) error {
	wrapped := fmt.Errorf("using Redis at %s: %w", a.Where(), a.Redactor().Error(err))
	if strings.Contains(err.Error(), "NOAUTH") {
		wrapped = fmt.Errorf("%w; it wants a password, and the URL has none: redis://:PASSWORD@HOST:PORT, or redis://USER:PASSWORD@HOST:PORT", wrapped)
	}
	temporary := conn.IsTemporary(err) && !conn.NeedsOperator(err)
	if _, network := errors.AsType[net.Error](err); temporary || network || errors.Is(err, io.EOF) || errors.Is(err, conn.ErrNoNode) {
		return unreachableError{wrapped}
	}
	return wrapped
}

type unreachableError struct{ error }

func (e unreachableError) Unwrap() error        { return e.error }
func (e unreachableError) Is(target error) bool { return target == ErrUnreachable }

// registrationError is the error of a registration, whose outcome does not matter.
type registrationError struct{ error }

func (e registrationError) Unwrap() error { return e.error }

// unsent is the error of a call that was not sent because of what its server allows.
type unsent struct {
	error
	reaction reaction
}

func (e unsent) Unwrap() error { return e.error }
