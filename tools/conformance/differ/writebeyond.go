package differ

import (
	"fmt"
	"slices"
	"strings"
)

// This file prints extensions.

// partBeyond returns the part for a reference to a lease, a cursor or a time.
func (w *writer) partBeyond(r string) part {
	n := w.e.judgeNames()
	n.now = w.now
	text := n.resolve(r)
	if r[0] == '@' || text == noLease || text == noCursor {
		return part{text: text}
	}
	return part{name: tokenName(r)}
}

// tokenName is the name of a lease or a cursor in a transcript.
func tokenName(r string) string { return "t" + strings.ReplaceAll(r, "/", "x") }

// answerBeyond prints a reply of an extension, and reports whether it was one.
func (w *writer) answerBeyond(name string, a answer, words []string) bool {
	label := 0
	if len(words) > 1 {
		label = w.e.byLabelOfJudge(words[1])
	}
	switch {
	case words[0] == "LEASED" && label != 0:
		all := w.e.jobs[label].leases
		lease := slices.IndexFunc(all, func(p pair) bool { return p.judge == words[2] })
		fmt.Fprintf(w, "%s< LEASED $%s $%s %s\n", name, jobName(label), tokenName(fmt.Sprint(label, "/", lease)), words[3])
		fmt.Fprintf(w, "%s= %s\n", name, edges(quote(a.reply.body, false)))
	case words[0] == "DUPLICATE":
		fmt.Fprintf(w, "%s< DUPLICATE $%s\n", name, jobName(label))
	case words[0] == "RESERVED_BATCH":
		fmt.Fprintf(w, "%s< %s\n", name, a.reply.head)
		for _, one := range a.reply.parts {
			w.answer(answer{a.conn, a.to, one})
		}
	case words[0] == "OK" && a.to.verb == "list-jobs":
		w.list(name, a)
	case words[0] == "OK" && (a.to.verb == "capabilities" || a.to.verb == "get-policy"):
		fmt.Fprintf(w, "%s< OK {int}\n%s= %s\n", name, name, edges(quote(a.reply.body, false)))
	default:
		return false
	}
	return true
}

// list prints a page of list-jobs, with the ids of its jobs only.
func (w *writer) list(name string, a answer) {
	l := readList(a.reply.body)
	next := `""`
	if at := slices.IndexFunc(w.e.cursors, func(c cursor) bool { return c.judge == l.next }); at >= 0 && l.next != "" {
		next = "$" + tokenName(fmt.Sprint("c", at))
	}
	text := `---\nnext: ` + next + `\njobs:`
	for _, id := range l.ids() {
		text += `\n- \{id: $` + jobName(w.e.byLabelOfJudge(id)) + `, {any}}`
	}
	if len(l.jobs) == 0 {
		text += " []"
	}
	fmt.Fprintf(w, "%s< OK {int}\n%s= %s\n", name, name, text+`\n`)
}
