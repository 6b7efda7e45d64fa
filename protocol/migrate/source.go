package migrate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// source is a connection to the old server.
type source struct {
	*client.Conn
	used    string
	watched string
}

// jobStats are the values of stats-job.
type jobStats struct {
	tube, state                                        string
	pri, ttr                                           uint32
	left                                               time.Duration
	reserves, timeouts, releases, buries, kicks, delay uint32

	tags     *protocol.Tags // nil: none
	leftTags bool           // see parseTags
	saved    bool           // it has a checkpoint
}

// sameHistory reports whether nothing but n reservations has happened to a job between f and g.
func (f *jobStats) sameHistory(g *jobStats, n uint32) bool {
	return f.reserves+n == g.reserves && f.timeouts == g.timeouts && f.releases == g.releases && f.buries == g.buries && f.kicks == g.kicks
}

var errNotFound = errors.New("there is no such job")

// ask sends commands, and returns the first lines of the replies.
func (t *source) ask(n int, commands string) (lines []string, err error) {
	err = t.Ask([]byte(commands), n, func(r *client.Reply) error {
		lines = append(lines, string(r.Line))
		return nil
	})
	return lines, err
}

// command sends one command that is answered with a word, or NOT_FOUND.
func (t *source) command(command, word string) error {
	lines, err := t.ask(1, command+"\r\n")
	switch {
	case err != nil:
		return err
	case lines[0] == "NOT_FOUND":
		return errNotFound
	case first(lines[0]) != word:
		return fmt.Errorf("%s: the old server answered %q", first(command), lines[0])
	}
	return nil
}

func first(line string) string {
	word, _, _ := strings.Cut(line, " ")
	return word
}

// jobStats requests the stats of a job.
func (t *source) jobStats(id uint64) (f jobStats, err error) {
	err = t.Ask(fmt.Appendf(nil, "stats-job %d\r\n", id), 1, func(r *client.Reply) error {
		if f, err = parseJobStats(r); err != nil {
			return err
		}
		return nil
	})
	return f, err
}

// parseJobStats parses the reply to stats-job.
func parseJobStats(r *client.Reply) (f jobStats, err error) {
	switch r.Word {
	case client.NotFound:
		return f, errNotFound
	case client.OK:
	default:
		return f, r.Unexpected()
	}
	page := client.Page(r.Body)
	text := func(key string) string {
		value, _ := page.Value(key)
		return strings.Trim(value, `"`)
	}
	number := func(key string) uint32 {
		n, _ := strconv.ParseUint(text(key), 10, 32)
		return uint32(n)
	}
	f = jobStats{
		tube: text("tube"), state: text("state"), pri: number("pri"), ttr: number("ttr"), left: time.Duration(number("time-left")) * time.Second,
		reserves: number("reserves"), timeouts: number("timeouts"), releases: number("releases"), buries: number("buries"), kicks: number("kicks"),
		delay: number("delay"),
	}
	f.tags, f.leftTags = parseTags(page, time.Now())
	f.saved = number("checkpoint-bytes") > 0
	return f, nil
}

// checkpoint returns the checkpoint of a job; nil if it has none.
func (t *source) checkpoint(id uint64) (data []byte, err error) {
	err = t.Ask(fmt.Appendf(nil, "get-checkpoint %d\r\n", id), 1, func(r *client.Reply) error {
		switch r.Word {
		case client.OK:
			data = append([]byte{}, r.Body...)
		case client.NotFound:
		default:
			return r.Unexpected()
		}
		return nil
	})
	return data, err
}

// fetch returns the job of a command that is answered with one; id is 0 if there is none.
func (t *source) fetch(command string) (id uint64, body []byte, err error) {
	err = t.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error {
		switch r.Word {
		case client.Reserved, client.Found:
			id, body = r.ID, append([]byte{}, r.Body...)
		case client.NotFound, client.TimedOut, client.DeadlineSoon:
		default:
			return r.Unexpected()
		}
		return nil
	})
	return id, body, err
}

// use selects the tube of peeks.
func (t *source) use(tube string) error {
	if t.used == tube {
		return nil
	}
	err := t.command("use "+tube, "USING")
	t.used = tube
	return err
}

// watch makes reserves take jobs of this tube only.
func (t *source) watch(tube string) error {
	if t.watched == tube {
		return nil
	}
	if err := t.command("watch "+tube, "WATCHING"); err != nil {
		return err
	}
	before := t.watched
	if before == "" {
		before = "default"
	}
	t.watched = tube
	if before == tube {
		return nil
	}
	return t.command("ignore "+before, "WATCHING")
}

// tubeStats requests the stats of a tube; all are zero if it does not exist.
func (t *source) tubeStats(tube string) (ready, delayed, buried, reserved int, paused bool, err error) {
	err = t.Ask(fmt.Appendf(nil, "stats-tube %s\r\n", tube), 1, func(r *client.Reply) error {
		if r.Word == client.NotFound {
			return nil
		}
		if r.Word != client.OK {
			return r.Unexpected()
		}
		number := func(key string) int {
			value, _ := client.Page(r.Body).Value(key)
			n, _ := strconv.Atoi(value)
			return n
		}
		ready, delayed, buried = number("current-jobs-ready"), number("current-jobs-delayed"), number("current-jobs-buried")
		reserved, paused = number("current-jobs-reserved"), number("pause-time-left") > 0
		return nil
	})
	return ready, delayed, buried, reserved, paused, err
}

// tubes returns the names of all tubes.
func (t *source) tubes() (names []string, err error) {
	page, err := t.Page("list-tubes")
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "- "); ok {
			names = append(names, strings.Trim(name, `"'`))
		}
	}
	return names, err
}
