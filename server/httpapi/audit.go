package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

// administers reports whether an operation is an administrative act, see protocol.Verb.Administers.
func (row *row) administers() bool {
	return row.Method != http.MethodGet && (row.Right == protocol.MayAdmin || row.Right == rightOf(protocol.PauseGroup) && strings.HasSuffix(row.Path, "/pause"))
}

// deletes reports whether an operation can delete a job that its client has not reserved.
func (row *row) deletes() bool {
	return row.Right == protocol.MayWork && (row.Method == http.MethodDelete || row.Path == "/v1/jobs/finish")
}

// actNote is what a handler says about an act, beyond the request.
type actNote struct {
	verb   string   // "": the id of the operation
	ids    []uint64 // jobs, at most maxAuditedJobs
	count  int      // of jobs
	tubes  []string // of these jobs
	values any      // nil: none
}

// maxAuditedJobs is how many jobs an act names.
const maxAuditedJobs = 100

type actKey struct{}

// actIn returns the note of a request; nil if nobody wants to know.
func actIn(ctx context.Context) *actNote {
	note, _ := ctx.Value(actKey{}).(*actNote)
	return note
}

// noteJobs notes, before it happens, what an act does to jobs.
func (svc *service) noteJobs(ctx context.Context, verb string, ids ...uint64) {
	note := actIn(ctx)
	if note == nil || len(ids) == 0 {
		return
	}
	note.verb, note.count, note.ids = verb, len(ids), slices.Clone(ids[:min(len(ids), maxAuditedJobs)])
	lookups := make([]storage.Op, len(note.ids))
	for i, id := range note.ids {
		lookups[i] = storage.Op{Kind: storage.JobStats, ID: id}
	}
	answers, err := svc.queue.Do(ctx, lookups...)
	if err != nil {
		return // then the act fails, too
	}
	for i := range answers {
		if job := answers[i].Job; job != nil && !slices.Contains(note.tubes, job.Tube) {
			note.tubes = append(note.tubes, job.Tube)
		}
	}
}

// args returns the note as arguments of a log.
func (n *actNote) args() (args []any) {
	if n.count > 0 {
		args = append(args, "tube", strings.Join(n.tubes, " "), "ids", n.ids)
	}
	if n.count > len(n.ids) {
		args = append(args, "jobs", n.count)
	}
	if n.values != nil {
		args = append(args, "values", n.values)
	}
	return args
}

// beginAct returns a request and a writer for an operation that may be an act, and what logs it at the end.
func (svc *service) beginAct(w http.ResponseWriter, r *http.Request, row *row) (http.ResponseWriter, *http.Request, func()) {
	if svc.audit == nil || !row.administers() && !row.deletes() {
		return w, r, func() {}
	}
	note, audited := new(actNote), &auditedWriter{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), actKey{}, note))
	if id, err := strconv.ParseUint(r.PathValue("id"), 10, 64); err == nil && row.administers() {
		svc.noteJobs(r.Context(), "", id)
	}
	return audited, r, func() {
		if row.administers() || note.verb != "" {
			svc.logAct(audited, r, row, note)
		}
	}
}

// maxAuditedAnswer is the longest answer that is part of a line, in bytes.
const maxAuditedAnswer = 512

// auditedWriter remembers the status and the beginning of an answer.
type auditedWriter struct {
	http.ResponseWriter
	status int
	answer []byte
}

func (w *auditedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *auditedWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.answer = append(w.answer, b[:min(len(b), maxAuditedAnswer+1-len(w.answer))]...)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *auditedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// logAct logs an administrative act.
func (svc *service) logAct(w *auditedWriter, r *http.Request, row *row, note *actNote) {
	var target []string
	for _, name := range []string{"tube", "group", "id", "schedule", "batch"} {
		if value := r.PathValue(name); value != "" {
			target = append(target, value)
		}
	}
	user, person, entrance := "", "", "http"
	if u := access.UserIn(r.Context()); u != nil {
		user, person = u.Name(), u.Person()
	}
	if r.Header.Get(changeHeader) == consoleHeader {
		entrance = "console"
	}
	args := []any{"target", strings.Join(target, " "), "user", user, "entrance", entrance, "peer", r.RemoteAddr, "request", r.Method + " " + r.URL.RequestURI(), "result", w.status}
	if person != "" {
		args = append(args, "person", person)
	}
	if len(w.answer) <= maxAuditedAnswer && json.Valid(w.answer) {
		args = append(args, "answer", json.RawMessage(w.answer))
	}
	svc.audit.Info(cmp.Or(note.verb, row.doc.OperationID), append(args, note.args()...)...)
}
