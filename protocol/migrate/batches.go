package migrate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// A batch is not moved while it is under way: a member that is moved would count as done on the source, one that is reserved there
// stays there, and so after-jobs would run too early on either server.

// UnderWay is the error of a move while batches of the source have pending members or after-jobs that have not run. Nothing
// of them is moved.
type UnderWay struct {
	batches []string // the first ones, described
	more    int      // how many others there are
}

// maxDescribed is how many batches the text of an error names.
const maxDescribed = 5

func (u *UnderWay) Error() string {
	text := strings.Join(u.batches, ", ")
	if u.more > 0 {
		text += fmt.Sprintf(" and %d more", u.more)
	}
	return "batches are under way on the old server, and their jobs stay there: " + text +
		"; let workers end the members there, or cancel the batches, and kick or delete after-jobs that are parked"
}

// add adds a batch if it is under way. count returns one of the numbers of its page.
func (u *UnderWay) add(name string, count func(key string) uint64) {
	pending, after := count("pending"), count("after-held")+count("after-failed")
	switch {
	case pending+after == 0:
	case len(u.batches) < maxDescribed:
		u.batches = append(u.batches, fmt.Sprintf("%s (pending members: %d, jobs after it: %d)", name, pending, after))
	default:
		u.more++
	}
}

// err returns u; nil if it has no batch.
func (u *UnderWay) err() error {
	if len(u.batches) == 0 {
		return nil
	}
	return u
}

// batchEntry matches a line of list-batches: the name, and the rest.
var batchEntry = regexp.MustCompile(`(?m)^- \{name: ("(?:[^"\\]|\\.)*"),(.*)\}$`)

// CheckBatches returns an UnderWay if there are such batches on the source.
func (c *Migrator) CheckBatches() error {
	under := new(UnderWay)
	for cursor := ""; ; {
		page, err := c.source.page(strings.TrimSpace("list-batches 1000 " + cursor))
		if err != nil {
			return fmt.Errorf("asking the old server for its batches: %w", err)
		}
		for _, m := range batchEntry.FindAllStringSubmatch(string(page), -1) {
			rest := m[2]
			under.add(unquoted(m[1]), func(key string) uint64 { return numberIn(rest, " "+key+": ", ",") })
		}
		next, _ := page.Value("next")
		if cursor = unquoted(next); cursor == "" {
			return under.err()
		}
	}
}

// numberIn returns the number between two texts; 0 if there is none.
func numberIn(text, before, behind string) uint64 {
	_, rest, _ := strings.Cut(text, before)
	word, _, _ := strings.Cut(rest, behind)
	n, _ := strconv.ParseUint(word, 10, 64)
	return n
}

// checkJob returns an UnderWay if a job has to do with such a batch: one that was begun since CheckBatches.
func (c *Migrator) checkJob(t *protocol.Tags) error {
	if t == nil {
		return nil
	}
	under := new(UnderWay)
	for _, name := range []string{t.Batch.Name, t.Batch.After, t.Batch.AfterAll} {
		if name == "" {
			continue
		}
		page, err := c.source.page("stats-batch " + name)
		if err != nil {
			return fmt.Errorf("asking the old server about a batch: %w", err)
		}
		under.add(name, func(key string) uint64 { return numberIn("\n"+string(page), "\n"+key+": ", "\n") })
	}
	return under.err()
}

// page returns a page of the source; none if it does not know the command, or what is asked about.
func (t *source) page(command string) (page client.Page, err error) {
	err = t.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error {
		switch {
		case r.Word == client.OK:
			page = client.Page(append([]byte{}, r.Body...))
		case r.Word != client.NotFound && string(r.Line) != "UNKNOWN_COMMAND":
			return r.Unexpected()
		}
		return nil
	})
	return page, err
}
