package metrics

import (
	"redstalk/server/jobbatch"
	"redstalk/tube"
)

// Batching sets the source of the figures about batches.
func (o *Observer) Batching(counts *jobbatch.Counts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches = counts
}

// addBatches adds what this instance has found out about batches.
func (o *Observer) addBatches(fs families) {
	o.mu.Lock()
	c := o.batches
	o.mu.Unlock()
	if c == nil {
		return
	}
	for v := range tube.LastVerdict + 1 {
		if v == tube.BatchOpen {
			continue
		}
		fs.add("redstalk_batches_total", float64(c.Batches[v].Load()), v.String())
		fs.add("redstalk_batch_after_jobs_total", float64(c.After[v].Load()), v.String())
	}
	fs.add("redstalk_batches_cancelled_total", float64(c.Cancelled.Load()))
}
