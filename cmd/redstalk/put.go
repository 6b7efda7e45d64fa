package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol"
	"redstalk/protocol/client"
	"redstalk/tube/field"
)

func putCommand() *cli.Command {
	return &cli.Command{
		Name: "put", ArgsUsage: "[BODY]", Action: withConn(arguments{0, 1}, put),
		Usage:       "put a job from the argument or from standard input, or one for each line of it; prints the ids",
		Description: "The flags from --key on need the extension put-tags.",
		Flags: append([]cli.Flag{
			tubeFlag(),
			&cli.UintFlag{Name: "pri", Aliases: []string{"p"}, Value: 1024, Usage: "`PRI`: jobs with a lower number come first"},
			durationFlag("delay", 0, "`DURATION` until the job is due"),
			&cli.StringFlag{Name: "at", Usage: "`TIME` when it is due: 2006-01-02T15:04:05Z, '2006-01-02 15:04' in local time, or milliseconds since 1970"},
			durationFlag("ttr", time.Minute, "`DURATION` that a worker may take, in whole seconds"),
			&cli.BoolFlag{Name: "lines", Aliases: []string{"l"}, Usage: "put a job for each line of standard input, as it arrives"},
			endWaitFlag("", ", and print its result instead of its id; without --keep, that is 1m (extension results)"),
		}, tagFlags()...),
	}
}

// plainTags are the tags of a put that have flags of their own: not the due time, which a server
// without tags knows as well.
func plainTags() []protocol.Tag {
	return slices.DeleteFunc(protocol.TagsIn(field.InPut), func(tag protocol.Tag) bool { return tag.Name == "delay" || tag.Name == "at" })
}

func tagFlags() (flags []cli.Flag) {
	for _, tag := range plainTags() {
		if tag.Name == "meta" {
			flags = append(flags, &cli.StringSliceFlag{Name: tag.Name, Usage: tag.Help})
		} else if tag.Kind == "N" {
			flags = append(flags, &cli.UintFlag{Name: tag.Name, Usage: tag.Help})
		} else {
			flags = append(flags, &cli.StringFlag{Name: tag.Name, Usage: tag.Help})
		}
	}
	return flags
}

// tagValue returns the value of a tag's flag, "" if it is not set, or can be repeated.
func (t *task) tagValue(name string) string {
	if name == "meta" {
		return ""
	}
	if n, ok := t.Value(name).(uint); ok {
		return optional(uint32(n))
	}
	return t.String(name)
}

// putOptions are the parameters of a put except the body.
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
	tags, err := tagWords(t.tagValue)
	if err != nil {
		return nil, err
	}
	for _, meta := range t.StringSlice("meta") {
		name, value, found := strings.Cut(meta, "=")
		if !found {
			return nil, usage("--meta needs NAME=VALUE, not %q", meta)
		}
		tags = append(tags, metaWord(name, value))
	}
	options := &putOptions{uint32(pri), t.duration("delay"), wholeSeconds(ttr), tags}
	if len(tags) > 0 {
		if err := t.require("put-tags", "a put with "+strings.Join(tags, " ")); err != nil {
			return nil, err
		}
	}
	return options, options.setDueTime(t)
}

// setDueTime sets the due time to the millisecond, if the server supports that.
func (m *putOptions) setDueTime(t *task) error {
	at, delayed := t.String("at"), t.IsSet("delay")
	if at != "" && delayed {
		return usage("--at and --delay cannot be used together")
	}
	due := ""
	if at != "" {
		when, err := parseTime(at)
		if err != nil {
			return err
		}
		if when.After(maxDueTime) {
			return usage("%q is too late: the latest due time is %s", at, maxDueTime.UTC().Format(time.RFC3339Nano))
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

// parseTime reads a point in time.
func parseTime(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if when, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return when, nil
		}
	}
	return time.Time{}, usage("%q is not a time such as 2006-01-02T15:04:05Z or '2006-01-02 15:04'", text)
}

func put(t *task) error {
	if t.Bool("lines") && t.NArg() > 0 {
		return usage("--lines reads standard input, so it takes no argument")
	}
	if t.Bool("lines") && t.IsSet("wait") {
		return usage("--lines and --wait cannot be used together")
	}
	m, err := putOptionsOf(t)
	if err != nil {
		return err
	}
	if t.IsSet("wait") {
		return putAndWait(t, m)
	}
	if err := t.use(t.tube()); err != nil {
		return err
	}
	if t.Bool("lines") {
		return putLines(t, m)
	}
	body, err := bodyToPut(t)
	if err != nil {
		return err
	}
	return t.pipeline("putting the job", 1, func(out []byte, _ int) []byte { return m.put(out, body) }, func(_ int, r *client.Reply) error {
		return t.printPut("putting the job", r, m)
	})
}

// bodyToPut returns the body of a put.
func bodyToPut(t *task) ([]byte, error) {
	if t.NArg() == 0 {
		return readAll(t)
	}
	return []byte(t.Args().First()), nil
}

// putAndWait puts a job that leaves a record, and waits for its end.
func putAndWait(t *task, m *putOptions) error {
	wait, err := waitOf(t)
	if err == nil {
		err = t.require("results", "put --wait")
	}
	if err == nil {
		err = t.use(t.tube())
	}
	if err != nil {
		return err
	}
	if t.String("keep") == "" {
		m.tags = append(m.tags, "keep:1m")
	}
	body, err := bodyToPut(t)
	if err != nil {
		return err
	}
	var id uint64
	err = t.pipeline("putting the job", 1, func(out []byte, _ int) []byte { return m.put(out, body) }, func(_ int, r *client.Reply) error {
		if r.Word != client.Inserted {
			return t.printPut("putting the job", r, m) // that returns the error
		}
		id = r.ID
		return nil
	})
	if err != nil {
		return err
	}
	t.infof("redstalk: waiting for job %d", id)
	return t.printEnd(id, wait)
}

// put appends the put of a body.
func (m *putOptions) put(out, body []byte) []byte {
	return appendPut(out, m.pri, m.delay, m.ttr, body, m.tags)
}

// printPut prints the result of a put.
func (t *task) printPut(doing string, r *client.Reply, m *putOptions) error {
	if r.Word != client.Inserted {
		return explained(t.tooBig(replyError(doing, r), r), r, strings.Join(m.tags, " "), field.InPut)
	}
	state := strings.ToLower(string(r.Rest))
	value := struct {
		ID    uint64 `json:"id"`
		State string `json:"state,omitempty"` // of the job that already had the key
	}{r.ID, state}
	if state != "" {
		t.infof("redstalk: job %d already has that key and is %s; nothing was put", r.ID, state)
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

// putLines puts a job for each line. Lines are sent as they arrive, in windows if they arrive fast.
func putLines(t *task, m *putOptions) error {
	ctx, stop := context.WithCancel(t.Context.Context)
	defer stop()
	in := startLines(ctx, t.in)
	count := 0
	for {
		lines, more := in.next(ctx)
		err := t.pipeline("putting a job", len(lines), func(out []byte, i int) []byte { return m.put(out, lines[i]) }, func(_ int, r *client.Reply) error {
			count++
			return t.printPut(fmt.Sprintf("putting line %d", count), r, m)
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

// lines are the lines of a file, read by a goroutine.
type lines struct {
	c   chan []byte
	err error // valid when c is closed
}

// startLines starts the reading goroutine. It ends with the file, or at the next line after ctx is done.
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

// next waits for a line and returns it with those that have arrived meanwhile, at most a window, and
// whether there can be more.
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
