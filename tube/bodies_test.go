package tube

import "testing"

// uses counts the uses of a body.
type uses int

func (u *uses) Retain()  { *u++ }
func (u *uses) Release() { *u-- }

// TestBodyIsReleased: the Machine has one use of a body as long as it keeps the body.
func TestBodyIsReleased(t *testing.T) {
	for name, end := range map[string]func(*Machine, *Job){
		"deleted": func(m *Machine, j *Job) { m.Move(0, Delete, 1, j.ID, Terms{}) },
		"dropped": func(m *Machine, j *Job) { m.DropBody(j) },
		"dropped, and deleted": func(m *Machine, j *Job) {
			m.DropBody(j)
			m.Move(0, Delete, 1, j.ID, Terms{})
		},
	} {
		m, mine, others := NewMachine(), uses(1), uses(1)
		plain := m.Put(0, NewJob{Tube: "t", Body: []byte("no Buffer")})
		other := m.Put(0, NewJob{Tube: "t", Body: []byte("another"), Buffer: &others})
		j := m.Put(0, NewJob{Tube: "t", Body: []byte("mine"), Buffer: &mine})
		if m.Buffer(plain) != nil || m.Buffer(j) != &mine || m.Buffer(other) != &others {
			t.Errorf("%s: the Buffers are mixed up", name)
		}
		m.Take(0, 1, []string{"t"})
		m.Move(0, Bury, 1, plain.ID, Terms{})
		if end(m, j); mine != 0 || others != 1 {
			t.Errorf("%s: %d uses are left, and %d of another job's body", name, mine, others)
		}
		m.Move(0, Delete, 1, plain.ID, Terms{})
		next := m.Put(0, NewJob{Tube: "t", Body: []byte("in the place of one of them")})
		if m.Buffer(next) != nil {
			t.Errorf("%s: a body has the Buffer of one that was there before", name)
		}
	}
}

// TestRoomForBodies: it stays when a queue is empty now and then, and goes when many
// jobs have their bodies somewhere else.
func TestRoomForBodies(t *testing.T) {
	m := NewMachine()
	body := []byte("body")
	round := func() {
		j := m.Put(0, NewJob{Tube: "t", Body: body})
		m.Move(0, Delete, 0, j.ID, Terms{})
	}
	round()
	room := m.slab.chunks[0].bodies
	if round(); m.slab.chunks[0].bodies != room || room == nil {
		t.Error("the room for bodies is made anew for each job")
	}
	var jobs []*Job
	for range fewJobs + 1 {
		jobs = append(jobs, m.Put(0, NewJob{Tube: "t", Body: body}))
	}
	for _, j := range jobs {
		m.DropBody(j)
	}
	if m.slab.chunks[0].bodies != nil {
		t.Error("there is room for bodies, and none is kept")
	}
}
