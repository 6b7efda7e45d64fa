package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress is the line on a terminal that tells how far something is.
type progress struct {
	to     io.Writer        // nil if it is no terminal
	now    func() time.Time // for tests
	before time.Time        // when it was last written
	there  bool             // it is on the terminal
}

// progressEvery is how often the line is written at most.
const progressEvery = 100 * time.Millisecond

// newProgress returns one that is written if w is a terminal.
func newProgress(w io.Writer) *progress {
	p := &progress{now: time.Now}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.to = w
		}
	}
	return p
}

// show writes the line anew, now and then.
func (p *progress) show(what string, n int) {
	if p.to == nil || p.now().Sub(p.before) < progressEvery {
		return
	}
	p.before, p.there = p.now(), true
	fmt.Fprintf(p.to, "\r\033[Klooking at %s: %d", what, n)
}

// clear takes the line away, before something else is written.
func (p *progress) clear() {
	if p.there {
		fmt.Fprint(p.to, "\r\033[K")
	}
	p.there = false
}
