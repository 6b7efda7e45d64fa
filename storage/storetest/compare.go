package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// differ compares answers and says where they differ; "" if nowhere. Times may differ by
// tolerance for each second of unit.
func differ(got, want *storage.Answer, unit int) string {
	most := time.Duration(unit) * tolerance
	switch {
	case got.Err != nil:
		return "error: " + got.Err.Error()
	case got.NotFound != want.NotFound:
		return "found"
	case got.ID != want.ID:
		return "id"
	case string(got.Body) != string(want.Body):
		return "body"
	case got.Count != want.Count:
		return "count"
	case !near(got.Soon, want.Soon, most):
		return "deadline soon"
	case !slices.Equal(got.Names, want.Names):
		return "names"
	case (got.Job == nil) != (want.Job == nil), (got.TubeStats == nil) != (want.TubeStats == nil), (got.Stats == nil) != (want.Stats == nil):
		return "kind of answer"
	case got.Job != nil && !sameJob(*got.Job, *want.Job, most):
		return "job"
	case got.TubeStats != nil && !sameTube(*got.TubeStats, *want.TubeStats, most):
		return "tube"
	case got.Stats != nil && got.Stats.Totals != want.Stats.Totals:
		return "totals"
	}
	return ""
}

func near(a, b, most time.Duration) bool { return a == b || (a-b).Abs() < most }

func sameJob(got, want tube.JobStats, most time.Duration) bool {
	same := near(got.TimeLeft, want.TimeLeft, most)
	got.TimeLeft, got.Age, got.File = want.TimeLeft, want.Age, want.File
	return same && reflect.DeepEqual(got, want)
}

func sameTube(got, want tube.TubeStats, most time.Duration) bool {
	same := near(got.PauseLeft, want.PauseLeft, most)
	got.PauseLeft = want.PauseLeft
	return same && got == want
}

// onlyReserves reports whether a batch does nothing but reserve, attend or leave.
func onlyReserves(batch []storage.Op) bool {
	for i := range batch {
		switch op := &batch[i]; {
		case op.Kind == storage.Take, op.Kind == storage.Attend, op.Kind == storage.Leave:
		case op.Kind == storage.Move && op.Move == tube.ReserveJob:
		default:
			return false
		}
	}
	return true
}

// hasEnded reports whether the store that gave these answers was closed.
func hasEnded(done []storage.Op) bool {
	for i := range done {
		if errors.Is(done[i].Answer.Err, storage.ErrClosed) {
			return true
		}
	}
	return false
}

var kindNames = []string{"put", "take", "move", "set-priority", "reschedule", "kick", "peek", "peek-head", "peek-key",
	"delete-key", "find-key", "set-policy", "get-policy", "policies", "list-jobs", "flush", "move-jobs", "job-stats", "tube-stats", "stats", "tubes", "pause", "attend", "leave"}

// describe says what an operation asks for.
func describe(op *storage.Op) string {
	switch op.Kind {
	case storage.Put:
		return fmt.Sprintf("put into %s, pri %d, delay %d, TTR %d", op.Tube, op.Pri, op.Delay, op.TTR)
	case storage.Take:
		return fmt.Sprintf("take for %d from %v", op.Holder, op.Tubes)
	case storage.Move:
		return fmt.Sprintf("%v job %d by %d, pri %d, delay %d", op.Move, op.ID, op.Holder, op.Pri, op.Delay)
	case storage.Attend:
		return fmt.Sprintf("attend %v, role %d, %+d", op.Tubes, op.Role, op.Delta)
	}
	return fmt.Sprintf("%s: tube %s, id %d, holder %d, state %v, bound %d, delay %d, pri %d, in %v", kindNames[op.Kind], op.Tube, op.ID, op.Holder, op.State, op.Bound, op.Delay, op.Pri, op.In)
}

// show says what an answer is.
func show(a *storage.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.NotFound && a.Soon != 0:
		return fmt.Sprintf("nothing, DEADLINE_SOON in %v", a.Soon)
	case a.NotFound:
		return "not found"
	case a.Job != nil:
		return fmt.Sprintf("%+v", *a.Job)
	case a.TubeStats != nil:
		return fmt.Sprintf("%+v", *a.TubeStats)
	case a.Stats != nil:
		return fmt.Sprintf("%+v", a.Stats.Totals)
	case a.Names != nil:
		return fmt.Sprint(a.Names)
	}
	return fmt.Sprintf("job %d %.40q of %d bytes, count %d", a.ID, a.Body, len(a.Body), a.Count)
}
