package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

func clientsCommand() *cli.Command {
	return &cli.Command{
		Name: "clients", Action: withConn(noArguments, clients),
		Usage:       "list the connections of all instances, and the jobs that they hold (extension clients)",
		Description: "WAITING says whether a reserve waits for a job. HOLDS are ids of jobs. Without the right admin on all tubes: only those of the same user.",
	}
}

// connection is a line of list-clients, and of the JSON output.
type connection struct {
	ID       uint64   `yaml:"id" json:"id"`
	Instance string   `yaml:"instance" json:"instance,omitempty"`
	Address  string   `yaml:"address" json:"address"`
	Entrance string   `yaml:"entrance" json:"entrance"`
	Name     string   `yaml:"name" json:"name,omitempty"`
	User     string   `yaml:"user" json:"user,omitempty"`
	Used     string   `yaml:"used" json:"used"`
	Watched  []string `yaml:"watched" json:"watched"` // the first ones
	Watching int      `yaml:"watching" json:"watching"`
	Waiting  bool     `yaml:"waiting" json:"waiting"`
	Jobs     int      `yaml:"jobs" json:"jobs"`
	Held     []uint64 `yaml:"held" json:"held,omitempty"` // ids of some of these jobs
	Since    int64    `yaml:"since-ms" json:"since_ms"`   // milliseconds since 1970
}

// maxPageClients is the largest number of connections in a page of list-clients.
const maxPageClients = 1000

func clients(t *task) error {
	if err := t.require("clients", "clients"); err != nil {
		return err
	}
	b := &table{head: []string{"ADDRESS", "NAME", "USER", "INSTANCE", "WAITING", "HOLDS", "CONNECTED", "WATCHES"}, left: 8}
	missing, err := t.eachClient(func(c *connection) error {
		if t.Bool("json") {
			return t.printJSON(c)
		}
		b.add(c.row(time.Now())...)
		return nil
	})
	if err != nil {
		return err
	}
	if !t.Bool("json") {
		if err := b.print(t.out); err != nil {
			return err
		}
	}
	return incomplete(missing)
}

// eachClient passes all connections to do, until it fails. It returns the instances that have not answered.
func (t *task) eachClient(do func(*connection) error) (missing map[string]bool, err error) {
	missing = make(map[string]bool)
	for cursor, more := "", true; more && t.Context.Context.Err() == nil; more = cursor != "" {
		page, err := t.pageOfClients(cursor)
		if err != nil {
			return nil, err
		}
		for i := range page.Clients {
			if err := do(&page.Clients[i]); err != nil {
				return nil, err
			}
		}
		for _, name := range page.Missing {
			missing[name] = true
		}
		cursor = page.Next
	}
	return missing, nil
}

// pageOfClients is a page of list-clients.
type pageOfClients struct {
	Next    string
	Missing []string
	Clients []connection
}

func (t *task) pageOfClients(cursor string) (*pageOfClients, error) {
	text, err := t.page("listing clients", strings.TrimSpace(fmt.Sprintf("list-clients %d %s", maxPageClients, cursor)))
	if err != nil {
		return nil, err
	}
	page := new(pageOfClients)
	if err := yaml.Unmarshal([]byte(text), page); err != nil {
		return nil, fmt.Errorf("reading a page of list-clients: %w", err)
	}
	return page, nil
}

// row returns the cells of a connection.
func (c *connection) row(now time.Time) []string {
	waiting := "-"
	if c.Waiting {
		waiting = "yes"
	}
	held := make([]string, len(c.Held))
	for i, id := range c.Held {
		held[i] = strconv.FormatUint(id, 10)
	}
	connected := formatSeconds(max(now.UnixMilli()-c.Since, 0) / 1000)
	return []string{c.Address, orDash(c.Name), orDash(c.User), orDash(c.Instance), waiting, firstOf(held, c.Jobs), connected, firstOf(c.Watched, c.Watching)}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// firstOf joins the first few words, and says how many there are of all.
func firstOf(words []string, all int) string {
	const most = 3
	shown := words[:min(most, len(words))]
	text := orDash(strings.Join(shown, ","))
	if left := all - len(shown); left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// incomplete returns an error if instances did not answer.
func incomplete(missing map[string]bool) error {
	if len(missing) == 0 {
		return nil
	}
	return failure{exitServer, fmt.Errorf("the list is incomplete: %s did not answer", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))}
}
