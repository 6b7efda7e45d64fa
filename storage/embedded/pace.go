package embedded

import "time"

// holdTime is how long the lock should be held for a part of something: all others wait meanwhile.
const holdTime = time.Millisecond

// leastPart is the least that a part may be.
const leastPart = 32

// pace is how much a part may be, at most, that is done under one hold of the lock: less where the
// last ones have taken long, as some jobs are more work than others, and some machines are slower.
type pace struct{ now, most int }

func newPace(most int) pace { return pace{most, most} }

// note takes down how long a part has taken.
func (p *pace) note(took time.Duration) {
	if took > holdTime {
		p.now = max(p.now/2, int(int64(p.now)*int64(holdTime)/int64(took)), leastPart)
	} else {
		p.now = min(p.now+p.now/8, p.most)
	}
}
