package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress shows how far a long command is: on a terminal as a bar, else as a line every few seconds. A nil progress shows nothing.
type progress struct {
	to        io.Writer
	what      string
	done, all uint64
	note      func() string // what is shown beside the percentage
	bar       bool
	shown     string
	next      time.Time // of the next line
}

// startProgress returns the progress of a command, nil if there is nothing to do.
func startProgress(t *task, what string, all uint64) *progress {
	if all == 0 {
		return nil
	}
	p := startNotes(t, what, all, nil)
	if p != nil {
		p.note = func() string { return grouped(p.done) + " of " + grouped(p.all) }
	}
	return p
}

// startNotes is startProgress with a note. all can be 0: then it is unknown.
func startNotes(t *task, what string, all uint64, note func() string) *progress {
	if t.Bool("quiet") {
		return nil
	}
	t.progress = &progress{to: raw(t.err), what: what, all: all, note: note, bar: onTerminal(t.err), next: time.Now().Add(silenceLimit)}
	return t.progress
}

func (p *progress) add(n uint64) {
	if p != nil {
		p.set(p.done + n)
	}
}

// set is add, with all that is done.
func (p *progress) set(done uint64) {
	if p == nil {
		return
	}
	p.done = done
	now := time.Now()
	text := p.percentage()
	switch {
	case p.bar && text != p.shown:
		fmt.Fprintf(p.to, "\r%s %s  %s\x1b[K", p.what, text, p.note())
		p.shown = text
	case !p.bar && !now.Before(p.next):
		fmt.Fprintln(p.to, p)
		p.next = now.Add(silenceLimit)
	}
}

// percentage returns how much is done: on a terminal with a bar, and by the second if the whole is unknown.
func (p *progress) percentage() string {
	if p.all == 0 {
		return time.Now().Format(time.TimeOnly)
	}
	percent := min(100, 100*p.done/p.all)
	if !p.bar {
		return fmt.Sprintf("%d%%", percent)
	}
	full := int(percent) * 30 / 100
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", 30-full), percent)
}

// String returns a line for standard error.
func (p *progress) String() string {
	if p.all == 0 {
		return "redstalk: " + p.what + ": " + p.note()
	}
	return fmt.Sprintf("redstalk: %s: %d%%, %s", p.what, min(100, 100*p.done/p.all), p.note())
}

// end removes the bar.
func (p *progress) end() {
	if p != nil && p.bar {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
