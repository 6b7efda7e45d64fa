package metrics

import (
	"redstalk/server/jobbatch"
	"redstalk/server/schedule"
	"redstalk/tube"
)

// Records sets the sources of the figures about schedules and batches; nil: they are not known.
func (o *Observer) Records(schedules *schedule.Counts, batches *jobbatch.Counts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.schedules, o.batches = schedules, batches
}

// addRecords adds what this instance has done with the times of schedules, and has found out about batches.
func (o *Observer) addRecords(fs families) {
	o.mu.Lock()
	schedules, batches := o.schedules, o.batches
	o.mu.Unlock()
	if schedules != nil {
		fs.addSchedules(schedules)
	}
	if batches != nil {
		fs.addBatches(batches)
	}
}

func (fs families) addSchedules(c *schedule.Counts) {
	for _, of := range []struct {
		result string
		n      uint64
	}{
		{"put", c.Put.Load()}, {"overlapped", c.Overlapped.Load()}, {"refused", c.Refused.Load()},
		{"missed", c.Missed.Load()}, {"stopped", c.Stopped.Load()},
	} {
		fs.add("redstalk_schedule_occurrences_total", float64(of.n), of.result)
	}
	fs.addReading("redstalk_schedule_lag_seconds", c.Lag.Read(), second)
}

func (fs families) addBatches(c *jobbatch.Counts) {
	for v := range tube.LastVerdict + 1 {
		if v == tube.BatchOpen {
			continue
		}
		fs.add("redstalk_batches_total", float64(c.Batches[v].Load()), v.String())
		fs.add("redstalk_batch_after_jobs_total", float64(c.After[v].Load()), v.String())
	}
	fs.add("redstalk_batches_cancelled_total", float64(c.Cancelled.Load()))
}
