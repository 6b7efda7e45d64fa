package main

import (
	"net"
	"strings"
)

// notify sends the program's state to systemd, if systemd has asked for it: see sd_notify(3). An
// error does not stop the server, so it is only logged.
func (p *program) notify(state string) {
	path, asked := p.env("NOTIFY_SOCKET")
	if !asked || path == "" {
		return
	}
	if name, abstract := strings.CutPrefix(path, "@"); abstract {
		path = "\x00" + name
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		p.log.Warn("notifying systemd failed", "state", state, "err", err.Error())
	}
}
