package outbox

import "time"

// The delays between attempts to put into a tube that the server refuses: they double.
const (
	firstRefusal = 100 * time.Millisecond
	lastRefusal  = 30 * time.Second
)

// maxRefused is how many tubes can be refused until rounds are made as seldom as while the server is away, so that the list of
// those that are left out stays short.
const maxRefused = 100

// refusal is a tube that takes no jobs for now: it has reached its quota, or the user lacks the right.
type refusal struct {
	until time.Time
	pause time.Duration
}

// tubes are the refused tubes. Their rows wait, so that they do not hold up those of other tubes.
type tubes map[string]*refusal

// refuse records that the server has refused a put, and reports whether that is new.
func (all tubes) refuse(tube string, now time.Time) (isNew bool) {
	r := all[tube]
	if r == nil {
		r, isNew = &refusal{}, true
		all[tube] = r
	}
	if !now.Before(r.until) { // else another row of the same round was refused
		r.pause = min(max(2*r.pause, firstRefusal), lastRefusal)
		r.until = now.Add(r.pause)
	}
	return isNew
}

// accept records that the server has accepted a put.
func (all tubes) accept(tube string) { delete(all, tube) }

// paused returns the tubes that are not tried now, and when the next one is; the zero time if there is none.
func (all tubes) paused(now time.Time) (names []string, next time.Time) {
	for name, r := range all {
		if now.Sub(r.until) > lastRefusal { // its rows are gone
			delete(all, name)
		}
		if now.Before(r.until) {
			names = append(names, name)
			if next.IsZero() || r.until.Before(next) {
				next = r.until
			}
		}
	}
	return names, next
}
