package storetest

import "fmt"

func (m *Model) debug() (s string) {
	for l, jobs := range m.readyLanes() {
		g := m.group(l)
		s += fmt.Sprintf("LANE %v turn %v load %d held %v next %d pri %d:", l, g.turn, m.load(l), m.held(l), m.nextOf(l).id, m.nextOf(l).pri)
		for _, j := range jobs {
			s += fmt.Sprintf(" %d(pri %d head %v)", j.id, j.pri, j.head)
		}
		s += "\n"
	}
	return s
}
