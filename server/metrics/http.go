package metrics

import (
	"strconv"

	"redstalk/server/httpserve"
)

// Door has the figures of a listener that speaks HTTP shown.
func (o *Observer) Door(d *httpserve.Door) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doors = append(o.doors, d)
}

// addDoors adds what the listeners that speak HTTP have counted.
func (o *Observer) addDoors(fs families) {
	o.mu.Lock()
	doors := o.doors[:len(o.doors):len(o.doors)]
	o.mu.Unlock()
	for _, d := range doors {
		fs.add("redstalk_http_connections", float64(d.Connections()), d.Name())
		for _, stats := range d.Requests() {
			for status, n := range stats.Statuses {
				fs.add("redstalk_http_requests_total", float64(n), d.Name(), stats.Operation, strconv.Itoa(status))
			}
			fs.addReading("redstalk_http_request_seconds", stats.Took, second, d.Name(), stats.Operation)
		}
	}
}
