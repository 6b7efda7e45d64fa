package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Reply is the answer to a command.
type Reply struct {
	Word string // the first word, such as INSERTED
	Args string // the rest of the line
	Body []byte // a job's body or a page; nil if there is none

	id   uint64     // of INSERTED, without an allocation
	jobs []delivery // of RESERVED, LEASED and RESERVED_BATCH
}

// A delivery is a job as a reserve answers it.
type delivery struct {
	id    uint64
	lease string
	body  []byte
	info  []byte // JSON, or nil
}

// maxBody is the largest body in bytes: the maximum of the server's -z.
const maxBody = 1 << 30

// fail returns the error for a reply that is not the expected one.
func (r *Reply) fail() error {
	if err := wordErrors[r.Word]; err != nil {
		return fmt.Errorf("%w (%s)", err, r.Word)
	}
	return fmt.Errorf("unexpected reply %q", strings.TrimSpace(r.Word+" "+r.Args))
}

// expect returns nil if the reply has this word, and else the error it stands for.
func (r *Reply) expect(word string) error {
	if r.Word != word {
		return r.fail()
	}
	return nil
}

// readReply parses the reply whose first line, with CR LF, is line. The line is valid until the
// next read.
func readReply(in *bufio.Reader, line []byte, r *Reply) error {
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return fmt.Errorf("the line %q does not end in CR LF", line)
	}
	word, args, _ := bytes.Cut(line, []byte(" "))
	*r = Reply{Word: intern(word)}
	switch r.Word {
	case "INSERTED":
		id, rest, _ := bytes.Cut(args, []byte(" "))
		n, err := number(id)
		r.id, r.Args = n, string(rest)
		return err
	case "OK":
		n, err := number(args)
		if err == nil {
			r.Body, err = readBody(in, n)
		}
		return err
	case "ENDED": // ID HOW BYTES
		r.Args = string(args)
		n, err := number(args[bytes.LastIndexByte(args, ' ')+1:])
		if err == nil {
			r.Body, err = readBody(in, n)
		}
		return err
	case "FOUND", "RESERVED", "LEASED":
		return r.readJob(in, args)
	case "RESERVED_BATCH":
		return r.readBatch(in, args)
	}
	r.Args = string(args)
	return nil
}

// readJob reads the job whose line continues with args: ID BYTES, ID LEASE BYTES, or
// ID LEASE BYTES INFO-BYTES.
func (r *Reply) readJob(in *bufio.Reader, args []byte) error {
	fields := strings.Fields(string(args))
	var d delivery
	if len(fields) < 2 || len(fields) > 4 {
		return fmt.Errorf("cannot read %q", args)
	}
	if len(fields) > 2 {
		d.lease = fields[1]
		fields = append(fields[:1], fields[2:]...)
	}
	var sizes [3]uint64
	for i, field := range fields {
		var err error
		if sizes[i], err = strconv.ParseUint(field, 10, 64); err != nil {
			return fmt.Errorf("cannot read %q", args)
		}
	}
	d.id = sizes[0]
	var err error
	if d.body, err = readBody(in, sizes[1]); err != nil {
		return err
	}
	if len(fields) == 3 {
		if d.info, err = readBody(in, sizes[2]); err != nil {
			return err
		}
	}
	r.Body, r.id = d.body, d.id
	r.jobs = append(r.jobs, d)
	return nil
}

func (r *Reply) readBatch(in *bufio.Reader, args []byte) error {
	n, err := number(args)
	for ; err == nil && n > 0; n-- {
		var line []byte
		if line, err = in.ReadSlice('\n'); err != nil {
			break
		}
		_, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r\n")), []byte(" "))
		err = r.readJob(in, rest)
	}
	return err
}

// readBody reads n bytes and CR LF. The result is never nil. The announced size is not
// trusted: memory grows with what arrives.
func readBody(in *bufio.Reader, n uint64) ([]byte, error) {
	if n > maxBody {
		return nil, fmt.Errorf("a body of %d bytes", n)
	}
	var body []byte
	var err error
	if n <= 1<<20 {
		body = make([]byte, n+2)
		_, err = io.ReadFull(in, body)
	} else if body, err = io.ReadAll(io.LimitReader(in, int64(n+2))); err == nil && uint64(len(body)) < n+2 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(body, []byte("\r\n")) {
		return nil, fmt.Errorf("a body does not end in CR LF")
	}
	return body[:n:n], nil
}

// intern returns the string of a common word without an allocation.
func intern(word []byte) string {
	switch string(word) {
	case "INSERTED":
		return "INSERTED"
	case "LEASED":
		return "LEASED"
	case "RESERVED":
		return "RESERVED"
	case "DELETED":
		return "DELETED"
	case "TIMED_OUT":
		return "TIMED_OUT"
	case "TOUCHED":
		return "TOUCHED"
	case "USING":
		return "USING"
	case "WATCHING":
		return "WATCHING"
	}
	return string(word)
}

func number(b []byte) (uint64, error) {
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("cannot read the number %q", b)
		}
		n = n*10 + uint64(c-'0')
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, fmt.Errorf("cannot read the number %q", b)
	}
	return n, nil
}
