package metrics

import "time"

// Forget has the next scrape take a snapshot.
func (o *Observer) Forget() {
	o.snapping.Lock()
	defer o.snapping.Unlock()
	if o.last != nil {
		o.last.at = time.Time{}
	}
}
