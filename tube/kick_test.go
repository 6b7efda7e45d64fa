package tube

import "testing"

// TestKickOrder checks that the Machine kicks in the order of KickOrder.
func TestKickOrder(t *testing.T) {
	m := NewMachine()
	jobIn := func(state State) uint64 {
		id := m.Put(0, NewJob{Tube: "t", Delay: 1, TTR: 1}).ID
		if state == Buried {
			m.Move(0, ReserveJob, 1, id, Terms{})
			m.Move(0, Bury, 1, id, Terms{})
		}
		return id
	}
	for _, state := range KickOrder() {
		id := jobIn(state)
		if from, n := m.Kickable("t"); from != state || n != 1 {
			t.Errorf("with one %v job, Kickable says %v, %d", state, from, n)
		}
		m.Move(0, Delete, 0, id, Terms{})
	}
	for _, state := range KickOrder() {
		jobIn(state)
	}
	if from, n := m.Kickable("t"); from != KickOrder()[0] || n != 1 {
		t.Errorf("with a job in each state, Kickable says %v, %d, want %v, 1", from, n, KickOrder()[0])
	}
}
