package outbox

import (
	"fmt"
	"strings"

	"redstalk/protocol/client"
)

// putter is a connection to the server.
type putter struct {
	conn *client.Conn
	keys bool // the server knows keys: it can tell that a row was put before
	used string
}

// newPutter makes a putter of a new connection, and asks what the server can do.
func newPutter(conn *client.Conn) (*putter, error) {
	p := &putter{conn: conn}
	err := conn.Ask([]byte("capabilities\r\n"), 1, func(r *client.Reply) error {
		switch {
		case r.Word == client.OK:
			p.keys = strings.Contains(string(r.Body), "- put-tags\n")
		case string(r.Line) != "UNKNOWN_COMMAND":
			return r.Unexpected()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("asking what the server can do: %w", err)
	}
	return p, nil
}

// use makes a tube the used one. refusal is the reply if the server does not allow it.
func (p *putter) use(tube string) (refusal string, err error) {
	if p.used == tube {
		return "", nil
	}
	err = p.conn.Ask([]byte("use "+tube+"\r\n"), 1, func(r *client.Reply) error {
		switch {
		case r.Word == client.Using:
			p.used = tube
		case string(r.Line) == "FORBIDDEN":
			refusal = string(r.Line)
		default:
			return r.Unexpected()
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("using tube %s: %w", tube, err)
	}
	return refusal, nil
}

// put puts prepared rows of one tube. refusal is why the tube takes no jobs for now. After an error, rows can
// have been put of which that is not known. A put is sent only after the reply to use: else a tube that is
// refused would get its jobs into the tube before.
func (p *putter) put(rows []*row) (refusal string, err error) {
	if refusal, err = p.use(rows[0].tube); err != nil || refusal != "" {
		return refusal, err
	}
	var unable error // the server takes no jobs; the replies to the puts that were sent are read all the same
	err = client.Pipeline(func(commands []byte, n int, take func(*client.Reply) error) error {
		if err := p.conn.Ask(commands, n, take); err != nil {
			return fmt.Errorf("putting rows: %w", err)
		}
		return unable
	}, len(rows), func(out []byte, i int) []byte { return rows[i].appendPut(out) }, func(i int, r *client.Reply) error {
		tubeWide, err := rows[i].take(r)
		if tubeWide != "" {
			refusal = tubeWide
		}
		if err != nil {
			unable = err
		}
		return nil
	})
	return refusal, err
}
