package metrics_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/metrics"
)

// TestHTTPServers: requests are shown by server, operation and status, without anything that
// a client can choose; also before there is a queue.
func TestHTTPServers(t *testing.T) {
	t.Parallel()
	o := metrics.New(metrics.Config{})
	for _, name := range []string{"http", "ouqiang"} {
		d := httpserve.New(httpserve.Named("put", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/missing" {
				w.WriteHeader(http.StatusNotFound)
			}
		}), httpserve.Config{Name: name})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go d.Serve(l)
		o.ObserveHTTP(d)
		for _, path := range []string{"/a", "/b", "/missing"} {
			reply, err := http.Get("http://" + l.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil { // then all are counted
			t.Error(err)
		}
	}
	all := scrape(t, o)
	got := map[string]float64{}
	for _, f := range all {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			got[f.GetName()+" "+strings.Join(labels, " ")] = value
		}
	}
	for name, want := range map[string]float64{
		"redstalk_http_requests_total http put 200": 2, "redstalk_http_requests_total http put 404": 1,
		"redstalk_http_requests_total ouqiang put 200": 2, "redstalk_http_request_seconds ouqiang put": 3, "redstalk_http_connections http": 0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v (%v), want %v", name, value, ok, want)
		}
	}
	for name := range got {
		if strings.Contains(name, "/") && strings.HasPrefix(name, "redstalk_http") {
			t.Errorf("a path is a label: %s", name)
		}
	}
}
