package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// reader reads lines of a log, and counts those that were dropped.
type reader struct {
	lines, dropped int
	last           string
	warned         func() // called when the first line reports that some were dropped
}

var droppedLine = regexp.MustCompile(`were dropped.*lines=(\d+)`)

func (r *reader) read(from io.Reader) {
	for in := bufio.NewScanner(from); in.Scan(); {
		if m := droppedLine.FindStringSubmatch(in.Text()); m != nil {
			n, _ := strconv.Atoi(m[1])
			if r.dropped += n; r.dropped == n && r.warned != nil {
				r.warned()
			}
			continue
		}
		r.lines, r.last = r.lines+1, in.Text()
	}
}

// TestLineSink: lines are written in order, and dropped ones are counted
// where they are missing.
func TestLineSink(t *testing.T) {
	out, w := io.Pipe()
	s := newLineSink(w)
	newLog(s, &settings{})
	const writers, each = 4, 20_000
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				fmt.Fprintf(s, "writer %d line %05d %s\n", i, n, strings.Repeat("x", 40))
			}
		})
	}
	all.Wait() // nobody reads
	var r reader
	ended := make(chan struct{})
	next := make([]int, writers)
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(out); in.Scan(); {
			var i, n int
			if _, err := fmt.Sscanf(in.Text(), "writer %d line %d", &i, &n); err != nil {
				r.read(strings.NewReader(in.Text() + "\n"))
				continue
			}
			if n < next[i] {
				t.Errorf("line %d of writer %d after line %d", n, i, next[i]-1)
			}
			next[i], r.lines = n+1, r.lines+1
		}
	}()
	s.close("the last line\n")
	<-s.ended
	w.Close()
	<-ended
	if r.dropped == 0 || r.lines-1+r.dropped != writers*each || r.last != "the last line" {
		t.Errorf("%d lines came and %d were dropped of %d; the last is %q", r.lines-1, r.dropped, writers*each, r.last)
	}
}

// TestLineSinkEnds: a reader that reads nothing does not prevent the process from
// ending.
func TestLineSinkEnds(t *testing.T) {
	_, w := io.Pipe()
	s := newLineSink(w)
	s.Write([]byte("a line\n"))
	begun := time.Now()
	s.close("the last line\n")
	if took := time.Since(begun); took > 10*closeTimeout {
		t.Errorf("it took %v", took)
	}
}

// TestLogNobodyReads: a server whose log goes into a pipe that nobody reads continues
// answering, reports later how many lines are missing, and ends when it is stopped.
func TestLogNobodyReads(t *testing.T) {
	t.Parallel()
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := command("-VV", "-p0")
	cmd.Stderr = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	theirs.Close()
	log, addr := bufio.NewReader(out), ""
	for addr == "" {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`msg=serving addr=(\S+)`).FindStringSubmatch(line); m != nil {
			addr = m[1]
		}
	}
	const n = 30_000
	c := dial(t, addr)
	go c.sendAside(strings.Repeat("list-tube-used\r\n", n))
	for range n {
		c.line()
	}
	ended, warned := make(chan struct{}), make(chan struct{})
	r := reader{warned: func() { close(warned) }}
	go func() {
		defer close(ended)
		r.read(log)
	}()
	<-warned
	begun := time.Now()
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("it took %v to end", took)
	}
	<-ended
	const others = 50 // lines at most, also on a slow machine, of which there is one now and then
	if all := r.lines + r.dropped; r.dropped == 0 || all < n || all > n+others || !strings.Contains(r.last, "msg=ended") {
		t.Errorf("of %d lines %d came and %d were dropped; the last is %s", n, r.lines, r.dropped, r.last)
	}
}
