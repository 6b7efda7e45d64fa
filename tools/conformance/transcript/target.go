package transcript

import (
	"fmt"
	"net"
	"os"
	"time"
)

// A Target is the server a transcript is played on.
type Target struct {
	// Kind selects the `only` blocks: "redstalk", "beanstalkd-1.12", ...
	Kind string
	// Dial opens a connection to the server. For half-close the connection
	// needs a CloseWrite method, as TCP and unix connections have.
	Dial func() (net.Conn, error)
	// Signal delivers a signal to the server process, or does what the
	// signal would. Transcripts that signal fail if it is nil.
	Signal func(os.Signal) error
	// Slack is how late a timed reply may come; 50 ms if zero. Nothing may
	// come early, apart from a clock's granularity of 2 ms.
	Slack time.Duration
	// Patience is the timeout of a reply without a time; 5 s if zero.
	Patience time.Duration
	// Tolerance is how much longer a timed transcript's steps may take than they
	// should, in all, before its play counts as late; 50 ms if zero. See LateError.
	Tolerance time.Duration
	// Pause is the pause before another connection sends while the server
	// can still be busy with the previous one; if zero, 20 ms or a quarter of Slack,
	// whichever is more.
	Pause time.Duration
}

// granularity is how much a server's clock may differ from ours over a
// transcript without being early.
const granularity = 2 * time.Millisecond

func (t Target) withDefaults() Target {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&t.Slack, 50*time.Millisecond)
	set(&t.Patience, 5*time.Second)
	set(&t.Tolerance, 50*time.Millisecond)
	set(&t.Pause, max(20*time.Millisecond, t.Slack/4))
	return t
}

// A Mismatch is where the server deviates from the transcript.
type Mismatch struct {
	File      string
	Line      int
	Want, Got string
	Log       string // the dialogue so far
}

// Error names file and line, what was expected, what came, and how the
// dialogue went.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s:%d: want %s, got %s\n%s", m.File, m.Line, m.Want, m.Got, m.Log)
}
