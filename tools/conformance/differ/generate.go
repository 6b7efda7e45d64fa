package differ

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator generates a script while it is played: it uses what the
// episode has learned, so that most commands find a job.
type generator struct {
	*rand.Rand
	e       *episode
	conns   int            // opened so far
	labels  int            // given so far
	left    int            // steps to make
	drained int            // steps before the end at which draining begins; 0: never
	unsent  map[int]string // by connection: the end of a command that was sent in part
	askers  []int          // connections that still have to ask about all tubes, while no figure lags
}

func newGenerator(e *episode, random *rand.Rand, steps int) *generator {
	g := &generator{Rand: random, e: e, left: steps, unsent: make(map[int]string)}
	if g.chance(4) {
		g.drained = 12
	}
	return g
}

// next returns the next step; false at the end of the script.
func (g *generator) next() (step, bool) {
	if g.left--; g.left < 0 {
		return step{}, false
	}
	if g.left == g.drained && g.drained > 0 {
		return step{act: drain}, true
	}
	if g.left%askEvery == askEvery/2 && g.e.admit(step{act: quiet}) == "" {
		g.askers = slices.Sorted(maps.Keys(g.e.conns))
		return step{act: quiet}, true
	}
	if s, ok := g.askAbout(); ok {
		return s, true
	}
	for range 50 {
		unsent := maps.Clone(g.unsent)
		if s := g.step(); g.e.admit(s) == "" {
			return s, true
		}
		g.unsent = unsent // else a line would continue in the next one, and an id get into the name of a tube
	}
	return step{conn: g.newConn(), commands: []command{{line: "list-tubes", payload: "\r\n"}}}, true
}

// askEvery is the number of steps between two requests for figures that lag.
const askEvery = 200

// askAbout makes the next of the askers ask about every tube.
func (g *generator) askAbout() (step, bool) {
	for len(g.askers) > 0 {
		s := step{conn: g.askers[0], commands: []command{{line: "list-tubes", payload: "\r\n"}}}
		g.askers = g.askers[1:]
		for _, name := range tubeNames {
			s.commands = append(s.commands, command{line: "stats-tube " + name, payload: "\r\n"})
		}
		if c := g.e.conns[s.conn]; c != nil && !c.waits() && g.unsent[s.conn] == "" && g.e.admit(s) == "" {
			return s, true
		}
	}
	return step{}, false
}

func (g *generator) newConn() int {
	g.conns++
	return g.conns
}

// chance returns true in one of n cases.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) step() step {
	open := slices.Sorted(maps.Keys(g.e.conns))
	if len(open) < 2 || len(open) < 6 && g.chance(30) {
		return g.packet(g.newConn())
	}
	id := pick(g, open...)
	if g.e.conns[id].waits() && !g.chance(12) {
		id = pick(g, open...) // let others do something
	}
	switch n := g.IntN(200); {
	case n < 2:
		return step{act: hangUp, conn: id}
	case n < 4:
		return step{act: half, conn: id}
	case n < 6:
		s := g.packet(id)
		s.fin = true
		return s
	}
	return g.packet(id)
}

// packet generates a packet: mostly one command, sometimes many, in one
// piece or in fragments, complete or not.
func (g *generator) packet(id int) step {
	s := step{conn: id}
	if end, cut := g.unsent[id]; cut && g.e.conns[id] != nil {
		s.commands = append(s.commands, command{payload: end})
	}
	n := 1
	switch g.IntN(20) {
	case 0, 1, 2, 3, 4:
		n += 1 + g.IntN(5)
	case 5:
		n = pick(g, 2, 10, 20, 70, 130)
	}
	if g.e.timed {
		if g.chance(6) {
			return g.closeWait(s)
		}
		n = min(n, 4)
	}
	for range n {
		s.commands = append(s.commands, g.command(id))
	}
	if g.chance(12) {
		for range 1 + g.IntN(4) {
			s.cuts = append(s.cuts, g.IntN(300))
		}
	}
	delete(g.unsent, id)
	if last := &s.commands[len(s.commands)-1]; !g.e.timed && g.chance(15) && last.payload != "" {
		at := g.IntN(len(last.payload))
		trial := s
		trial.commands = slices.Clone(s.commands)
		trial.commands[len(s.commands)-1].payload = last.payload[:at]
		if g.e.admit(trial) == "" {
			g.unsent[id] = last.payload[at:]
			return trial
		}
	}
	return s
}

// closeWait generates a packet that makes something due in a second, followed by
// a reserve that waits for the same time: it ends at most some milliseconds later.
func (g *generator) closeWait(s step) step {
	const tube = "t"
	lines := []string{"use " + tube, "watch " + tube}
	held := g.e.heldBy(s.conn)
	switch n := g.IntN(3); {
	case n == 0 && len(held) > 0:
		lines = []string{"release " + ref(pick(g, held...)) + " " + g.pri() + " 1"}
	case n == 1:
		lines = append(lines, fmt.Sprintf("put %s 0 5000 %d", g.pri(), g.IntN(30)), "pause-tube "+tube+" 1")
	default:
		lines = append(lines, fmt.Sprintf("put %s 1 5000 %d", g.pri(), g.IntN(30)))
	}
	for range g.IntN(3) {
		lines = append(lines, pick(g, "list-tube-used", "list-tubes-watched"))
	}
	for _, line := range append(lines, "reserve-with-timeout 1") {
		s.commands = append(s.commands, g.whole(line))
	}
	for range g.IntN(4) {
		s.cuts = append(s.cuts, g.IntN(300))
	}
	return s
}

func (g *generator) command(id int) command {
	line := g.line(id)
	if g.chance(10) {
		line = g.malform(line)
	}
	if len(line) > 0 && g.chance(40) {
		line = g.junk()
	}
	return g.whole(strings.ReplaceAll(clean(line), "\r", ""))
}

// whole returns a line with its body.
func (g *generator) whole(line string) command {
	if !strings.HasPrefix(line, "put ") {
		return command{line: line, payload: "\r\n"}
	}
	g.labels++
	return command{line: line, payload: "\r\n" + g.bodyFor(line), label: g.labels}
}

// bodyFor generates a body for a put line, mostly of the announced length.
func (g *generator) bodyFor(line string) string {
	f := framer{max: g.e.max, sums: new(sums)}
	f.feed([]byte(line+"\r\n"), 0)
	if f.put == nil { // the line is bad, and the body will be read as commands
		return pick(g, "", "x\r\n", "list-tubes\r\n", "delete 0\r\n", "\x00\xff\r\n", "use a\r\nuse b\r\n")
	}
	size := f.left - 2
	if size > 200_000 {
		return g.bytes(g.IntN(100))
	}
	body := g.bytes(int(size))
	switch {
	case g.chance(40):
		return body + "x\r\n"
	case g.chance(40):
		return body + g.bytes(g.IntN(20)+2)
	case g.chance(60) && size > 0:
		return body[1:] + "\r\n"
	case g.chance(60):
		return body + "\n\r"
	}
	return body + "\r\n"
}

// bytes generates n bytes of one of several kinds.
func (g *generator) bytes(n int) string {
	b := make([]byte, n)
	switch sort := g.IntN(4); sort {
	case 0:
		g.fill(b)
	case 1:
		text := pick(g, "\r\n", "\r\nreserve\r\n", "\x00", "\r", "delete 1\r\nput 0 0 1 1\r\n")
		for i := range b {
			b[i] = text[i%len(text)]
		}
	default:
		g.fill(b)
		for i := range b {
			b[i] = 'a' + b[i]%26
		}
	}
	return string(b)
}

// fill makes all bytes of b random.
func (g *generator) fill(b []byte) {
	for len(b) > 0 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], g.Uint64())
		b = b[copy(b, eight[:]):]
	}
}

var tubeNames = []string{"t", "u", "v", "w", "default", "-t", "a/b;c.d$e_f(g)+h", "1", strings.Repeat("n", 200), strings.Repeat("n", 201)}

func (g *generator) tube() string {
	if g.chance(4) {
		return pick(g, tubeNames...)
	}
	return pick(g, tubeNames[:5]...)
}

func (g *generator) pri() string {
	return pick(g, "0", "1", "5", "1023", "1024", "4294967295", fmt.Sprint(g.IntN(3000)))
}

// seconds generates a delay or the length of a pause.
func (g *generator) seconds() string {
	if g.e.timed {
		return pick(g, "0", "1", "1", "1", "2", "3", fmt.Sprint(latest+g.IntN(1_000_000)))
	}
	return pick(g, "0", "0", fmt.Sprint(4294967295-g.IntN(1000)*g.IntN(1_000_000)), fmt.Sprint(latest+g.IntN(1_000_000)))
}

func (g *generator) ttr() string {
	if g.e.timed {
		return pick(g, "0", "1", "1", "2", "3", "5000")
	}
	return pick(g, "4294967295", "5000", "86400")
}

func (g *generator) timeout() string {
	if g.e.timed {
		return pick(g, "0", "0", "1", "1", "2", "1000")
	}
	return pick(g, "0", "0", "0", "0", "0", "00", "0 ", "0x", "5000", "2147483647")
}

// job returns a reference to a job: one that this connection holds if mine is set and
// there is one, a recent one, any one, or none.
func (g *generator) job(id int, mine bool) string {
	held := g.e.heldBy(id)
	alive := g.e.alive
	switch n := g.IntN(20); {
	case mine && n < 16 && len(held) > 0:
		return ref(pick(g, held...))
	case n == 0 || len(alive) == 0:
		return pick(g, "0", "18446744073709551615", noSuchJob, ref(max(1, g.labels-1)))
	case n < 10:
		return ref(alive[len(alive)-1-g.IntN(min(5, len(alive)))])
	case n == 11:
		return pick(g, "0", "00000", " ") + ref(pick(g, alive...))
	}
	return ref(pick(g, alive...))
}

func (g *generator) holdsNothing(id int) bool {
	c := g.e.conns[id]
	return c == nil || len(c.held) == 0
}

// size generates the size that a put line announces.
func (g *generator) size() int {
	limit := g.e.max
	switch g.IntN(16) {
	case 0:
		return limit + 1 + g.IntN(3)
	case 1:
		return limit + g.IntN(400)
	case 2:
		return max(0, limit-g.IntN(3))
	case 3:
		return g.IntN(min(limit, 5000) + 1)
	}
	return g.IntN(min(limit, 30) + 1)
}

// line generates a well-formed line.
func (g *generator) line(id int) string {
	many := len(g.e.alive) > 60
	n := g.IntN(132)
	if many && g.chance(2) {
		return "delete " + g.job(id, g.chance(2))
	}
	switch {
	case n < 20:
		return fmt.Sprintf("put %s %s %s %d", g.pri(), g.seconds(), g.ttr(), g.size())
	case n < 30:
		return "reserve-with-timeout " + g.timeout()
	case n < 34:
		return "reserve"
	case n < 40:
		return "reserve-job " + g.job(id, false)
	case n < 47:
		return "delete " + g.job(id, g.chance(2))
	case n < 66 && g.holdsNothing(id) && !g.chance(4): // it would mostly be NOT_FOUND
		return pick(g, "reserve-with-timeout "+g.timeout(), "reserve-job "+g.job(id, false))
	case n < 55:
		return "release " + g.job(id, true) + " " + g.pri() + " " + g.seconds()
	case n < 62:
		return "bury " + g.job(id, true) + " " + g.pri()
	case n < 66:
		return "touch " + g.job(id, true)
	case n < 70:
		return "kick " + pick(g, "1", "1", "0", "2", "3", "100", "4294967297", "-1", "+1", "\t1", "1x", "1 1")
	case n < 74:
		return "kick-job " + g.job(id, false)
	}
	return g.question(id, n)
}

// question generates a line that changes no job.
func (g *generator) question(id, n int) string {
	switch {
	case n < 79:
		return "peek " + g.job(id, false)
	case n < 87:
		return pick(g, "peek-ready", "peek-delayed", "peek-buried")
	case n < 94:
		return "stats-job " + g.job(id, false)
	case n < 100:
		return "stats-tube " + g.tube()
	case n < 104:
		return "stats"
	case n < 110:
		return "use " + g.tube()
	case n < 117:
		return "watch " + g.tube()
	case n < 123:
		return "ignore " + g.tube()
	case n < 127:
		return pick(g, "list-tubes", "list-tube-used", "list-tubes-watched")
	case n < 131:
		return pick(g, "pause-tube ", "pause-tube ", "pause-tube ", "pause-tube   ", "pause-tube") + g.tube() + " " + g.seconds()
	case g.chance(4):
		return pick(g, "quit", "quitter", "quit now please")
	}
	return "list-tubes"
}
