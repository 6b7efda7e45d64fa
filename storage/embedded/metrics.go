package embedded

import (
	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// metrics measures the work of the engine.
type metrics struct {
	calls      *telemetry.Histogram // duration of a call of Do, its own commit included
	operations *telemetry.Histogram // operations of a call
	syncs      *telemetry.Histogram // how long a commit waited for the disk
}

func newMetrics() metrics {
	return metrics{calls: telemetry.NewDurations(), operations: telemetry.NewSizes(), syncs: telemetry.NewDurations()}
}

// countOperations counts the operations of a call.
func (m *metrics) countOperations(batches []*storage.Batch) {
	n := 0
	for _, b := range batches {
		n += len(b.Ops)
	}
	m.operations.Add(int64(n))
}

// NameTubes implements storage.Reporter.
func (e *Engine) NameTubes(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.machine.NameTubes(n)
}

// Report implements storage.Reporter.
func (e *Engine) Report() storage.Report {
	r := storage.Report{Calls: e.metrics.calls.Read(), Operations: e.metrics.operations.Read(), SinceContact: -1}
	e.mu.Lock()
	r.Named, r.Rest = e.machine.Flows()
	if e.closed {
		r.Unavailable = storage.ErrClosed
	}
	e.mu.Unlock()
	if e.journal != nil {
		r.Syncs, r.Disk = e.metrics.syncs.Read(), e.journal.disk()
	}
	return r
}

// disk returns what the journal has on the disk.
func (j *journal) disk() *storage.Disk {
	d := &storage.Disk{Log: uint64(j.log.Bytes())}
	if usage, err := j.guard.fs.GetDiskUsage(j.dir); err == nil {
		d.Free = usage.AvailBytes
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	d.Refusing = j.guard.refusing()
	return d
}
