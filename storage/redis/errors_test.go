package redis

import (
	"errors"
	"testing"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
)

// TestReactions: what is done after each kind of error, also if a proxy or an older Redis has
// put words before it.
func TestReactions(t *testing.T) {
	for text, want := range map[string]reaction{
		"LOADING Redis is loading": hold, "READONLY You can't write": hold, "MOVED 1 h:1": hold, "NOAUTH Authentication required.": hold,
		"OOM command not allowed": withhold, "Protocol error: invalid bulk length": shrink,
		lua.Unstaged: restage, lua.Lost + " the instance was " + lua.DeclaredDead: renew,
		"NOPERM no permissions": giveUp, "unknown command 'x'": giveUp, "WRONGTYPE wrong kind": giveUp, "syntax error": giveUp,
	} {
		for _, before := range []string{"", "ERR ", "ERR Error running script (call to f_ab12): @user_script:7: -"} {
			if got := reactionTo(conn.ServerError(before + text)); got != want {
				t.Errorf("%s%s: reaction %d, want %d", before, text, got, want)
			}
		}
	}
	for err, want := range map[error]reaction{
		errReply: giveUp, conn.ErrClosed: giveUp, conn.ErrBusy: hold, conn.ErrNoNode: hold, conn.ErrOtherServer: hold, errors.New("reset"): hold,
	} {
		if got := reactionTo(err); got != want {
			t.Errorf("%v: reaction %d, want %d", err, got, want)
		}
	}
}
