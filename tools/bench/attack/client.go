package attack

import (
	"bytes"
	"fmt"
	"time"

	"redstalk/protocol/client"
)

// dial connects to an instance, with a long timeout for replies.
func dial(addr string) (*client.Conn, error) {
	c, err := client.Dial(addr, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c.Timeout = patience
	return c, nil
}

// perPacket is how many commands bulk sends in one write.
const perPacket = 500

// bulk sends n commands in packets, each made by add, and waits for the replies, whose
// first word must be want.
func bulk(c *client.Conn, n int, want client.Word, add func(out []byte, i int) []byte) error {
	return bulkTaking(c, n, add, func(r *client.Reply) error {
		if r.Word != want {
			return fmt.Errorf("unexpected answer: %s", r.Line)
		}
		return nil
	})
}

// bulkTaking is bulk with a function that gets each reply.
func bulkTaking(c *client.Conn, n int, add func(out []byte, i int) []byte, take func(*client.Reply) error) error {
	var out []byte
	for i := 0; i < n; {
		out = out[:0]
		last := min(n, i+perPacket)
		sent := last - i
		for ; i < last; i++ {
			out = add(out, i)
		}
		if err := c.Ask(out, sent, take); err != nil {
			return err
		}
	}
	return nil
}

// command sends one command, and returns how long its reply took.
func command(c *client.Conn, format string, args ...any) (time.Duration, error) {
	begun := time.Now()
	err := c.Ask(fmt.Appendf(nil, format+"\r\n", args...), 1, func(r *client.Reply) error { return nil })
	return time.Since(begun), err
}

// putMany puts n jobs with a body of size bytes into a tube.
func putMany(c *client.Conn, tube string, n, size, delay, ttr int) error {
	if _, err := command(c, "use %s", tube); err != nil {
		return err
	}
	body := bytes.Repeat([]byte("x"), size)
	return bulk(c, n, client.Inserted, func(out []byte, _ int) []byte { return client.AppendPut(out, 1, delay, ttr, body) })
}

// reserveMany reserves n jobs of a tube that has them, and returns their ids. It ignores the default
// tube: if that is in another partition, each reserve concerns two partitions, and such reserves of a
// connection cannot share a call.
func reserveMany(c *client.Conn, tube string, n int) ([]uint64, error) {
	if err := watchOnly(c, tube); err != nil {
		return nil, err
	}
	var ids []uint64
	err := bulkTaking(c, n, func(out []byte, _ int) []byte { return append(out, "reserve-with-timeout 0\r\n"...) },
		func(r *client.Reply) error {
			if r.Word != client.Reserved {
				return fmt.Errorf("reserving: %s", r.Line)
			}
			ids = append(ids, r.ID)
			return nil
		})
	return ids, err
}

// watchOnly makes a connection that watches only the default tube watch another one instead.
func watchOnly(c *client.Conn, tube string) error {
	if _, err := command(c, "watch %s", tube); err != nil || tube == defaultTube {
		return err
	}
	_, err := command(c, "ignore %s", defaultTube)
	return err
}

// defaultTube is the tube that a new connection watches.
const defaultTube = "default"

// spread puts each jobs into each of n tubes.
func spread(c *client.Conn, n, each int) error {
	i := 0
	return bulkTaking(c, n*(each+1), func(out []byte, at int) []byte {
		if at%(each+1) == 0 {
			i++
			return fmt.Appendf(out, "use t%d\r\n", i)
		}
		return client.AppendPut(out, 1, 0, 600, []byte("x"))
	}, func(r *client.Reply) error {
		if r.Word != client.Using && r.Word != client.Inserted {
			return fmt.Errorf("putting into many tubes: %s", r.Line)
		}
		return nil
	})
}
