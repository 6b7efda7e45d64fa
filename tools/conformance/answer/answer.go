// Package answer reads the replies of a server, for all judges. It is independent of the server's
// own code: see package conformance.
package answer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// A Reply is one answer of a server: a line and, for data replies, a body.
type Reply struct {
	Head, Body []byte // without their CR LF
	Data       bool   // whether there is a body
}

var crlf = []byte("\r\n")

// Cut finds the reply at the start of buf and its length, which is 0 if it is incomplete. With an
// error, the body is followed by something else than CR LF.
func Cut(buf []byte) (r Reply, n int, err error) {
	n = bytes.Index(buf, crlf) + len(crlf)
	if n < len(crlf) {
		return r, 0, nil
	}
	r.Head = bytes.Clone(buf[:n-len(crlf)])
	size, data := bodySize(r.Head)
	if !data {
		return r, n, nil
	}
	if len(buf) < n+size+len(crlf) {
		return r, 0, nil
	}
	err = r.setBody(buf[n:n+size+len(crlf)], size)
	return r, n + size + len(crlf), err
}

// Read reads one reply.
func Read(in *bufio.Reader) (r Reply, err error) {
	head, err := in.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	r.Head = bytes.TrimSuffix(head, crlf)
	size, data := bodySize(r.Head)
	if !data {
		return r, nil
	}
	body := make([]byte, size+len(crlf))
	if _, err := io.ReadFull(in, body); err != nil {
		return r, err
	}
	return r, r.setBody(body, size)
}

// setBody takes the body out of the bytes that came for it and its CR LF.
func (r *Reply) setBody(came []byte, size int) error {
	r.Body, r.Data = bytes.Clone(came[:size]), true
	if !bytes.Equal(came[size:], crlf) {
		return fmt.Errorf("no CR LF after the %d bytes of %q", size, r.Head)
	}
	return nil
}

// bodySize reads the count of a data reply.
func bodySize(head []byte) (int, bool) {
	f := bytes.Split(head, []byte(" "))
	switch word := string(f[0]); {
	case word == "OK" && len(f) == 2, (word == "RESERVED" || word == "FOUND") && len(f) == 3, (word == "LEASED" || word == "ENDED") && len(f) == 4:
		n, err := strconv.ParseUint(string(f[len(f)-1]), 10, 31)
		return int(n), err == nil
	}
	return 0, false
}
