package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

// The plot's dimensions, in pixels.
const (
	barWidth   = 32
	groupGap   = 34
	plotHeight = 300
	plotTop    = 60
	plotLeft   = 84
	belowPlot  = 58
	legendStep = 150
)

// palette has the colours of the servers; they differ in lightness too.
var palette = []string{"#4878a8", "#e0902f", "#5b9e5b", "#b84b4b", "#7d67a8", "#8a8a8a"}

// A plot is the layout of rows: a group of bars per load, a bar per server.
type plot struct {
	rows    []row
	loads   []string
	servers []string
	top     float64 // ops/s at the plot's top
	step    float64 // ops/s between grid lines
}

func newPlot(rows []row) *plot {
	p := &plot{rows: rows}
	highest := 0.0
	for i := range rows {
		if !slices.Contains(p.loads, rows[i].load) {
			p.loads = append(p.loads, rows[i].load)
		}
		if !slices.Contains(p.servers, rows[i].server) {
			p.servers = append(p.servers, rows[i].server)
		}
		highest = max(highest, rows[i].max)
	}
	p.step = niceStep(highest / 6)
	p.top = p.step * math.Ceil(max(highest, 1)/p.step)
	return p
}

// niceStep returns the smallest of 1, 2, 5, 10, 20, ... that is at least v.
func niceStep(v float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5} {
		if m*step >= v {
			return m * step
		}
	}
	return 10 * step
}

func (p *plot) groupWidth() int { return len(p.servers)*barWidth + groupGap }

func (p *plot) width() int {
	bars := plotLeft + max(len(p.loads), 1)*max(p.groupWidth(), 100) + 20
	return max(bars, plotLeft+len(p.servers)*legendStep)
}

// y returns the height on the page of a throughput.
func (p *plot) y(ops float64) float64 {
	return plotTop + plotHeight*(1-ops/p.top)
}

// writeSVG draws throughput by load and server as bars, with a line over each
// from the least round to the greatest.
func writeSVG(w io.Writer, rows []row) {
	p := newPlot(rows)
	height := plotTop + plotHeight + belowPlot
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="13" fill="#222">`+"\n", p.width(), height, p.width(), height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", p.width(), height)
	fmt.Fprintf(w, `<text x="%d" y="20" font-size="15">Commands per second, by load and server</text>`+"\n", plotLeft)
	p.legend(w)
	p.axis(w)
	for i := range p.rows {
		p.bar(w, &p.rows[i])
	}
	for i, name := range p.loads {
		x := p.groupLeft(i) + len(p.servers)*barWidth/2
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
			x, plotTop+plotHeight+20, html.EscapeString(name))
	}
	fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="middle" fill="#555">load</text>`+"\n",
		(plotLeft+p.width())/2, plotTop+plotHeight+44)
	fmt.Fprintln(w, `</svg>`)
}

// groupLeft returns where the bars of the i-th load begin.
func (p *plot) groupLeft(i int) int {
	return plotLeft + groupGap/2 + i*max(p.groupWidth(), 100)
}

// legend draws the colours and names of the servers.
func (p *plot) legend(w io.Writer) {
	for i, name := range p.servers {
		x := plotLeft + i*legendStep
		fmt.Fprintf(w, `<rect x="%d" y="31" width="13" height="13" fill="%s"/>`, x, palette[i%len(palette)])
		fmt.Fprintf(w, `<text x="%d" y="42">%s</text>`+"\n", x+19, html.EscapeString(name))
	}
}

// axis draws the grid and its labels, in thousands of operations a second.
func (p *plot) axis(w io.Writer) {
	for i := 0; float64(i)*p.step <= p.top; i++ {
		ops := float64(i) * p.step
		y := p.y(ops)
		fmt.Fprintf(w, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, plotLeft, p.width()-10, y, y)
		fmt.Fprintf(w, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft-8, y+4, short(ops))
	}
	middle := plotTop + plotHeight/2
	fmt.Fprintf(w, `<text x="18" y="%d" text-anchor="middle" fill="#555" transform="rotate(-90 18 %d)">ops/s</text>`+"\n",
		middle, middle)
}

// short writes a throughput in few characters: 950, 1.5k, 120k, 2.4M.
func short(ops float64) string {
	switch {
	case ops >= 1e6:
		return fmt.Sprintf("%.3gM", ops/1e6)
	case ops >= 1e3:
		return fmt.Sprintf("%.3gk", ops/1e3)
	}
	return fmt.Sprintf("%.3g", ops)
}

// bar draws one row's bar, its extremes and its figure.
func (p *plot) bar(w io.Writer, r *row) {
	s := slices.Index(p.servers, r.server)
	x := p.groupLeft(slices.Index(p.loads, r.load)) + s*barWidth
	y, middle := p.y(r.ops), x+barWidth/2-1
	fmt.Fprintf(w, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"><title>%s, %s: %.0f ops/s</title></rect>`,
		x, y, barWidth-3, plotTop+plotHeight-y, palette[s%len(palette)],
		html.EscapeString(r.load), html.EscapeString(r.server), r.ops)
	fmt.Fprintf(w, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#222"/>`, middle, middle, p.y(r.min), p.y(r.max))
	fmt.Fprintf(w, `<text x="%d" y="%.1f" text-anchor="middle" font-size="10">%s</text>`+"\n",
		middle, p.y(r.max)-4, short(r.ops))
}
