package tube

// tree is a heap of jobs with four children per node. Each job knows its index in
// it, Job.pos, so any job can be removed in O(log n).
type tree []ref

// head returns the first job, or nil.
func (t tree) head(s *slab) *Job {
	if len(t) == 0 {
		return nil
	}
	return s.at(t[0])
}

// add adds j.
func (t *tree) add(s *slab, j *Job) {
	*t = append(*t, j.self)
	t.up(s, len(*t)-1, j)
}

// remove removes j, which must be in the tree.
func (t *tree) remove(s *slab, j *Job) {
	last := len(*t) - 1
	moved := (*t)[last]
	*t = (*t)[:last]
	if moved != j.self {
		t.fix(s, int(j.pos), s.at(moved))
	}
	t.shrink()
}

// fix puts j at the free index i, and moves it up or down to where it belongs.
func (t tree) fix(s *slab, i int, j *Job) {
	if i > 0 && before(j, s.at(t[(i-1)/4])) {
		t.up(s, i, j)
	} else {
		t.down(s, i, j)
	}
}

// up puts j at the free index i, or above it where it belongs.
func (t tree) up(s *slab, i int, j *Job) {
	for i > 0 {
		parent := s.at(t[(i-1)/4])
		if !before(j, parent) {
			break
		}
		t.set(i, parent)
		i = (i - 1) / 4
	}
	t.set(i, j)
}

// down puts j at the free index i, or below it where it belongs.
func (t tree) down(s *slab, i int, j *Job) {
	for first := 4*i + 1; first < len(t); first = 4*i + 1 {
		at, least := first, s.at(t[first])
		for c := first + 1; c < min(first+4, len(t)); c++ {
			if child := s.at(t[c]); before(child, least) {
				at, least = c, child
			}
		}
		if !before(least, j) {
			break
		}
		t.set(i, least)
		i = at
	}
	t.set(i, j)
}

// set puts j at index i.
func (t tree) set(i int, j *Job) {
	t[i] = j.self
	j.pos = uint32(i)
}

// shrink frees memory after a large backlog is gone.
func (t *tree) shrink() {
	if cap(*t) > minCapacity && len(*t) < cap(*t)/4 {
		*t = append(make(tree, 0, cap(*t)/2), *t...)
	}
}
