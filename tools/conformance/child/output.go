package child

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Output collects what a program writes.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed by the next write
}

func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

// String is all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits for a match and returns its last group.
func (o *Output) Await(limit time.Duration, pattern string) (string, error) {
	re, over := regexp.MustCompile(pattern), time.After(limit)
	for {
		o.mu.Lock()
		text, changed := o.text.String(), o.changed
		o.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[len(m)-1], nil
		}
		select {
		case <-changed:
		case <-over:
			return "", fmt.Errorf("no %q in:\n%s", pattern, text)
		}
	}
}
