package differ

import (
	"maps"
	"slices"
	"strings"
)

// admit returns "" if a step may be made now, or why not. It excludes steps
// of Differences, and those with random results. A step that
// is not admitted is left out on both sides, in reduced scripts as
// well as in new ones.
func (e *episode) admit(s step) string {
	switch {
	case s.act == quiet && (e.lag == 0 || e.timed):
		return "nothing lags, or time must not pass"
	case s.act == drain, s.act == quiet:
		return ""
	}
	c := e.conns[s.conn]
	if c == nil {
		if e.gone[s.conn] || s.act != send {
			return "no connection"
		}
		c = e.newConn()
	}
	if c.halfClosed || c.frame.over {
		return "nothing can be sent any more"
	}
	if s.act == hangUp {
		return e.admitHangUp(s.conn, c)
	}
	coming := e.preview(c, s)
	all := append(slices.Clone(c.pending), coming...)
	for _, rule := range []func(int, *conn, []*sentCommand, step) string{
		e.admitLines, e.admitBehind, e.admitIDs, e.admitTimes, e.admitPuts, e.admitWaiting, e.admitWaking, e.admitEnd,
	} {
		if why := rule(s.conn, c, all, s); why != "" {
			return why
		}
	}
	if e.timed && !e.frameAfter.idle() && s.act == send && !s.fin {
		return "time would pass in the middle of a command"
	}
	return ""
}

// preview returns the commands that would be complete after the step.
func (e *episode) preview(c *conn, s step) (coming []*sentCommand) {
	coming, e.frameAfter = e.commands(c, s, e.judgeID)
	return coming
}

func (e *episode) commands(c *conn, s step, n names) (coming []*sentCommand, after *framer) {
	after = c.frame.clone()
	for _, cmd := range s.commands {
		coming = append(coming, after.feed(cmd.bytes(n), cmd.label)...)
	}
	return coming, after
}

// farID is larger than all ids that a script can reach.
const farID = 1_000_000_000

// admitIDs excludes ids that are not the same job on both, or not yet a job.
func (e *episode) admitIDs(_ int, c *conn, all []*sentCommand, s step) string {
	f := c.frame.clone()
	for _, cmd := range s.commands {
		if f.put != nil && refs.MatchString(cmd.line) {
			return "an id would become part of a body"
		}
		f.feed(cmd.bytes(e.judgeID), cmd.label)
	}
	subject, _ := e.commands(c, s, e.subjectID)
	judge := all[len(all)-min(len(all), len(subject)):]
	for i, a := range judge {
		theirs, ours := a.ids(), subject[i].ids()
		if len(theirs) != len(ours) {
			return "put-failed-ids"
		}
		for n, id := range theirs {
			label := e.byJudge[id]
			if label != e.bySubject[ours[n]] || label == 0 && 0 < id && id < farID {
				return "put-failed-ids"
			}
		}
	}
	return ""
}

// mostCommands is the largest number of commands in a packet.
const mostCommands = 300

// admitLines excludes lines that the two are known to read differently, and lines
// without an end.
func (e *episode) admitLines(_ int, _ *conn, all []*sentCommand, _ step) string {
	if len(all) > mostCommands {
		return "a body is read as too many commands"
	}
	behind := false
	for _, a := range all {
		if a.flaw != "" {
			return a.flaw
		}
		if behind && a.verb == "stats" {
			return "own-questions"
		}
		behind = behind || a.blocks
	}
	switch f := e.frameAfter; {
	case f.lost:
		return "something is sent behind quit"
	case len(f.line) > 8*lineMax:
		return "a line without end"
	}
	return ""
}

// behindMost is the largest number of bytes sent after a waiting reserve.
const behindMost = 50_000

// admitBehind excludes more bytes than a subject reads ahead.
func (e *episode) admitBehind(_ int, c *conn, all []*sentCommand, s step) string {
	bytes := c.behind
	for _, cmd := range s.commands {
		bytes += len(cmd.line) + len(cmd.payload)
	}
	blocks := slices.ContainsFunc(all, func(a *sentCommand) bool { return a.blocks })
	if blocks && bytes > behindMost {
		return "waiting-then-gone"
	}
	return ""
}

// admitTimes separates times that a script waits for from those that it does
// not, and allows at most one event per step.
func (e *episode) admitTimes(id int, c *conn, all []*sentCommand, s step) string {
	if put := e.frameAfter.put; put != nil && put.whole {
		all = append(all, put)
	}
	arming := 0
	seen := maps.Clone(e.delays)
	for _, a := range all {
		if n, ok := a.longDelay(); ok && seen[n/apart] && !a.delayed {
			return "delay-due-order"
		} else if ok {
			seen[n/apart] = true
		}
		for _, n := range a.seconds() {
			if n > 0 && n < latest && (!e.timed || n > soonest) {
				return "a time between"
			}
		}
		if e.arms(id, a) {
			arming++
		}
	}
	if e.timed && arming > 1 && !e.closeWait(id, c, all, arming) {
		return "two events at a time"
	}
	return ""
}

// closeWait reports whether, of two commands that cause an event, the second is a
// reserve that waits exactly until the first one's event. Then
// that is due a moment before the end of the wait, and comes first. No other connection
// may wait, since it could see the order of the two.
func (e *episode) closeWait(id int, c *conn, all []*sentCommand, arming int) bool {
	if len(all) == 0 || arming != 2 {
		return false
	}
	last := all[len(all)-1]
	if last.verb != "reserve-with-timeout" || len(c.pending) > 0 || e.waiting(id) > 0 {
		return false
	}
	limit := last.seconds()
	for _, a := range all[:len(all)-1] {
		if !e.arms(id, a) {
			continue
		}
		due := a.seconds()
		return a.verb != "reserve-with-timeout" && len(due) > 0 && len(limit) == 1 && due[0] == limit[0]
	}
	return false
}

// endsWithCloseWait reports whether a step is such a packet. Both times are measured by the
// server, so there is only one right reply, even on a slow machine.
func (e *episode) endsWithCloseWait(s step, c *conn) bool {
	if !e.timed {
		return false
	}
	coming, arming := e.preview(c, s), 0
	for _, a := range coming {
		if e.arms(s.conn, a) {
			arming++
		}
	}
	return e.closeWait(s.conn, c, coming, arming)
}

// arms reports whether a command can cause an event.
func (e *episode) arms(id int, a *sentCommand) bool {
	if !e.timed {
		return false
	}
	short := false
	for i, n := range a.seconds() {
		short = short || n > 0 && n <= soonest && (a.verb != "put" || i == 0)
	}
	switch a.verb {
	case "reserve", "reserve-job", "touch", "reserve-with-timeout":
		return true
	case "put", "kick", "kick-job", "release", "pause-tube":
		short = short || e.waiting(id) > 0
	}
	return short
}

// waiting counts the other connections that wait.
func (e *episode) waiting(but int) int {
	n := 0
	for id, c := range e.conns {
		if id != but && c.waits() {
			n++
		}
	}
	return n
}

// admitPuts keeps the order of ids the same: beanstalkd assigns them to lines,
// the subject to complete bodies. A line after a waiting reserve is read when
// that is answered, because of a step of another connection, or of time. If a body
// were incomplete then, its put would have begun before the one after the
// reserve, which can be complete first. Otherwise, concurrent puts are read in
// the order in which they were sent, and it is enough that none sent later is
// completed first.
func (e *episode) admitPuts(id int, _ *conn, all []*sentCommand, _ step) string {
	mine := e.frameAfter.put
	for other, o := range e.conns {
		if other == id {
			continue
		}
		theirs := o.frame.put
		overtakes := theirs != nil && slices.ContainsFunc(all, func(a *sentCommand) bool { return a.begun > theirs.begun })
		if overtakes || mine != nil && putHeldUp(o.pending, theirs) {
			return "put-half-received"
		}
	}
	return ""
}

// putHeldUp reports whether a put among the commands, or the incomplete one behind
// them, if any, may have to wait until a reserve is answered.
func putHeldUp(commands []*sentCommand, incomplete *sentCommand) bool {
	behind := false
	for _, a := range commands {
		if behind && a.begun > 0 {
			return true
		}
		behind = behind || a.blocks
	}
	return behind && incomplete != nil
}

// admitWaiting prevents connections from waiting for the same tube.
func (e *episode) admitWaiting(id int, c *conn, all []*sentCommand, _ step) string {
	if !slices.ContainsFunc(all, func(a *sentCommand) bool { return a.blocks }) {
		return ""
	}
	mine := c.mayWatch(all)
	for other, o := range e.conns {
		if other == id || !o.waits() {
			continue
		}
		for _, name := range o.mayWatch(o.pending) {
			if slices.Contains(mine, name) {
				return "waiters-fifo"
			}
		}
	}
	return ""
}

// mayWatch returns the tubes that a connection watches, or will watch at some time while
// the commands are executed.
func (c *conn) mayWatch(commands []*sentCommand) []string {
	names := slices.Clone(c.watched)
	for _, a := range commands {
		if name, ok := strings.CutPrefix(a.line, "watch "); ok {
			names = append(names, name)
		}
	}
	return names
}

// admitWaking excludes packets that wake a waiting connection and then do
// something whose result depends on how soon that connection gets its job.
func (e *episode) admitWaking(id int, c *conn, all []*sentCommand, _ step) string {
	others := e.waiting(id)
	first := slices.IndexFunc(all, func(a *sentCommand) bool { return a.blocks })
	tail := first >= 0 && first < len(all)-1
	if others == 0 && !tail {
		return ""
	}
	otherTail := e.otherTail(id)
	if tail && otherTail {
		return "two have something to do behind a reserve"
	}
	suspect := all
	if others == 0 {
		suspect = all[first+1:]
	}
	woken, counts := false, false
	for _, a := range suspect {
		if woken && (otherTail || !a.isNeutral()) || counts && a.wakes() {
			return "burst-and-waiter"
		}
		woken, counts = woken || a.wakes(), counts || a.verb == "stats"
		if a.verb == "kick" && a.line != "kick 1" && a.line != "kick 0" {
			return "kick-many-serves-one"
		}
	}
	return ""
}

// otherTail reports whether another connection has sent something after a
// waiting reserve.
func (e *episode) otherTail(id int) bool {
	for other, o := range e.conns {
		if other != id && len(o.pending) > 1 {
			return true
		}
	}
	return false
}

// admitEnd prevents a connection from releasing several jobs at once, and from
// ending where it would be random how much was executed before.
func (e *episode) admitEnd(id int, c *conn, all []*sentCommand, s step) string {
	quits := len(all) > 0 && all[len(all)-1].verb == "quit"
	if !quits && !s.fin && s.act != half {
		return ""
	}
	held := len(c.held)
	for _, a := range all {
		if strings.HasPrefix(a.verb, "reserve") {
			held++
		}
		if a.verb == "reserve-batch" {
			held++
		}
	}
	if held > 1 && e.waiting(id) > 0 {
		return "disconnect-serves-one"
	}
	wakesBefore := slices.ContainsFunc(all, func(a *sentCommand) bool { return a.wakes() && a.verb != "quit" })
	if e.otherTail(id) || held > 0 && e.waiting(id) > 0 && wakesBefore {
		return "burst-and-waiter"
	}
	if quits && slices.ContainsFunc(all, func(a *sentCommand) bool { return a.blocks }) {
		return "quit behind a reserve"
	}
	return ""
}

func (e *episode) admitHangUp(id int, c *conn) string {
	switch {
	case len(c.held) > 1 && e.waiting(id) > 0:
		return "disconnect-serves-one"
	case e.otherTail(id):
		return "burst-and-waiter"
	case len(c.pending) > 1 || len(c.pending) == 1 && !c.frame.idle():
		return "it would be chance how much is still done"
	}
	return ""
}
