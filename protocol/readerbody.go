package protocol

import "bytes"

// lineRead continues with a command whose line is read and whose body follows. The
// order of the checks is beanstalkd's: a body that is too big is skipped even if
// the line has junk at its end, while the body of any other line with junk is
// parsed as commands. The body of a line with something like tags is skipped.
func (r *Reader) lineRead(c *Command) bool {
	limit := r.maxBody
	if spec := &table[c.Verb]; c.Verb == Put {
		limit = r.maxPut
	} else if spec.MaxBody > 0 {
		limit = uint64(spec.MaxBody)
	}
	switch {
	case uint64(c.size) > limit:
		return r.refuse(c, JobTooBig)
	case c.junk:
		c.Fault = BadFormat
		return true
	case c.badTags:
		return r.refuse(c, BadFormat)
	}
	c.Producer = c.Verb == Put
	// The usual case: the body has arrived with its line.
	if r.bodyArrived(c.size) {
		r.copyBody(c)
		return true
	}
	r.awaitBody(c)
	return r.readBody(c)
}

// bodyArrived reports whether a body of size bytes and its CRLF are in the buffer.
func (r *Reader) bodyArrived(size uint32) bool { return r.Buffered() >= int(size)+len(crlf) }

// copyBody copies the body of a command from the buffer.
func (r *Reader) copyBody(c *Command) {
	size := int(c.size)
	body := r.buf[r.lo : r.lo+size]
	r.lo += size
	if !r.takeEnd() {
		c.Fault = ExpectedCRLF
		return
	}
	c.Body, c.Buffer = r.newBody(size)
	copy(c.Body, body)
}

// takeEnd consumes the two bytes after a body, and returns whether they are CRLF.
func (r *Reader) takeEnd() bool {
	end := r.buf[r.lo : r.lo+len(crlf)]
	r.lo += len(crlf)
	return end[0] == '\r' && end[1] == '\n'
}

// newBody returns memory for size bytes of a body, which may not be zeroed.
func (r *Reader) newBody(size int) ([]byte, Buffer) {
	if r.buffers != nil {
		if b := r.buffers(size); b != nil {
			return b.Bytes(), b
		}
	}
	return make([]byte, size), nil
}

// awaitBody keeps a command until its body is complete. Fill moves and
// overwrites the buffer before that, so the name is copied.
func (r *Reader) awaitBody(c *Command) {
	r.pending, r.state = *c, inBody
	if c.Name != nil {
		r.name = append(r.name[:0], c.Name...)
		r.pending.Name = r.name
	}
	r.pending.List = bytes.Clone(c.List) // of set-schedule, which is rare
}

// refuse sets the fault of a command, and skips its body.
func (r *Reader) refuse(c *Command, fault Fault) bool {
	c.Fault = fault
	r.pending, r.state = *c, inRefused
	r.left = uint64(c.size) + uint64(len(crlf))
	return r.dropBody(c)
}

// dropBody skips the body of a refused command, and reports the command at its end.
func (r *Reader) dropBody(c *Command) bool {
	n := min(r.left, uint64(r.Buffered()))
	r.lo += int(n)
	r.left -= n
	if r.left > 0 {
		return false
	}
	*c, r.pending, r.state = r.pending, Command{}, inLine
	return true
}

// readBody continues with a body that was not complete. If it fits into the smallest
// buffer, it is collected there. A larger one is collected in r.body, which Fill also
// reads into; its CRLF arrives in the buffer.
func (r *Reader) readBody(c *Command) bool {
	size := int(r.pending.size)
	if r.body == nil {
		if r.bodyArrived(r.pending.size) {
			*c, r.pending, r.state = r.pending, Command{}, inLine
			r.copyBody(c)
			return true
		}
		if size+len(crlf) <= minBuffer {
			return false
		}
		r.beginBody(size)
	}
	for r.got < size && r.Buffered() > 0 {
		n := copy(r.bodySpace(), r.buf[r.lo:r.hi])
		r.lo += n
		r.got += n
	}
	if r.got < size || r.Buffered() < len(crlf) {
		return false
	}
	r.endBody(c)
	return true
}

// beginBody allocates memory for a body. If no body of that size has arrived before, it
// allocates only a part: the announced size is not trusted.
func (r *Reader) beginBody(size int) {
	r.body, r.bodyBuf = r.newBody(min(size, max(r.largestSoFar, maxBuffer)))
	r.got = 0
	if size > largeBody {
		r.filled = false
	}
}

// endBody returns the pending command, whose body and CRLF have arrived.
func (r *Reader) endBody(c *Command) {
	r.largestSoFar = max(r.largestSoFar, r.got)
	*c = r.pending
	c.Body, c.Buffer = r.body, r.bodyBuf
	r.pending, r.body, r.bodyBuf, r.state = Command{}, nil, nil, inLine
	if !r.takeEnd() {
		c.refuseBody()
	}
}

// refuseBody drops a body that is not followed by CRLF.
func (c *Command) refuseBody() {
	if c.Buffer != nil {
		c.Buffer.Release()
	}
	c.Body, c.Buffer, c.Fault = nil, nil, ExpectedCRLF
}

// bodySpace returns the free part of r.body, which is never empty while bytes are missing.
// When it is used up, r.body grows to at most twice its size. So a peer that announces a
// gigabyte makes the Reader allocate a small multiple of what it has sent.
func (r *Reader) bodySpace() []byte {
	if r.got == len(r.body) {
		old, buf := r.body, r.bodyBuf
		r.body, r.bodyBuf = r.newBody(grown(len(old), int(r.pending.size)))
		copy(r.body, old)
		if buf != nil {
			buf.Release()
		}
	}
	return r.body[r.got:]
}

// grown returns the next size of the memory for a body of size bytes after have bytes: the
// size, or half of it, or half of that, and so on. So the last step doubles too, and does
// not copy nearly everything to add a few bytes.
func grown(have, size int) int {
	for size > 2*have {
		size = (size + 1) / 2
	}
	return size
}
