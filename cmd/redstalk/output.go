package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// onTerminal reports whether an input or output is a terminal.
func onTerminal(w any) bool {
	if _, ok := w.(*terminal); ok {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminal is an output on a terminal. Control characters in its input are escaped, since it
// can come from servers and jobs. The program's own control sequences bypass it, see raw.
type terminal struct {
	file *os.File
	mu   sync.Mutex // guards rest
	rest []byte     // the first bytes of an incomplete character
}

// safeOutput returns an output that escapes control characters if w is a terminal.
func safeOutput(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && onTerminal(f) {
		return &terminal{file: f}
	}
	return w
}

// raw is the output without escaping.
func raw(w io.Writer) io.Writer {
	if t, ok := w.(*terminal); ok {
		return t.file
	}
	return w
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.rest, p...)
	end := len(all) - partOfRune(all)
	t.rest = bytes.Clone(all[end:])
	if _, err := io.WriteString(t.file, printable(all[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// partOfRune returns the number of bytes at the end of b that are the beginning of an incomplete
// character.
func partOfRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// result prints a value as JSON with --json, and with the function otherwise.
func (t *task) result(value any, plain func(w io.Writer) error) error {
	if t.Bool("json") {
		return t.printJSON(value)
	}
	return plain(t.out)
}

// printJSON prints a value as JSON on one line.
func (t *task) printJSON(value any) error {
	line, err := lineOf(value)
	if err == nil {
		_, err = t.out.Write(line)
	}
	return outputError(err)
}

// lineOf returns a value as JSON, with a LF.
func lineOf(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return out.Bytes(), err
}

// outputError wraps the error of writing the result, so that it is not taken for one of the connection.
func outputError(err error) error {
	if err != nil {
		return failure{exitFailed, fmt.Errorf("writing the result: %w", err)}
	}
	return nil
}

// printDone prints a line of text, or with --json the value.
func (t *task) printDone(value any, format string, args ...any) error {
	return t.result(value, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return outputError(err)
	})
}

// table is text in columns.
type table struct {
	head []string
	rows [][]string
	left int // the number of left-aligned columns; the others are numbers, but
	text int // if it is not 0, the columns from this one on are left-aligned, too
}

func (b *table) add(cells ...string) { b.rows = append(b.rows, cells) }

// widths returns the width of each column in characters.
func (b *table) widths() []int {
	widths := make([]int, len(b.head))
	for _, row := range append([][]string{b.head}, b.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// line formats one row, without trailing spaces.
func (b *table) line(row []string, widths []int) string {
	var line strings.Builder
	for i, cell := range row {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i > 0 {
			line.WriteString("  ")
		}
		if i < b.left || b.text > 0 && i >= b.text {
			line.WriteString(cell + space)
		} else {
			line.WriteString(space + cell)
		}
	}
	return strings.TrimRight(line.String(), " ")
}

func (b *table) print(w io.Writer) error {
	widths := b.widths()
	var out bytes.Buffer
	for _, row := range append([][]string{b.head}, b.rows...) {
		out.WriteString(b.line(row, widths) + "\n")
	}
	_, err := w.Write(out.Bytes())
	return outputError(err)
}

// printRows prints the table without its head.
func (b *table) printRows(w io.Writer) error {
	widths := b.widths()
	for _, row := range b.rows {
		if _, err := fmt.Fprintln(w, b.line(row, widths)); err != nil {
			return outputError(err)
		}
	}
	return nil
}

// printBody writes a body unchanged, or on a terminal with a LF.
func (t *task) printBody(body []byte) error {
	if onTerminal(t.out) {
		body = append(bytes.Clone(body), '\n')
	}
	_, err := t.out.Write(body)
	return outputError(err)
}

// printable returns a body with control characters and bytes that are not UTF-8 in Go escapes.
func printable(body []byte) string {
	var out strings.Builder
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, body[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		body = body[n:]
	}
	return out.String()
}

// unquoted returns a value of a page without quotes, if it has any.
func unquoted(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t").Replace(value[1 : len(value)-1])
}

// flowEntry matches an entry of a map in flow style whose values are in quotes.
var flowEntry = regexp.MustCompile(`([A-Za-z0-9_-]+): ("(?:[^"\\]|\\.)*")`)

// flowMap returns the entries of such a map, nil if there are none.
func flowMap(value string) map[string]string {
	var all map[string]string
	for _, m := range flowEntry.FindAllStringSubmatch(value, -1) {
		if all == nil {
			all = make(map[string]string)
		}
		all[m[1]] = unquoted(m[2])
	}
	return all
}
