package embedded

import "time"

// holdTime is how long the lock should be held for a part of something: all others wait meanwhile.
const holdTime = time.Millisecond

// leastPart is the least that a part may be.
const minBatchSize = 32

// pace is how much a part may be, at most, that is done under one hold of the lock: less where the
// last ones have taken long, as some jobs are more work than others, and some machines are slower.
type batchSize struct{ size, limit int }

func newBatchSize(limit int) batchSize { return batchSize{limit, limit} }

// note takes down how long a part has taken.
func (p *batchSize) adjust(took time.Duration) {
	if took > holdTime {
		p.size = max(p.size/2, int(int64(p.size)*int64(holdTime)/int64(took)), minBatchSize)
	} else {
		p.size = min(p.size+p.size/8, p.limit)
	}
}
