package observe

// Forget has the next scrape take a snapshot.
func (o *Observer) Forget() {
	o.snapping.Lock()
	defer o.snapping.Unlock()
	o.last = nil
}
