package transcript

import (
	"fmt"
	"strings"
	"time"
)

// String is the reply as a transcript would write it, shortened.
func (r reply) String() string {
	if !r.Data {
		return clip(r.Head)
	}
	return clip(r.Head) + " / " + clip(r.Body)
}

// clip quotes b, leaving out the middle if it is long.
func clip(b []byte) string {
	s := quote(b)
	if len(s) > 2000 {
		s = s[:1000] + " ... " + s[len(s)-900:]
	}
	return s
}

// A dialog is what was said, for error messages.
type dialog struct {
	start time.Time
	lines []string
}

func (d *dialog) add(at time.Time, conn, what string) {
	if n := len(what); n > 300 {
		what = what[:200] + " ... " + what[n-80:]
	}
	d.lines = append(d.lines, fmt.Sprintf("  %8.3fs %s %s", at.Sub(d.start).Seconds(), conn, what))
}

// String is the last part of the dialogue.
func (d *dialog) String() string {
	lines := d.lines
	if len(lines) > 40 {
		lines = append([]string{"  ..."}, lines[len(lines)-40:]...)
	}
	return strings.Join(lines, "\n")
}
