package protocol

// MaxBatchName is the longest name of a batch, in bytes.
const MaxBatchName = 100

// ValidBatch reports whether name can be the name of a batch: printable ASCII characters without spaces.
func ValidBatch(name string) bool { return len(name) <= MaxBatchName && ValidKey([]byte(name)) }
