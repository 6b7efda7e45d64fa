package main

import (
	"net"
	"strings"
)

// notify tells systemd how far the program is, if systemd has asked for it: see sd_notify(3). An
// error is no reason to serve nobody, so it is only logged.
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
		p.log.Warn("systemd cannot be told", "state", state, "err", err.Error())
	}
}
