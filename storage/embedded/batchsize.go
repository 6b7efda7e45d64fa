package embedded

import "time"

// holdTime is how long the lock should be held for a part of long work: all other callers wait
// meanwhile.
const holdTime = time.Millisecond

// minBatchSize is the minimum size of a part.
const minBatchSize = 32

// batchSize is an adaptive batch size: how much is done at most under one hold of the lock. It
// shrinks if the last parts took long, because some jobs are more work than others, and some
// machines are slower.
type batchSize struct{ size, limit int }

func newBatchSize(limit int) batchSize { return batchSize{limit, limit} }

// adjust changes the size according to how long a part took.
func (p *batchSize) adjust(took time.Duration) {
	if took > holdTime {
		p.size = max(p.size/2, int(int64(p.size)*int64(holdTime)/int64(took)), minBatchSize)
	} else {
		p.size = min(p.size+p.size/8, p.limit)
	}
}
