package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

func putCommand() *cli.Command {
	return &cli.Command{
		Name: "put", ArgsUsage: "[BODY]", Action: withConn(arguments{0, 1}, put),
		Usage: "put a job: the argument, or all of standard input, or each of its lines; prints the ids",
		Flags: append([]cli.Flag{
			tubeFlag(),
			&cli.UintFlag{Name: "pri", Aliases: []string{"p"}, Value: 1024, Usage: "`PRI`: jobs with a lower number come first"},
			durationFlag("delay", 0, "`DURATION` until the job is due"),
			&cli.StringFlag{Name: "at", Usage: "`TIME` when it is due: 2006-01-02T15:04:05Z, '2006-01-02 15:04' here, or milliseconds since 1970"},
			durationFlag("ttr", time.Minute, "`DURATION` that a worker may take, in whole seconds"),
			&cli.BoolFlag{Name: "lines", Aliases: []string{"l"}, Usage: "a job for each line of standard input, as they come"},
		}, tagFlags()...),
	}
}

// tagFlags are those of the tags that a put may have on redstalk.
func tagFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "key", Usage: "`KEY`: the name of the job in its tube (extension put-tags, as all that follow)"},
		&cli.StringFlag{Name: "on-duplicate", Usage: "`WHAT` happens if a job has the key: keep, replace or fail"},
		&cli.StringFlag{Name: "key-ttl", Usage: "`DURATION` for which the key stays taken when the job is gone"},
		&cli.StringFlag{Name: "retry", Usage: "`DURATIONS` with commas: waits after the first failure, the second and so on"},
		&cli.UintFlag{Name: "max", Usage: "`N`: deliveries, then the job is parked"},
		&cli.StringFlag{Name: "dead", Usage: "`TUBE` for it when its retries or deliveries are used up"},
	}
}

// putOptions are what a put says of its jobs beside their bodies.
type putOptions struct {
	pri   uint32
	delay time.Duration
	ttr   int64
	tags  []string
}

// putOptionsOf reads the flags of put.
func putOptionsOf(t *task) (*putOptions, error) {
	pri, ttr := t.Uint("pri"), t.duration("ttr")
	if uint64(pri) > 1<<32-1 || uint64(t.Uint("max")) > 1<<32-1 {
		return nil, usage("--pri and --max must be below 4294967296")
	}
	j := job{
		Key: t.String("key"), OnDuplicate: t.String("on-duplicate"), KeyTTL: t.String("key-ttl"),
		Max: uint32(t.Uint("max")), Dead: t.String("dead"),
	}
	if retry := t.String("retry"); retry != "" {
		j.Retry = []string{retry}
	}
	tags, err := j.tags()
	if err != nil {
		return nil, err
	}
	options := &putOptions{uint32(pri), t.duration("delay"), wholeSeconds(ttr), tags}
	if len(tags) > 0 {
		if err := t.require("put-tags", "a put with "+strings.Join(tags, " ")); err != nil {
			return nil, err
		}
	}
	return options, options.setDueTime(t)
}

// setDueTime has the job due to the millisecond, if the server can do that.
func (m *putOptions) setDueTime(t *task) error {
	at, delayed := t.String("at"), t.IsSet("delay")
	if at != "" && delayed {
		return usage("--at and --delay exclude each other")
	}
	due := ""
	if at != "" {
		when, err := parseTime(at)
		if err != nil {
			return err
		}
		if when.After(maxDueTime) {
			return usage("%q is too late: a job can be due until %s", at, maxDueTime.UTC().Format(time.RFC3339Nano))
		}
		m.delay, due = delayAt(when.UnixMilli(), time.Now()), fmt.Sprintf("at:%d", when.UnixMilli())
	} else if m.delay%time.Second != 0 {
		due = fmt.Sprintf("delay:%dms", m.delay.Milliseconds())
	}
	if due == "" {
		return nil
	}
	exactly, err := t.supports("put-tags")
	if exactly {
		m.tags = append(m.tags, due)
	}
	return err
}

// parseTime reads a time of the clock.
func parseTime(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if when, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return when, nil
		}
	}
	return time.Time{}, usage("%q is no time, such as 2006-01-02T15:04:05Z or '2006-01-02 15:04'", text)
}

func put(t *task) error {
	if t.Bool("lines") && t.NArg() > 0 {
		return usage("--lines reads standard input, so there can be no argument")
	}
	m, err := putOptionsOf(t)
	if err != nil {
		return err
	}
	if err := t.use(t.tube()); err != nil {
		return err
	}
	if t.Bool("lines") {
		return putLines(t, m)
	}
	body := []byte(t.Args().First())
	if t.NArg() == 0 {
		if body, err = readAll(t); err != nil {
			return err
		}
	}
	return t.pipeline("putting the job", 1, func(out []byte, _ int) []byte { return m.put(out, body) }, func(_ int, r *client.Reply) error {
		return t.printPut("putting the job", r)
	})
}

// put appends the put of a body.
func (m *putOptions) put(out, body []byte) []byte {
	return appendPut(out, m.pri, m.delay, m.ttr, body, m.tags)
}

// printPut prints what became of a put.
func (t *task) printPut(doing string, r *client.Reply) error {
	if r.Word != client.Inserted {
		return replyError(doing, r)
	}
	state := strings.ToLower(string(r.Rest))
	value := struct {
		ID    uint64 `json:"id"`
		State string `json:"state,omitempty"` // of the job that had the key before
	}{r.ID, state}
	if state != "" {
		t.infof("redstalk: job %d has that key already and is %s; nothing was put", r.ID, state)
	}
	return t.printDone(value, "%d", r.ID)
}

// readAll reads standard input to its end.
func readAll(t *task) ([]byte, error) {
	if onTerminal(t.in) {
		t.infof("redstalk: reading the body from the terminal; Ctrl-D ends it")
	}
	var body []byte
	err := errors.New("not read yet")
	read := make(chan struct{})
	go func() {
		body, err = io.ReadAll(t.in)
		close(read)
	}()
	select {
	case <-read:
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return body, nil
	case <-t.Context.Context.Done():
		return nil, interrupted("nothing was put")
	}
}

// putLines puts each line. Lines are sent as they come, many at a time if they come fast.
func putLines(t *task, m *putOptions) error {
	ctx, stop := context.WithCancel(t.Context.Context)
	defer stop()
	in := startLines(ctx, t.in)
	count := 0
	for {
		lines, more := in.next(ctx)
		err := t.pipeline("putting a job", len(lines), func(out []byte, i int) []byte { return m.put(out, lines[i]) }, func(_ int, r *client.Reply) error {
			count++
			return t.printPut(fmt.Sprintf("putting line %d", count), r)
		})
		switch {
		case err != nil:
			return fmt.Errorf("%w (the lines before it were put)", err)
		case !more && ctx.Err() != nil:
			return interrupted(nounFor(count, "line") + " put")
		case !more && in.err != nil:
			return fmt.Errorf("reading standard input after line %d: %w", count, in.err)
		case !more:
			return nil
		}
	}
}

// lines are those of a file, read by a goroutine of their own.
type lines struct {
	c   chan []byte
	err error // when c is closed
}

// startLines begins to read. The goroutine ends with the file, or with ctx and the next line.
func startLines(ctx context.Context, from io.Reader) *lines {
	l := &lines{c: make(chan []byte, window)}
	go func() {
		defer close(l.c)
		in := bufio.NewReaderSize(from, 64<<10)
		for {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 {
				select {
				case l.c <- trimEnd(line):
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				if err != io.EOF {
					l.err = err
				}
				return
			}
		}
	}()
	return l
}

func trimEnd(line []byte) []byte {
	if line[len(line)-1] == '\n' {
		return line[:len(line)-1]
	}
	return line
}

// next waits for a line and returns it with those that have come, too, at most a window, and
// whether there may be more.
func (l *lines) next(ctx context.Context) (some [][]byte, more bool) {
	size := 0
	for size < windowBytes && len(some) < window {
		if len(some) > 0 && len(l.c) == 0 {
			return some, true
		}
		select {
		case line, ok := <-l.c:
			if !ok {
				return some, false
			}
			some, size = append(some, line), size+len(line)
		case <-ctx.Done():
			return some, false
		}
	}
	return some, true
}
