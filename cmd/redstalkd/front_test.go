package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/tools/conformance/differ"
)

// front makes several instances look like one server. It distributes connections to
// them in turn, and replaces figures of stats that concern one instance by the sum. To
// compute it, each instance is asked on a separate connection, whose effect
// on the figures is subtracted.
type front struct {
	instances []*instance
	dealt     atomic.Int64

	mu sync.Mutex // held while instances are asked
}

type instance struct {
	differ.Server // pages are as the instance sends them
	aside         *protoclient.Conn
	asked         map[string]int // of what, how often: by the key that counts it
}

// summed are the keys of stats, beside the counters of commands, that every
// instance has of its own; see docs/compatibility.md.
var summed = []string{"current-connections", "current-producers", "current-workers", "current-waiting", "total-connections"}

// startFront starts so many instances with the same flags.
func startFront(n int, flags []string) (differ.Server, error) {
	f := &front{}
	for range n {
		s, err := startSubject(flags)
		if err == nil {
			f.instances = append(f.instances, &instance{Server: s, asked: make(map[string]int)})
			err = f.instances[len(f.instances)-1].open()
		}
		if err != nil {
			f.stop()
			return differ.Server{}, err
		}
	}
	if err := f.settle(); err != nil {
		f.stop()
		return differ.Server{}, err
	}
	return differ.Server{Dial: f.dial, Signal: f.signal, Stop: f.stop}, nil
}

func (i *instance) open() error {
	conn, err := i.Dial()
	if err == nil {
		i.aside = protoclient.New(conn)
		i.aside.Timeout = standstill
	}
	return err
}

// settle waits until all instances know all of these connections.
func (f *front) settle() error {
	limit := time.Now().Add(patience)
	for _, i := range f.instances {
		for known := ""; known != fmt.Sprint(len(f.instances)); time.Sleep(10 * time.Millisecond) {
			page, err := i.ask("stats-tube default")
			if known = valueOn(page, "current-using"); err != nil || time.Now().After(limit) {
				return fmt.Errorf("connections that use default: %s; %w", known, err)
			}
		}
	}
	return nil
}

// ask requests a page from an instance on the separate connection.
func (i *instance) ask(command string) (string, error) {
	verb, _, _ := strings.Cut(command, " ")
	i.asked["cmd-"+verb]++
	page, err := i.aside.Page(command)
	return string(page), err
}

func (f *front) dial() (net.Conn, error) {
	i := f.instances[int(f.dealt.Add(1)-1)%len(f.instances)]
	return withPages(i.Server, func(page string) (string, error) { return f.whole(i, page) }).Dial()
}

func (f *front) signal(s os.Signal) error {
	var errs []error
	for _, i := range f.instances {
		errs = append(errs, i.Signal(s))
	}
	return errors.Join(errs...)
}

func (f *front) stop() {
	for _, i := range f.instances {
		if i.aside != nil {
			i.aside.Close()
		}
		i.Stop()
	}
}

// whole changes a page of one instance to that of all together.
func (f *front) whole(of *instance, page string) (string, error) {
	switch {
	case strings.HasPrefix(page, "---\ncurrent-jobs-urgent: "):
		return f.sum(of, page)
	case strings.HasPrefix(page, "---\nname: default\n"):
		return onPage(page, func(key string, n int) int {
			if key == "current-using" || key == "current-watching" {
				n -= len(f.instances) // those that ask
			}
			return n
		}), nil
	}
	return page, nil
}

// sum adds the figures of the other instances to a page of stats.
func (f *front) sum(of *instance, page string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pages, draining := make([]string, len(f.instances)), valueOn(page, "draining")
	for at, i := range f.instances {
		if pages[at] = page; i == of {
			continue
		}
		var err error
		if pages[at], err = i.ask("stats"); err != nil {
			return page, err
		}
		if valueOn(pages[at], "draining") != draining {
			draining = "of some"
		}
	}
	page = onPage(page, func(key string, n int) int {
		if !strings.HasPrefix(key, "cmd-") && !slices.Contains(summed, key) {
			return n
		}
		n = 0
		for at, i := range f.instances {
			value, _ := strconv.Atoi(valueOn(pages[at], key))
			n += value - i.asked[key]
			if key == "current-connections" || key == "total-connections" {
				n-- // the one aside
			}
		}
		return n
	})
	return strings.Replace(page, "\ndraining: "+valueOn(page, "draining")+"\n", "\ndraining: "+draining+"\n", 1), nil
}

// onPage changes the numbers of a page.
func onPage(page string, change func(key string, n int) int) string {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		key, value, _ := strings.Cut(line, ": ")
		if n, err := strconv.Atoi(value); err == nil {
			lines[i] = fmt.Sprintf("%s: %d", key, change(key, n))
		}
	}
	return strings.Join(lines, "\n")
}

// valueOn reads a value off a page.
func valueOn(page, key string) string {
	value, _ := protoclient.Page(page).Value(key)
	return value
}

// TestFront: figures that an instance has of its own are those of all, and what
// the front itself does is not among them.
func TestFront(t *testing.T) {
	page := "---\ncurrent-jobs-urgent: 7\ncmd-put: 1\ncmd-stats: 5\ncurrent-connections: 3\nuptime: 9\ndraining: false\n"
	other := "---\ncurrent-jobs-urgent: 7\ncmd-put: 2\ncmd-stats: 4\ncurrent-connections: 2\nuptime: 8\ndraining: true\n"
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		in := bufio.NewReader(theirs)
		for {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			fmt.Fprintf(theirs, "OK %d\r\n%s\r\n", len(other), other)
		}
	}()
	a := &instance{asked: map[string]int{"cmd-stats": 2}}
	b := &instance{asked: make(map[string]int), aside: protoclient.New(ours)}
	f := &front{instances: []*instance{a, b}}
	want := "---\ncurrent-jobs-urgent: 7\ncmd-put: 3\ncmd-stats: 6\ncurrent-connections: 3\nuptime: 9\ndraining: of some\n"
	if got, err := f.whole(a, page); got != want || err != nil {
		t.Errorf("%v\ngot  %q\nwant %q", err, got, want)
	}
}
