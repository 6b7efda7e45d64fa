package metrics

import "redstalk/server/schedule"

// Scheduling sets the source of the figures about schedules.
func (o *Observer) Scheduling(counts *schedule.Counts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.schedules = counts
}

// addSchedules adds what this instance has done with the times of schedules.
func (o *Observer) addSchedules(fs families) {
	o.mu.Lock()
	c := o.schedules
	o.mu.Unlock()
	if c == nil {
		return
	}
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
