package main

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// output collects what is written to it, and can wait for it.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed by the next write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits for a match and returns its last group.
func (s *output) await(t *testing.T, pattern string) string {
	t.Helper()
	re, limit := regexp.MustCompile(pattern), time.After(patience)
	for {
		s.mu.Lock()
		text, changed := s.text.String(), s.changed
		s.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no %q in:\n%s", pattern, text)
		}
	}
}
