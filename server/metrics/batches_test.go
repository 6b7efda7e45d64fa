package metrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/jobbatch"
	"redstalk/tube"
)

// TestBatches: what a service has found out about batches is shown by state.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 1)
		c := &jobbatch.New(i.Queue, nil).Counts
		i.o.Records(nil, c)
		c.Batches[tube.BatchFailed].Add(2)
		c.After[tube.BatchDone].Add(3)
		c.Cancelled.Add(4)
		time.Sleep(2 * time.Second)
		expect(t, samples(t, i.o), map[string]string{
			`redstalk_batches_total{state="failed"}`:        "2",
			`redstalk_batches_total{state="done"}`:          "0",
			`redstalk_batch_after_jobs_total{state="done"}`: "3",
			"redstalk_batches_cancelled_total":              "4",
		})
	})
}
