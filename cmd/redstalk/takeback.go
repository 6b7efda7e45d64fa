package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

func takeBackCommand() *cli.Command {
	return &cli.Command{
		Name: "take-back", ArgsUsage: "[ID...|-]", Action: withConn(anyNumber, takeBack),
		Usage:       "take reserved jobs back from their workers, which may hang; - reads ids from standard input (extension take-back)",
		Description: "As at the end of the TTR: it counts as a timeout, and without a retry delay another worker gets the job at once. The worker that had it can no longer finish it.",
	}
}

func takeBack(t *task) error {
	ids, err := idsFrom(t)
	if err != nil {
		return err
	}
	if err := t.require("take-back", "take-back"); err != nil {
		return err
	}
	return forEachJob(t, ids, "taken back", "TAKEN_BACK", func(out []byte, id uint64) []byte { return fmt.Appendf(out, "take-back %d\r\n", id) })
}

func closeClientCommand() *cli.Command {
	return &cli.Command{
		Name: "close-client", ArgsUsage: "ADDRESS|NAME|ID", Action: withConn(arguments{1, 1}, closeClient),
		Usage:       "close a connection, as if its client had left; clients lists them (extension take-back)",
		Description: "Its jobs become ready, and that counts as no failure. Jobs that it has leased stay leased: take-back takes them back.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "instance", Usage: "`NAME` of the instance of the connection, if several have one of that name or id"}},
	}
}

func closeClient(t *task) error {
	if err := t.require("take-back", "close-client"); err != nil {
		return err
	}
	c, err := t.findClient(t.Args().First(), t.String("instance"))
	if err != nil {
		return err
	}
	command := strings.TrimSpace(fmt.Sprintf("close-client %d %s", c.ID, c.Instance))
	if _, err := t.expect("closing the connection "+c.Address, "CLOSED", command); err != nil {
		return err
	}
	return t.printDone(map[string]any{"closed": c}, "connection %s closed; it held %s", c.describe(), nounFor(max(c.Jobs, 0), "job"))
}

// findClient returns the one connection that has an address, a name or an id.
func (t *task) findClient(word, instance string) (*connection, error) {
	var found []connection
	missing, err := t.eachClient(func(c *connection) error {
		if c.is(word) && (instance == "" || c.Instance == instance) {
			found = append(found, *c)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 1:
		return &found[0], nil
	case len(found) > 1:
		lines := make([]string, len(found))
		for i := range found {
			lines[i] = "\n  " + found[i].describe()
		}
		return nil, usage("%d connections are called %s: give the address of one of them, or its id and --instance%s", len(found), word, strings.Join(lines, ""))
	}
	if err := incomplete(missing); err != nil {
		return nil, err
	}
	return nil, notFound("no connection has the address, name or id %s", word)
}

// is reports whether the connection has that address, name or id.
func (c *connection) is(word string) bool {
	return c.Address == word || c.Name == word || strconv.FormatUint(c.ID, 10) == word
}

// describe names the connection for people.
func (c *connection) describe() string {
	text := c.Address
	if _, _, err := net.SplitHostPort(c.Address); err != nil || c.Name != "" {
		text += fmt.Sprintf(" (%s, id %d)", orDash(c.Name), c.ID)
	}
	if c.Instance != "" {
		text += " of " + c.Instance
	}
	return text
}
