package metrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/schedule"
)

// TestSchedules: what a service has done with the times of schedules is shown by result.
func TestSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 1)
		expect(t, samples(t, i.o), map[string]string{`redstalk_schedule_occurrences_total{result="put"}`: ""})
		c := &schedule.New(i.Queue, nil).Counts
		i.o.Records(c, nil)
		c.Put.Add(2)
		c.Overlapped.Add(3)
		c.Refused.Add(4)
		c.Missed.Add(5)
		c.Stopped.Add(6)
		c.Lag.Add(int64(300 * time.Millisecond))
		time.Sleep(2 * time.Second)
		expect(t, samples(t, i.o), map[string]string{
			`redstalk_schedule_occurrences_total{result="put"}`:        "2",
			`redstalk_schedule_occurrences_total{result="overlapped"}`: "3",
			`redstalk_schedule_occurrences_total{result="refused"}`:    "4",
			`redstalk_schedule_occurrences_total{result="missed"}`:     "5",
			`redstalk_schedule_occurrences_total{result="stopped"}`:    "6",
			"redstalk_schedule_lag_seconds_sum":                        "0.3",
			`redstalk_schedule_lag_seconds_bucket{le="0.1"}`:           "0",
			`redstalk_schedule_lag_seconds_bucket{le="1"}`:             "1",
		})
	})
}
