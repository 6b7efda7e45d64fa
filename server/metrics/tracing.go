package metrics

// Tracing sets the source of the number of spans that were dropped.
func (o *Observer) Tracing(dropped func() uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped = dropped
}

// addTracing adds how many spans were dropped.
func (o *Observer) addTracing(fs families) {
	o.mu.Lock()
	dropped := o.dropped
	o.mu.Unlock()
	if dropped != nil {
		fs.add("redstalk_spans_dropped_total", float64(dropped()))
	}
}
