package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// topHelp is what ? shows.
var topHelp = []string{
	"arrows, page up, page down   move",
	"enter                        show the tube, or go back",
	"n r d u                      sort by name, ready, delayed,",
	"                             reserved (in use),",
	"b w p x                      buried, waiting, puts or deletes",
	"?                            show or hide this",
	"q                            end",
}

// runLive shows the table on the alternate screen of the terminal and handles keys, until q.
func (s *screen) runLive() error {
	in := s.in.(*os.File)
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("reading keys from the terminal: %w", err)
	}
	fmt.Fprint(raw(s.stdio.out), "\x1b[?1049h\x1b[?25l")
	defer func() {
		fmt.Fprint(raw(s.stdio.out), "\x1b[?25h\x1b[?1049l")
		term.Restore(int(in.Fd()), before)
	}()
	ticker := time.NewTicker(s.duration("every"))
	defer ticker.Stop()
	keys, ended := readKeys(in)
	for fresh := true; ; {
		if fresh {
			done := make(chan error, 1)
			go func() { done <- s.refreshLive() }()
			select {
			case err := <-done:
				if err != nil {
					return err
				}
			case <-ended: // the server may be slow to answer, or never do
				return nil
			case <-s.Context.Context.Done():
				return nil
			}
		}
		s.draw()
		if most := s.Int("count"); most > 0 && s.refreshes >= most {
			return nil
		}
		select {
		case <-ticker.C:
			fresh = true
		case <-ended:
			return nil
		case key := <-keys:
			open := s.open
			if s.handleKey(key) {
				return nil
			}
			fresh = s.open != open
		case <-s.Context.Context.Done():
			return nil
		}
	}
}

// refreshLive requests what is shown.
func (s *screen) refreshLive() error {
	if err := s.refresh(); err != nil || s.open == "" {
		return err
	}
	var err error
	s.about, err = s.describeTube(s.open)
	return err
}

// describeTube returns lines about a tube: its statistics, and the first jobs of each state if the server can list
// them.
func (s *screen) describeTube(name string) (lines []string, err error) {
	page, err := s.page("reading tube "+name, "stats-tube "+name)
	if codeOf(err) == exitNothing && err != nil {
		return []string{"There is no such tube any more."}, nil
	}
	if err != nil {
		return nil, err
	}
	for key, value := range entries(page) {
		lines = append(lines, key+": "+unquoted(value))
	}
	canList, err := s.supports("list-jobs")
	if err != nil || !canList {
		return lines, err
	}
	for _, state := range states {
		jobs, _, err := s.pageOfJobs(name, state, 5, "")
		if err != nil && codeOf(err) != exitNothing {
			return lines, err
		}
		for _, j := range jobs {
			lines = append(lines, fmt.Sprintf("%s  %d  %s old  %d bytes  %s", state, j.ID, formatSeconds(j.Age), j.Size, j.Reason))
		}
	}
	return lines, nil
}

// readKeys delivers typed keys, and closes ended at one that ends the program. What is typed beyond a few keys while nobody
// takes them is dropped. Its goroutine ends with the process.
func readKeys(in *os.File) (_ <-chan string, ended <-chan struct{}) {
	keys, end := make(chan string, 64), make(chan struct{})
	go func() {
		var buf [16]byte
		for {
			n, err := in.Read(buf[:])
			if err != nil {
				return
			}
			for _, key := range splitKeys(string(buf[:n])) {
				if ends(key) {
					close(end)
					return
				}
				select {
				case keys <- key:
				default:
				}
			}
		}
	}()
	return keys, end
}

// ends reports whether a key ends the program, whatever is shown.
func ends(key string) bool { return key == "q" || key == "Q" || key == "\x03" }

// splitKeys returns the keys in what was read together. A sequence of escape, [ and what follows up to a letter or ~ is
// one key.
func splitKeys(typed string) (keys []string) {
	for typed != "" {
		n := 1
		if strings.HasPrefix(typed, "\x1b[") {
			n = 2
			for n < len(typed) && (typed[n-1] < '@' || n == 2) {
				n++
			}
		}
		keys, typed = append(keys, typed[:n]), typed[n:]
	}
	return keys
}

// handleKey handles a key, and reports whether it ends the program.
func (s *screen) handleKey(key string) (end bool) {
	_, height := s.size()
	page := max(1, height-3)
	switch key {
	case "?":
		s.help = !s.help
	case "\x1b", "\x7f", "\b":
		if s.open == "" && !s.help {
			return key == "\x1b"
		}
		s.open, s.help = "", false
	case "\r", "\n":
		switch {
		case s.open != "":
			s.open = ""
		case s.row < len(s.tubes):
			s.open = s.tubes[s.row].Name
		}
	case "\x1b[A", "k":
		s.row--
	case "\x1b[B", "j":
		s.row++
	case "\x1b[5~":
		s.row -= page
	case "\x1b[6~", " ":
		s.row += page
	default:
		if order := sortKeys[key[0]]; order != "" {
			s.order, s.row = order, 0
			s.sort()
		}
	}
	s.row = max(0, min(s.row, len(s.tubes)-1))
	s.from = max(0, min(max(s.from, s.row-page+1), s.row))
	return false
}

// size returns the size of the terminal in characters.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(raw(s.stdio.out).(*os.File).Fd()))
	if err != nil {
		return 80, 24
	}
	return width, height
}

// draw writes the whole screen in one write.
func (s *screen) draw() {
	width, height := s.size()
	var out bytes.Buffer
	out.WriteString("\x1b[H")
	for i, line := range s.lines(width, height) {
		text := printable([]byte(line.text))
		if runes := []rune(text); len(runes) > width {
			text = string(runes[:width])
		}
		if i > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "%s%s\x1b[0m\x1b[K", line.style, text)
	}
	out.WriteString("\x1b[J")
	raw(s.stdio.out).Write(out.Bytes())
}

// styled is a line with an escape sequence before it.
type styled struct{ style, text string }

const (
	reversed = "\x1b[7m"
	yellow   = "\x1b[33m"
)

// lines returns what is on the screen: at most height lines, of any length.
func (s *screen) lines(width, height int) (lines []styled) {
	what := fmt.Sprintf("%s  by %s", nounFor(len(s.tubes), "tube"), s.order)
	if s.open != "" {
		what = "tube " + s.open
	}
	lines = append(lines, styled{"", fmt.Sprintf("%s  %s  %s  (? for keys)", s.String("server"), s.at.Format(time.TimeOnly), what)})
	switch {
	case s.help:
		for _, text := range topHelp {
			lines = append(lines, styled{"", text})
		}
	case s.open != "":
		for _, text := range s.about {
			lines = append(lines, styled{"", text})
		}
	default:
		lines = append(lines, s.rows(width, height-2)...)
	}
	return lines[:min(len(lines), height)]
}

// rows returns the head of the table and up to n of its rows.
func (s *screen) rows(width, n int) (lines []styled) {
	b := s.table()
	b.narrow(width)
	widths := b.widths()
	lines = append(lines, styled{reversed, b.line(b.head, widths)})
	for i := s.from; i < min(len(b.rows), s.from+n); i++ {
		style := ""
		if s.tubes[i].Buried > 0 {
			style = yellow
		}
		if i == s.row {
			style += reversed
		}
		lines = append(lines, styled{style, b.line(b.rows[i], widths)})
	}
	return lines
}

// narrow leaves out the last columns that do not fit into a width, but not the first two.
func (b *table) narrow(width int) {
	for len(b.head) > 2 && utf8.RuneCountInString(b.line(b.head, b.widths())) > width {
		b.head = b.head[:len(b.head)-1]
		for i, row := range b.rows {
			b.rows[i] = row[:len(b.head)]
		}
	}
}
