package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress is a progress line on a terminal.
type progress struct {
	to     io.Writer        // nil if it is not a terminal
	now    func() time.Time // for tests
	before time.Time        // when it was last written
	shown  bool             // it is on the terminal
}

// progressEvery is the shortest time between two updates of the line.
const progressEvery = 100 * time.Millisecond

// newProgress returns a progress line that is shown only if w is a terminal.
func newProgress(w io.Writer) *progress {
	p := &progress{now: time.Now}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.to = w
		}
	}
	return p
}

// show updates the line, at most every progressEvery.
func (p *progress) show(what string, n int) {
	if p.to == nil || p.now().Sub(p.before) < progressEvery {
		return
	}
	p.before, p.shown = p.now(), true
	fmt.Fprintf(p.to, "\r\033[Kprocessing %s: %d", what, n)
}

// clear removes the line, before something else is written.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.to, "\r\033[K")
	}
	p.shown = false
}
