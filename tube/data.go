package tube

// Rules that are data, for engines that do not use a Machine, beside Arrows and the
// constants.

// String returns the counter's name in stats-job.
func (c Counter) String() string {
	return [NumCounters]string{"reserves", "timeouts", "releases", "buries", "kicks"}[c]
}

// KickOrder returns where a kick looks for jobs: it moves those of the first state
// in which the tube has any, and no others.
func KickOrder() []State { return []State{Buried, Delayed} }
