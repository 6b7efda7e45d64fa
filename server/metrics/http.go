package metrics

import (
	"strconv"

	"redstalk/server/httpserve"
)

// ObserveHTTP adds the figures of an HTTP server to the metrics.
func (o *Observer) ObserveHTTP(d *httpserve.Server) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.servers = append(o.servers, d)
}

// addHTTP adds the counters of the HTTP servers.
func (o *Observer) addHTTP(fs families) {
	o.mu.Lock()
	servers := o.servers[:len(o.servers):len(o.servers)]
	o.mu.Unlock()
	for _, d := range servers {
		fs.add("redstalk_http_connections", float64(d.Connections()), d.Name())
		for _, stats := range d.Requests() {
			for status, n := range stats.Statuses {
				fs.add("redstalk_http_requests_total", float64(n), d.Name(), stats.Operation, strconv.Itoa(status))
			}
			fs.addReading("redstalk_http_request_seconds", stats.Took, second, d.Name(), stats.Operation)
		}
	}
}
