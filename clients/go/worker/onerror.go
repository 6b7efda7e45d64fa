package worker

import (
	"fmt"
	"strconv"
	"strings"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/usercode"
)

// An Outcome says what becomes of a job whose handler has failed.
type Outcome string

// What becomes of a job, see [Config].OnError.
const (
	Retried   Outcome = "retried"   // it comes again, unless this was the last of its MaxDeliveries, which only the server counts
	Exhausted Outcome = "exhausted" // the retry waits of the server are used up: it is buried, or goes to its dead-letter tube
	Buried    Outcome = "buried"    // by Skip, or since the Backoff of the worker has ended
	Lost      Outcome = "lost"      // it was no longer held, so another worker may have it
)

// tellError calls OnError.
func (r *run) tellError(job *Job, err error, then Outcome) {
	if r.config.OnError == nil {
		return
	}
	if fault := usercode.Call(func() { r.config.OnError(job, err, then) }); fault != nil {
		r.config.Logger.Error("the OnError of the worker has failed", "job", job.ID, "tube", job.Tube, "fault", fault)
	}
}

// timedOut returns the error of a handler whose time was over.
func timedOut(result error) error {
	if result == ErrTimeout {
		return result
	}
	return fmt.Errorf("%w: %w", ErrTimeout, shown(result))
}

// retried says what becomes of a job with retry waits of the server that fails once more.
func retried(s *client.Stats) Outcome {
	waits := 1 + strings.Count(s.Retry, ",")
	if strings.HasPrefix(s.Retry, "exp(") {
		waits, _ = strconv.Atoi(s.Retry[strings.LastIndex(s.Retry, ",")+1 : len(s.Retry)-1])
	}
	if s.Failures >= waits {
		return Exhausted
	}
	return Retried
}
