package tube

// What a worker reports of a job that it holds: its progress, which people read, and its checkpoint, from which the next delivery goes on.

const (
	// MaxProgress is the longest Metadata.Progress, in bytes.
	MaxProgress = 256
	// MaxCheckpoint is the largest checkpoint, in bytes.
	MaxCheckpoint = 64 << 10
)

// CheckpointRef says where the checkpoint of a job is: the Machine does not have it. The zero value is none.
type CheckpointRef struct {
	Number uint64 // of the checkpoint, for whoever keeps it: the id of the job that had it first. It goes on with what becomes of that job
	Size   uint32 // in bytes
}

// OnCheckpoint sets what is called with each checkpoint, by its number, just before the journal learns that its job has changed or is gone.
// data is kept, not copied; nil: the checkpoint is gone. It must be called before the first checkpoint.
func (m *Machine) OnCheckpoint(save func(number uint64, data []byte)) { m.saveCheckpoint = save }

// Checkpoint returns where the checkpoint of j is.
func (m *jobs) Checkpoint(j *Job) CheckpointRef { return m.metadata.of(j).Checkpoint }

// report carries out a Touch or a SaveCheckpoint.
func (m *queues) report(now Instant, j *Job, arrow *Arrow, terms *Terms) {
	changed := arrow.Move == SaveCheckpoint
	if changed {
		m.setCheckpoint(j, terms.Data)
	}
	if terms.Progress != nil && *terms.Progress != m.metadata.of(j).Progress {
		m.metadata.change(j).Progress, changed = *terms.Progress, true
	}
	m.noteHung(j)
	if m.touch(now, j); changed && j.holder != LeaseHolder { // for a lease, touch has done that
		m.journalChanged(j)
	}
}

// setCheckpoint replaces the checkpoint of j. Empty data removes it.
func (m *jobs) setCheckpoint(j *Job, data []byte) {
	old := m.metadata.of(j).Checkpoint
	if old == (CheckpointRef{}) && len(data) == 0 {
		return
	}
	number := old.Number
	if number == 0 {
		number = j.ID
	}
	f := m.metadata.change(j)
	m.countCheckpoint(j, old.Size, uint32(len(data)))
	if f.Checkpoint = (CheckpointRef{}); len(data) > 0 {
		f.Checkpoint = CheckpointRef{number, uint32(len(data))}
	} else {
		data = nil
	}
	if m.saveCheckpoint != nil {
		m.saveCheckpoint(number, data)
	}
}

// handOverCheckpoint lets j, which is about to be removed, go without its checkpoint: another job has it now.
func (m *jobs) handOverCheckpoint(j *Job) {
	if size := m.metadata.of(j).Checkpoint.Size; size > 0 {
		m.countCheckpoint(j, size, 0)
		m.metadata.change(j).Checkpoint = CheckpointRef{}
	}
}

// countCheckpoint notes the size of the checkpoint of j; 0: it has none.
func (m *jobs) countCheckpoint(j *Job, before, after uint32) {
	change := uint64(after) - uint64(before)
	m.tubeOf(j).bytes += change
	m.checkpoints.Bytes += change
	if before > 0 {
		m.checkpoints.Jobs--
	}
	if after > 0 {
		m.checkpoints.Jobs++
	}
}

// CheckpointTotals are figures of all checkpoints.
type CheckpointTotals struct{ Jobs, Bytes uint64 }

// Checkpoints returns how many jobs have a checkpoint, and their bytes.
func (m *jobs) Checkpoints() CheckpointTotals { return m.checkpoints }

// dropReports drops what is known from the deliveries before, when j moves along an arrow: its progress when it starts again, its
// checkpoint when it is kicked, since a human starts it anew.
func (m *jobs) dropReports(j *Job, arrow *Arrow, terms *Terms) {
	if arrow.To == Reserved && m.metadata.of(j).Progress != "" {
		m.metadata.change(j).Progress = ""
	}
	if arrow.Move == KickJob && !terms.KeepCheckpoint {
		m.setCheckpoint(j, nil)
	}
}

// CheckpointSize returns the size of the checkpoint of a job in bytes. It can be called on nil.
func (f *Metadata) CheckpointSize() int {
	if f == nil {
		return 0
	}
	return int(f.Checkpoint.Size)
}
