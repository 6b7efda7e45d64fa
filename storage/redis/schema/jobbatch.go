package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/tube"
)

// The record of a batch of jobs is a text of these numbers:
//
//	created, ttl      in ms
//	sealed            1 or 0
//	pending, parked, done, gone, stamp, verdict
//	since             when that became the verdict, in ms; 0 if it never did
//	due               in ms, NeverDue if it is never due
//
// lua/jobbatches reads and writes it.
const jobBatchWords = 11

var errBrokenJobBatch = errors.New("the record of a batch is broken")

// ParseJobBatch reads a record.
func ParseJobBatch(name, record string) (*tube.JobBatch, error) {
	words := strings.Split(record, " ")
	if len(words) != jobBatchWords {
		return nil, errBrokenJobBatch
	}
	var numbers [jobBatchWords]uint64
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 53)
		if err != nil && (i != jobBatchWords-1 || word != NeverDue) {
			return nil, fmt.Errorf("%w: %w", errBrokenJobBatch, err)
		}
		numbers[i] = n
	}
	b := &tube.JobBatch{
		Name: name, Created: instantOf(numbers[0]), TTL: time.Duration(numbers[1]) * time.Millisecond, Sealed: numbers[2] == 1,
		Pending: numbers[3], Parked: numbers[4], Done: numbers[5], Gone: numbers[6], Stamp: numbers[7],
		Verdict: tube.Verdict(numbers[8]), Since: instantOf(numbers[9]), Due: instantOf(numbers[10]),
	}
	if words[jobBatchWords-1] == NeverDue {
		b.Due = tube.Never
	}
	if numbers[2] > 1 || numbers[8] > uint64(tube.LastVerdict) {
		return nil, errBrokenJobBatch
	}
	return b, nil
}
