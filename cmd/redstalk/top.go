package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name: "top", Action: withConn(noArguments, top),
		Usage:       "show the tubes and their rates, live",
		Description: "Keys: ? shows the keys. On a narrow terminal the last columns are left out. With --json each update is a line.",
		Flags: []cli.Flag{
			&cli.GenericFlag{Name: "every", Value: &duration{2 * time.Second}, Usage: "`DURATION` between updates"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "end after `N` updates; 0 for no limit on a terminal, 1 elsewhere"},
			filterFlag(),
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
	tubes     []tubeRates
	last      map[string]tubeStats
	at        time.Time // of last
	refreshes int

	// Of a live screen:
	from, row int      // the first visible row, and the one on which the cursor is
	open      string   // the tube that is shown; "": the table is
	about     []string // the lines about that tube
	help      bool     // the keys are shown
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
		s.tubes = append(s.tubes, m)
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
