package differ

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const (
	putStart = "put 0 0 5000 3\r\na"
	putEnd   = "bc\r\n"
)

// putModel is the order in which a server reads puts and has them complete,
// with nothing else of a server. Its connections watch different tubes, and
// every reserve finds no job.
type putModel struct {
	*rand.Rand
	e          *episode
	todo       map[int][]happening // sent and not yet read
	woken      []int               // served, and will read on at any time
	read, done []int               // puts
	log        []string
}

// happening is that a server reads a put's line or the end of its body, or a
// reserve, or a kick.
type happening struct {
	what string
	put  int // its place in the order of sending
}

func newPutModel(number uint64) *putModel {
	m := &putModel{
		Rand: rand.New(rand.NewPCG(number, 0)), todo: make(map[int][]happening),
		e: &episode{max: 40, conns: make(map[int]*conn)},
	}
	for id := range 3 {
		m.e.conns[id] = newConn(40, &m.e.sums)
		m.e.conns[id].watched = []string{fmt.Sprint(id)}
	}
	return m
}

// send makes a step of one packet, if it is admitted.
func (m *putModel) send(id int, pieces ...string) (why string) {
	s := step{conn: id}
	for _, p := range pieces {
		s.commands = append(s.commands, command{payload: p})
	}
	if why = m.e.admit(s); why != "" {
		return why
	}
	m.log = append(m.log, fmt.Sprintf("%d sends %q", id, pieces))
	c := m.e.conns[id]
	for _, p := range pieces {
		for _, a := range c.frame.feed([]byte(p), 0) {
			c.pending = append(c.pending, a)
			m.todo[id] = append(m.todo[id], happening{a.verb, a.begun})
		}
		if c.frame.put != nil {
			m.todo[id] = append(m.todo[id], happening{"line", c.frame.put.begun})
		}
		m.goOn(id)
		if m.IntN(2) == 0 { // the rest may come in another fragment
			m.readOn()
		}
	}
	m.readOn()
	return ""
}

// goOn reads what a connection has sent up to a reserve.
func (m *putModel) goOn(id int) {
	for len(m.todo[id]) > 0 && m.todo[id][0].what != "reserve" {
		next := m.todo[id][0]
		m.todo[id] = m.todo[id][1:]
		switch next.what {
		case "line":
			m.read = append(m.read, next.put)
			continue
		case "put":
			m.done = append(m.done, next.put)
		}
		m.e.conns[id].pending = m.e.conns[id].pending[1:]
		m.serve(id) // by a kick, or the job put
	}
}

// serve answers the reserve of another connection.
func (m *putModel) serve(but int) {
	waiting := slices.DeleteFunc(slices.Sorted(maps.Keys(m.e.conns)), func(id int) bool {
		return id == but || len(m.todo[id]) == 0 || slices.Contains(m.woken, id)
	})
	if len(waiting) > 0 && m.IntN(3) == 0 {
		m.woken = append(m.woken, waiting[m.IntN(len(waiting))])
	}
}

// readOn reads what the connections that were served have sent.
func (m *putModel) readOn() {
	for len(m.woken) > 0 {
		id := m.woken[0]
		m.woken = m.woken[1:]
		m.log = append(m.log, fmt.Sprintf("%d is served", id))
		m.todo[id], m.e.conns[id].pending = m.todo[id][1:], m.e.conns[id].pending[1:]
		m.goOn(id)
	}
}

// anything makes up a packet, or has time serve a waiting connection.
func (m *putModel) anything() {
	if m.IntN(4) == 0 {
		m.serve(-1)
		m.readOn()
		return
	}
	id := m.IntN(len(m.e.conns))
	inside := m.e.conns[id].frame.put != nil
	var pieces []string
	for range 1 + m.IntN(3) {
		p := []string{putStart, putStart, "reserve\r\n", "kick 1\r\n"}[m.IntN(4)]
		if inside {
			p = putEnd
		}
		inside = p == putStart
		pieces = append(pieces, p)
	}
	m.send(id, pieces...)
}

// TestOrderOfPuts: of two puts the one whose line is read first is complete
// first, whenever waiting connections are served.
func TestOrderOfPuts(t *testing.T) {
	puts, heldUp := 0, 0
	for number := range uint64(300) {
		m := newPutModel(number)
		for range 40 {
			m.anything()
			for _, behind := range m.todo {
				heldUp += max(0, len(behind)-1)
			}
		}
		read := slices.DeleteFunc(m.read, func(put int) bool { return !slices.Contains(m.done, put) })
		if !slices.Equal(read, m.done) {
			t.Fatalf("lines of puts %v, bodies %v:\n%s", read, m.done, strings.Join(m.log, "\n"))
		}
		puts += len(m.done)
	}
	if puts == 0 || heldUp == 0 {
		t.Errorf("%d puts, and %d times something held up: nothing was tried", puts, heldUp)
	}
}

// TestAdmitPuts: puts in pieces and puts behind a reserve are left out only if
// they meet, and whichever comes first.
func TestAdmitPuts(t *testing.T) {
	const reserve, put = "reserve\r\n", putStart + putEnd
	type packet struct {
		conn int
		sent string
	}
	for _, c := range []struct {
		name    string
		before  []packet
		last    packet
		refused bool
	}{
		{"held up, then a part of another", []packet{{1, reserve}, {1, put}}, packet{2, putStart}, true},
		{"a part of another, then held up", []packet{{1, reserve}, {2, putStart}}, packet{1, put}, true},
		{"held up by the same packet", []packet{{2, putStart}}, packet{1, reserve + put}, true},
		{"a part held up, then a part of another", []packet{{1, reserve + putStart}}, packet{2, putStart}, true},
		{"a part of another, then all of one that is held up in parts", []packet{{2, putStart}, {1, reserve + putStart}}, packet{1, putEnd}, true},
		{"parts held up on both", []packet{{1, reserve + putStart}, {2, reserve}}, packet{2, putStart}, true},
		{"whoever wakes it in the same packet", []packet{{1, reserve + put}}, packet{2, "kick 1\r\n" + putStart}, true},

		{"held up, then another", []packet{{1, reserve + put}}, packet{2, put}, false},
		{"held up, then the rest of it", []packet{{1, reserve + putStart}}, packet{1, putEnd}, false},
		{"held up, then a part behind it", []packet{{1, reserve + put}}, packet{1, putStart}, false},
		{"a part of another, then a part held up", []packet{{2, putStart}}, packet{1, reserve + putStart}, false},
		{"one waits, a part of another", []packet{{1, reserve}}, packet{2, putStart}, false},
		{"one waits, the rest of another", []packet{{2, putStart}, {1, reserve}}, packet{2, putEnd}, false},
		{"behind a reserve that does not wait", []packet{{2, putStart}}, packet{1, "reserve-with-timeout 0\r\n" + putStart}, false},
		{"before a reserve", []packet{{2, putStart}, {2, putEnd}}, packet{1, put + reserve}, false},
	} {
		m := newPutModel(0)
		for _, p := range c.before {
			if why := m.send(p.conn, p.sent); why != "" {
				t.Fatalf("%s: %q is not admitted: %s", c.name, p.sent, why)
			}
		}
		want := ""
		if c.refused {
			want = "put-half-received"
		}
		s := step{conn: c.last.conn, commands: []command{{payload: c.last.sent}}}
		if why := m.e.admit(s); why != want {
			t.Errorf("%s: refused because of %q, want %q", c.name, why, want)
		}
	}
}

// TestAdmitEnd: a connection that holds a job and ends with a packet wakes no other
// one in it. Else it would be chance which of two jobs that one gets.
func TestAdmitEnd(t *testing.T) {
	const kick = "kick 1\r\n"
	for _, c := range []struct {
		name          string
		waits, holds  bool
		sent          string
		ends, refused bool
	}{
		{"kicks and ends", true, true, kick, true, true},
		{"puts and ends", true, true, putStart + putEnd, true, true},
		{"kicks and quits", true, true, kick + "quit\r\n", false, true},
		{"kicks and stays", true, true, kick, false, false},
		{"nobody waits", false, true, kick, true, false},
		{"holds nothing", true, false, kick, true, false},
		{"wakes nobody else", true, true, "list-tubes\r\n", true, false},
		{"quits", true, true, "quit\r\n", false, false},
	} {
		m := newPutModel(0)
		if c.waits {
			m.send(1, "reserve\r\n")
		}
		if c.holds {
			m.e.conns[2].held[1] = true
		}
		why := m.e.admit(step{conn: 2, commands: []command{{payload: c.sent}}, fin: c.ends})
		if want := map[bool]string{true: "burst-and-waiter"}[c.refused]; why != want {
			t.Errorf("%s: refused because of %q, want %q", c.name, why, want)
		}
	}
}
