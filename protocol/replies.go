package protocol

import "strconv"

// Done answers a command that was carried out and whose reply is nothing but a word: Spec.Done.
func (w *Writer) Done(v Verb) { w.word(table[v].Done) }

// Inserted answers put: "INSERTED id".
func (w *Writer) Inserted(id uint64) { w.number("INSERTED", id) }

// InsertedAs answers a put of a key that a job already has: "INSERTED id STATE", with
// the id and state of that job. state is in capitals, such as READY or GONE.
func (w *Writer) InsertedAs(id uint64, state string) {
	w.begin("INSERTED", id)
	w.buf = append(w.buf, ' ')
	w.buf = append(w.buf, state...)
	w.buf = append(w.buf, '\r', '\n')
}

// Duplicate answers a put that fails because of its key: "DUPLICATE id", with the id of
// the job that has the key.
func (w *Writer) Duplicate(id uint64) { w.number("DUPLICATE", id) }

// BuriedPut answers a put whose job was buried at once because memory or disk is
// full: "BURIED id".
func (w *Writer) BuriedPut(id uint64) { w.number("BURIED", id) }

// Reserved answers the reserve commands: "RESERVED id n", body. The body is not
// always copied: it must not change before buf is released, which the Writer or its
// destination does once; if buf is nil, it must never change.
func (w *Writer) Reserved(id uint64, body []byte, buf Releaser) { w.job("RESERVED", id, body, buf) }

// ReservedInfo is Reserved, or with a lease Leased, with a page about the job:
// "RESERVED id n m" or "LEASED id lease n m", body, info. It does not keep info.
func (w *Writer) ReservedInfo(id, lease uint64, body []byte, buf Releaser, info []byte) {
	if lease == 0 {
		w.begin("RESERVED", id)
	} else {
		w.begin("LEASED", id)
		w.buf = append(w.buf, ' ')
		w.buf = AppendLease(w.buf, lease)
	}
	w.bodies(body, buf, info)
}

// ReservedBatch answers reserve-batch: "RESERVED_BATCH n"; then n times Reserved.
func (w *Writer) ReservedBatch(n int) { w.number("RESERVED_BATCH", uint64(n)) }

// DeletedBatch answers delete-batch: "DELETED_BATCH deleted missing"; missing is how
// many of the ids were NOT_FOUND.
func (w *Writer) DeletedBatch(deleted, missing int) {
	w.begin("DELETED_BATCH", uint64(deleted))
	w.buf = append(w.buf, ' ')
	w.buf = strconv.AppendUint(w.buf, uint64(missing), 10)
	w.buf = append(w.buf, '\r', '\n')
}

// Leased answers reserve-lease: "LEASED id lease n", body. For body and buf see
// Reserved.
func (w *Writer) Leased(id, lease uint64, body []byte, buf Releaser) {
	w.begin("LEASED", id)
	w.buf = append(w.buf, ' ')
	w.buf = AppendLease(w.buf, lease)
	w.body(body, buf)
}

// Found answers the peek commands and find: "FOUND id n", body. For body and buf see
// Reserved.
func (w *Writer) Found(id uint64, body []byte, buf Releaser) { w.job("FOUND", id, body, buf) }

// BatchSealed answers a put of a member of a batch that is sealed: "BATCH_SEALED".
func (w *Writer) BatchSealed() { w.word("BATCH_SEALED") }

// Cancelled answers cancel-batch: "CANCELLED n"; n is how many jobs were removed.
func (w *Writer) Cancelled(n int) { w.number("CANCELLED", uint64(n)) }

// Ended answers wait-job: "ENDED id how n", body.
func (w *Writer) Ended(id uint64, how string, body []byte) {
	w.begin("ENDED", id)
	w.buf = append(w.buf, ' ')
	w.buf = append(w.buf, how...)
	w.body(body, nil)
}

// NotKept says that no record of the job will be kept: "NOT_KEPT".
func (w *Writer) NotKept() { w.word("NOT_KEPT") }

// FlushedJobs answers flush-tube: "FLUSHED n".
func (w *Writer) FlushedJobs(n uint64) { w.number("FLUSHED", n) }

// Moved answers move-jobs: "MOVED n".
func (w *Writer) Moved(n uint64) { w.number("MOVED", n) }

// Kicked answers kick: "KICKED n"; n is how many were kicked.
func (w *Writer) Kicked(n uint64) { w.number("KICKED", n) }

// NotFound says that there is no such job or tube, that the job is not in a
// state for the command, or that another connection holds it.
func (w *Writer) NotFound() { w.word("NOT_FOUND") }

// Using answers use and list-tube-used: "USING name".
func (w *Writer) Using(name string) {
	w.last = "USING"
	w.buf = append(w.buf, "USING "...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '\r', '\n')
}

// Watching answers watch and ignore: "WATCHING n"; n is how many tubes the
// connection watches now.
func (w *Writer) Watching(n int) { w.number("WATCHING", uint64(n)) }

// NotIgnored answers an ignore of the only tube watched.
func (w *Writer) NotIgnored() { w.word("NOT_IGNORED") }

// TimedOut answers a reserve that got no job within its timeout.
func (w *Writer) TimedOut() { w.word("TIMED_OUT") }

// DeadlineSoon answers a reserve of a connection that holds a job whose TTR is
// about to run out.
func (w *Writer) DeadlineSoon() { w.word("DEADLINE_SOON") }

// Draining answers a put while the server accepts no new jobs.
func (w *Writer) Draining() { w.word("DRAINING") }

// BadFormat answers a line that is malformed.
func (w *Writer) BadFormat() { w.word("BAD_FORMAT") }

// UnknownCommand answers a line that begins with no known word.
func (w *Writer) UnknownCommand() { w.word("UNKNOWN_COMMAND") }

// JobTooBig answers a put above the size limit.
func (w *Writer) JobTooBig() { w.word("JOB_TOO_BIG") }

// ExpectedCRLF answers a put whose body does not end in CRLF.
func (w *Writer) ExpectedCRLF() { w.word("EXPECTED_CRLF") }

// OutOfMemory says that there is no room for the request.
func (w *Writer) OutOfMemory() { w.word("OUT_OF_MEMORY") }

// Unauthorized answers an auth with a wrong user or secret.
func (w *Writer) Unauthorized() { w.word("UNAUTHORIZED") }

// Forbidden says that the user of the connection, or this server, must not do that.
func (w *Writer) Forbidden() { w.word("FORBIDDEN") }

// InternalError says that the server could not carry out the command.
func (w *Writer) InternalError() { w.word("INTERNAL_ERROR") }

// Fault answers a command with a Fault. With NoFault, which is a mistake of the caller,
// it answers INTERNAL_ERROR: a missing reply would shift all later ones.
func (w *Writer) Fault(f Fault) {
	if f.String() == "" {
		w.InternalError()
		return
	}
	w.word(f.String())
}

// OK answers the stats and list commands: "OK n", page. The page is copied, so
// a [Page] can be reused at once.
func (w *Writer) OK(page []byte) {
	w.number("OK", uint64(len(page)))
	w.buf = append(w.buf, page...)
	w.buf = append(w.buf, '\r', '\n')
}
