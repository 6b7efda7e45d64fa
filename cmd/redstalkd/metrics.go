package main

import (
	"fmt"
	"strconv"
	"time"

	"redstalk/server/observe"
	"redstalk/tube"
)

// metricsSettings are those of what operators see.
type metricsSettings struct {
	tubes    int           // that are counted and shown by name
	readyLag time.Duration // how late timers may be of an instance that is ready
}

// mostNamedTubes bounds what one scrape brings.
const mostNamedTubes = 100_000

func defaultMetrics() metricsSettings {
	return metricsSettings{tubes: tube.DefaultNamed, readyLag: observe.DefaultReadyLag}
}

// namedTubes is queue.Config.NamedTubes, where 0 asks for the default.
func (m *metricsSettings) namedTubes() int {
	if m.tubes == 0 {
		return -1
	}
	return m.tubes
}

func (s *settings) setMetricsTubes(v string) error {
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > mostNamedTubes {
		return fmt.Errorf("%q is not a number of tubes, 0 to %d", v, mostNamedTubes)
	}
	s.metrics.tubes = int(n)
	return nil
}

func (s *settings) setReadyLag(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms, or it is zero", v)
	}
	s.metrics.readyLag = d
	return nil
}
