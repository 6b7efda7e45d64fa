package tube

import "testing"

// uses counts the references to a body.
type uses int

func (u *uses) Retain()  { *u++ }
func (u *uses) Release() { *u-- }

// TestBodyIsReleased checks that the Machine has one reference to a body while it keeps it.
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
			t.Errorf("%s: %d references are left, and %d to another job's body", name, mine, others)
		}
		m.Move(0, Delete, 1, plain.ID, Terms{})
		next := m.Put(0, NewJob{Tube: "t", Body: []byte("in the slot of one of them")})
		if m.Buffer(next) != nil {
			t.Errorf("%s: a body has the Buffer of a body that was in its slot before", name)
		}
	}
}

// TestBodyTable checks that a chunk keeps its table of bodies while a queue is empty now and
// then, and frees it when many jobs have their bodies elsewhere.
func TestBodyTable(t *testing.T) {
	m := NewMachine()
	body := []byte("body")
	putAndDelete := func() {
		j := m.Put(0, NewJob{Tube: "t", Body: body})
		m.Move(0, Delete, 0, j.ID, Terms{})
	}
	putAndDelete()
	table := m.slab.chunks[0].bodies
	if putAndDelete(); m.slab.chunks[0].bodies != table || table == nil {
		t.Error("the table of bodies is allocated for each job")
	}
	var jobs []*Job
	for range fewJobs + 1 {
		jobs = append(jobs, m.Put(0, NewJob{Tube: "t", Body: body}))
	}
	for _, j := range jobs {
		m.DropBody(j)
	}
	if m.slab.chunks[0].bodies != nil {
		t.Error("there is a table of bodies, but no body")
	}
}
