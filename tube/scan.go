package tube

// scan is a way through all jobs of a Machine that may pause: jobs keep their slots, so
// whatever changes meanwhile, it passes each job once that is there all the time. It may
// pass jobs that came after it began.
type scan struct {
	next uint32 // slot
	end  uint32 // the slot behind the last one when it began
}

// slotsPerMove is how many slots a scan passes in the time in which one job is moved.
const slotsPerMove = 32

func (m *Machine) beginScan() scan { return scan{end: uint32(len(m.slab.chunks)) << slotBits} }

// pass calls each with the jobs in the next slots, until it returns false. each may remove the
// job. It returns false if limit slots were passed, or each has returned false, before the
// end.
func (c *scan) pass(s *slab, limit int, each func(*Job) bool) (ended bool) {
	for ; limit > 0 && c.next < c.end; limit-- {
		chunk, slot := s.chunks[c.next>>slotBits], c.next&(perChunk-1)
		if chunk == nil || chunk.used == 0 {
			c.next += perChunk - slot
			continue
		}
		c.next++
		if j := &chunk.jobs[slot]; j.state != Gone && !each(j) {
			return false
		}
	}
	return c.next >= c.end
}
