package main

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// maxWaiting is how many bytes of lines wait to be written at most.
	maxPending = 1 << 20

	// lastLines is how long the end of the process waits for its last lines to
	// be written.
	closeTimeout = 500 * time.Millisecond
)

// lineSink writes lines, one for each Write, and never waits for their reader:
// they wait in memory while a goroutine writes the lines before. If too many wait,
// further lines are dropped. When there is room again, a line says how many were.
type lineSink struct {
	w       io.Writer
	dropped func(io.Writer, int) // writes that line
	wake    chan struct{}        // capacity 1: there is something to write, or close was called
	ended   chan struct{}

	mu      sync.Mutex
	pending []byte
	lost    int // lines dropped since the last one that waits
	closed  bool
}

func newLineSink(w io.Writer) *lineSink {
	s := &lineSink{w: w, dropped: func(io.Writer, int) {}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go s.run()
	return s
}

// mayBlock tells whether a write to w may take as long as its reader likes: w is a
// pipe, a socket or a terminal.
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

// wakeRun has run take what waits. The lock is held.
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
			s.w.Write(lines) // there is nobody to tell of an error
		case more:
			<-s.wake
		default:
			return
		}
	}
}

// take returns the lines that wait, and whether more may come.
func (s *lineSink) takePending() (lines []byte, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLost()
	lines, s.pending = s.pending, nil
	return lines, !s.closed
}

// addMissing adds the line that says how many are missing, if any are. The lock is
// held.
func (s *lineSink) reportLost() {
	if s.lost == 0 {
		return
	}
	var line bytes.Buffer
	s.dropped(&line, s.lost)
	s.pending, s.lost = append(s.pending, line.Bytes()...), 0
}

// close ends the sink with a last line, which is not dropped, and waits some time
// until all is written.
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
