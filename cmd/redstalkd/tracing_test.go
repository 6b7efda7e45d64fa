package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanCollector is a server that takes spans.
type spanCollector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []string // with their trace
	header string   // of the last request
	faulty error
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := new(spanCollector)
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *spanCollector) take(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if body, c.faulty = gzip.NewReader(r.Body); c.faulty != nil {
			return
		}
	}
	text, _ := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if c.faulty = proto.Unmarshal(text, &request); c.faulty == nil && r.URL.Path != "/v1/traces" {
		c.faulty = fmt.Errorf("the path is %s", r.URL.Path)
	}
	c.header = r.Header.Get("Authorization")
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, fmt.Sprintf("%s %x %x", s.Name, s.TraceId, s.ParentSpanId))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestOTLP: a collector receives spans of jobs with a trace, at the latest when the server ends.
func TestOTLP(t *testing.T) {
	t.Parallel()
	c := newSpanCollector(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	cmd := command("-V", "-p0", "--otlp", c.URL)
	cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=hidden")
	p := start(t, cmd)
	client := dial(t, p.serving(t))
	client.ask("put 0 0 60 4 trace:"+trace+"\r\nbody\r\n", "INSERTED 1")
	client.ask("put 0 0 60 4\r\nbody\r\n", "INSERTED 2")
	client.ask("reserve\r\n", "RESERVED 1 4", "body")
	client.ask("reserve\r\n", "RESERVED 2 4", "body")
	client.ask("delete 1\r\n", "DELETED")
	client.ask("delete 2\r\n", "DELETED")
	p.end(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	const ids = " 4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7"
	if want := []string{"put default" + ids, "wait default" + ids, "run default" + ids}; !slices.Equal(c.spans, want) || c.faulty != nil || c.header != "hidden" {
		t.Errorf("received %q, %v, with the header %q", c.spans, c.faulty, c.header)
	}
	if log := p.stderr.String(); strings.Contains(log, "hidden") {
		t.Errorf("the log has the secret of the collector:\n%s", log)
	}
}

// TestNoCollector: a collector that is away is logged, and nothing else comes of it.
func TestNoCollector(t *testing.T) {
	t.Parallel()
	c := newSpanCollector(t)
	url := c.URL
	c.Close()
	p, addr := serve(t, "-p0", "--otlp", url)
	client := dial(t, addr)
	client.ask("put 0 0 60 4 trace:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nbody\r\n", "INSERTED 1")
	client.ask("reserve\r\n", "RESERVED 1 4", "body")
	p.end(t)
	p.stderr.await(t, `msg="(spans could not be sent, and were dropped|the last spans could not be sent)"`)
}
