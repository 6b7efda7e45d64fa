package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name: "top", Action: withConn(noArguments, top),
		Usage: "show the tubes and their rates, live",
		Description: "Keys: q ends, arrow keys and page up and down move, n r d u b w p sort by name, ready, delayed, reserved (in use), buried, waiting or puts a second. " +
			"With --json each update is a line.",
		Flags: []cli.Flag{
			&cli.GenericFlag{Name: "every", Value: &duration{2 * time.Second}, Usage: "`DURATION` between updates"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "end after `N` updates; 0 for no limit on a terminal, 1 elsewhere"},
			&cli.StringFlag{Name: "filter", Usage: "only tubes with this `TEXT` in their names"},
			&cli.StringFlag{Name: "sort", Value: "name", Usage: "sort by `COLUMN`: name, ready, delayed, reserved, buried, waiting, puts or deletes"},
		},
	}
}

// tubeRates is a tube with its rates since the last update.
type tubeRates struct {
	tubeStats
	PutRate    float64 `json:"puts_per_second"`
	DeleteRate float64 `json:"deletes_per_second"`
}

// orders are the orders in which tubes can be shown. Numbers are in descending order.
var orders = map[string]func(a, b *tubeRates) int{
	"name":     func(a, b *tubeRates) int { return 0 },
	"ready":    func(a, b *tubeRates) int { return cmp.Compare(b.Ready, a.Ready) },
	"delayed":  func(a, b *tubeRates) int { return cmp.Compare(b.Delayed, a.Delayed) },
	"reserved": func(a, b *tubeRates) int { return cmp.Compare(b.Reserved, a.Reserved) },
	"buried":   func(a, b *tubeRates) int { return cmp.Compare(b.Buried, a.Buried) },
	"waiting":  func(a, b *tubeRates) int { return cmp.Compare(b.Waiting, a.Waiting) },
	"puts":     func(a, b *tubeRates) int { return cmp.Compare(b.PutRate, a.PutRate) },
	"deletes":  func(a, b *tubeRates) int { return cmp.Compare(b.DeleteRate, a.DeleteRate) },
}

// sortKeys are the keys that select an order.
var sortKeys = map[byte]string{'n': "name", 'r': "ready", 'd': "delayed", 'u': "reserved", 'b': "buried", 'w': "waiting", 'p': "puts", 'x': "deletes"}

// screen is one run of top.
type screen struct {
	*task
	order     string
	from      int // the first visible row
	tubes     []tubeRates
	last      map[string]tubeStats
	at        time.Time // of last
	refreshes int
}

func top(t *task) error {
	s := &screen{task: t, order: t.String("sort")}
	if orders[s.order] == nil {
		return usage("--sort cannot be %q", s.order)
	}
	if t.duration("every") < time.Second/10 {
		return usage("--every must be at least 100ms")
	}
	if onTerminal(t.out) && onTerminal(t.in) && !t.Bool("json") {
		return s.runLive()
	}
	refreshes := max(1, t.Int("count"))
	for {
		if err := s.refresh(); err != nil {
			return err
		}
		if err := t.result(map[string]any{"at": s.at.UnixMilli(), "tubes": s.tubes}, s.table().print); err != nil || s.refreshes >= refreshes {
			return err
		}
		select {
		case <-time.After(t.duration("every")):
		case <-t.Context.Context.Done():
			return nil
		}
	}
}

// refresh requests the counters and computes the rates since the last ones.
func (s *screen) refresh() error {
	all, err := s.allTubes()
	if err != nil {
		return err
	}
	now := time.Now()
	passed := now.Sub(s.at).Seconds()
	s.tubes = s.tubes[:0]
	last := make(map[string]tubeStats, len(all))
	for _, tube := range all {
		m := tubeRates{tubeStats: tube}
		if before, ok := s.last[tube.Name]; ok && before.Total <= tube.Total && before.Deletes <= tube.Deletes {
			m.PutRate = float64(tube.Total-before.Total) / passed
			m.DeleteRate = float64(tube.Deletes-before.Deletes) / passed
		}
		last[tube.Name] = tube
		if strings.Contains(tube.Name, s.String("filter")) {
			s.tubes = append(s.tubes, m)
		}
	}
	s.last, s.at = last, now
	s.refreshes++
	s.sort()
	return nil
}

func (s *screen) sort() {
	slices.SortFunc(s.tubes, func(a, b tubeRates) int { return cmp.Or(orders[s.order](&a, &b), cmp.Compare(a.Name, b.Name)) })
}

func (s *screen) table() *table {
	b := &table{head: []string{"TUBE", "READY", "DELAYED", "RESERVED", "BURIED", "WAITING", "PUTS/s", "DELETES/s"}, left: 1}
	for i := range s.tubes {
		m := &s.tubes[i]
		name := m.Name
		if m.Paused > 0 {
			name += " (paused " + formatSeconds(int64(m.Paused)) + ")"
		}
		b.add(name, grouped(m.Ready), grouped(m.Delayed), grouped(m.Reserved), grouped(m.Buried), grouped(m.Waiting), rate(m.PutRate), rate(m.DeleteRate))
	}
	return b
}

func rate(r float64) string {
	if r > 0 && r < 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return grouped(uint64(r + 0.5))
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
	keys := readKeys(in)
	for fresh := true; ; {
		if fresh {
			if err := s.refresh(); err != nil {
				return err
			}
		}
		s.draw()
		if most := s.Int("count"); most > 0 && s.refreshes >= most {
			return nil
		}
		select {
		case <-ticker.C:
			fresh = true
		case key := <-keys:
			fresh = false
			if s.handleKey(key) {
				return nil
			}
		case <-s.Context.Context.Done():
			return nil
		}
	}
}

// readKeys delivers typed keys. Its goroutine ends with the process.
func readKeys(in *os.File) <-chan string {
	keys := make(chan string)
	go func() {
		var buf [16]byte
		for {
			n, err := in.Read(buf[:])
			if err != nil {
				return
			}
			keys <- string(buf[:n])
		}
	}()
	return keys
}

// handleKey handles a key, and reports whether it ends the program.
func (s *screen) handleKey(key string) (end bool) {
	page := max(1, s.height()-3)
	switch key {
	case "q", "Q", "\x03", "\x1b":
		return true
	case "\x1b[A", "k":
		s.from--
	case "\x1b[B", "j":
		s.from++
	case "\x1b[5~":
		s.from -= page
	case "\x1b[6~", " ":
		s.from += page
	default:
		if order := sortKeys[key[0]]; order != "" {
			s.order, s.from = order, 0
			s.sort()
		}
	}
	s.from = max(0, min(s.from, len(s.tubes)-page))
	return false
}

func (s *screen) height() int {
	_, height, err := term.GetSize(int(raw(s.stdio.out).(*os.File).Fd()))
	if err != nil {
		return 24
	}
	return height
}

// draw writes the whole screen in one write.
func (s *screen) draw() {
	width, height, err := term.GetSize(int(raw(s.stdio.out).(*os.File).Fd()))
	if err != nil {
		width, height = 80, 24
	}
	b := s.table()
	widths := b.widths()
	var out bytes.Buffer
	row := func(style, text string) {
		text = printable([]byte(text))
		if runes := []rune(text); len(runes) > width {
			text = string(runes[:width])
		}
		fmt.Fprintf(&out, "%s%s\x1b[0m\x1b[K\r\n", style, text)
	}
	out.WriteString("\x1b[H")
	row("", fmt.Sprintf("%s  %s  %s  by %s  (q ends)", s.String("server"), s.at.Format(time.TimeOnly), nounFor(len(s.tubes), "tube"), s.order))
	row("\x1b[7m", b.line(b.head, widths))
	for i := s.from; i < min(len(b.rows), s.from+height-3); i++ {
		style := ""
		if s.tubes[i].Buried > 0 {
			style = "\x1b[33m"
		}
		row(style, b.line(b.rows[i], widths))
	}
	out.WriteString("\x1b[J")
	raw(s.stdio.out).Write(out.Bytes())
}
