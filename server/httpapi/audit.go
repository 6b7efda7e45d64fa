package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"redstalk/protocol"
	"redstalk/server/access"
)

// administers reports whether an operation is an administrative act, see protocol.Verb.Administers.
func (row *row) administers() bool {
	return row.Method != http.MethodGet && (row.Right == protocol.MayAdmin || row.Right == rightOf(protocol.PauseGroup) && strings.HasSuffix(row.Path, "/pause"))
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
func (svc *service) logAct(w *auditedWriter, r *http.Request, row *row) {
	var target []string
	for _, name := range []string{"tube", "group", "id", "schedule", "batch"} {
		if value := r.PathValue(name); value != "" {
			target = append(target, value)
		}
	}
	user, entrance := "", "http"
	if u := access.UserIn(r.Context()); u != nil {
		user = u.Name()
	}
	if r.Header.Get(changeHeader) == consoleHeader {
		entrance = "console"
	}
	args := []any{"target", strings.Join(target, " "), "user", user, "entrance", entrance, "peer", r.RemoteAddr, "request", r.Method + " " + r.URL.RequestURI(), "result", w.status}
	if len(w.answer) <= maxAuditedAnswer && json.Valid(w.answer) {
		args = append(args, "answer", json.RawMessage(w.answer))
	}
	svc.audit.Info(row.doc.OperationID, args...)
}
