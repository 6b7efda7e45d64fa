package tube

// scan iterates over all jobs of a Machine and can pause. Jobs keep their slots, so it visits
// each job that exists all the time exactly once, whatever changes meanwhile. It can also
// visit jobs that were added after it began.
type scan struct {
	next uint32 // slot
	end  uint32 // the slot after the last one when it began
}

// slotsPerMove is how many slots a scan visits in the time of one move.
const slotsPerMove = 32

func (m *Machine) beginScan() scan { return scan{end: uint32(len(m.slab.chunks)) << slotBits} }

// pass calls each for the jobs in the next slots, until it returns false. each may remove the
// job. It returns false if limit slots were visited, or each returned false, before the
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
