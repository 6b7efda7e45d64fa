package main

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// maxPending is how many bytes of lines are buffered at most.
	maxPending = 1 << 20

	// closeTimeout is how long close waits for the last lines to be written.
	closeTimeout = 500 * time.Millisecond
)

// lineSink is an asynchronous writer of lines. A Write, of one line, never waits for the
// reader: lines are buffered while a goroutine writes the earlier ones. If the buffer is full,
// lines are dropped. When there is room again, one line says how many.
type lineSink struct {
	w       io.Writer
	dropped func(io.Writer, int) // writes the line about dropped lines
	wake    chan struct{}        // capacity 1: there are lines to write, or close was called
	ended   chan struct{}

	mu      sync.Mutex
	pending []byte
	lost    int // lines dropped since the last buffered one
	closed  bool
}

func newLineSink(w io.Writer) *lineSink {
	s := &lineSink{w: w, dropped: func(io.Writer, int) {}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go s.run()
	return s
}

// mayBlock reports whether a slow reader can block writes to w: w is a pipe, a socket or
// a terminal.
func mayBlock(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && !info.Mode().IsRegular()
}

// Write implements io.Writer. It keeps no reference to the line.
func (s *lineSink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case s.lost > 0, len(s.pending)+len(line) > maxPending:
		s.lost++
	default:
		s.pending = append(s.pending, line...)
		s.wakeWriter()
	}
	return len(line), nil
}

// wakeWriter wakes run. The lock is held.
func (s *lineSink) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *lineSink) run() {
	defer close(s.ended)
	for {
		lines, more := s.takePending()
		switch {
		case len(lines) > 0:
			s.w.Write(lines) // an error cannot be reported anywhere
		case more:
			<-s.wake
		default:
			return
		}
	}
}

// takePending returns the buffered lines, and whether there can be more.
func (s *lineSink) takePending() (lines []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLost()
	lines, s.pending = s.pending, nil
	return lines, !s.closed
}

// reportLost adds the line about dropped lines, if any were dropped. The lock is held.
func (s *lineSink) reportLost() {
	if s.lost == 0 {
		return
	}
	var line bytes.Buffer
	s.dropped(&line, s.lost)
	s.pending, s.lost = append(s.pending, line.Bytes()...), 0
}

// close ends the sink with a last line, which is never dropped, and waits up to closeTimeout
// until everything is written.
func (s *lineSink) close(line string) {
	s.mu.Lock()
	if !s.closed {
		s.reportLost()
		s.pending = append(s.pending, line...)
		s.closed = true
		s.wakeWriter()
	}
	s.mu.Unlock()
	select {
	case <-s.ended:
	case <-time.After(closeTimeout):
	}
}
