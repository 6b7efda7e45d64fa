//go:build chromium

package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
)

// This file measures how smooth the console is with very many tubes.

// frames makes the page record the duration of its frames, in ms.
const frames = `(() => {
	window.slow = [];
	new PerformanceObserver(list => list.getEntries().forEach(e => slow.push(e.duration))).observe({ type: "long-animation-frame" });
	window.gaps = [];
	let last = performance.now();
	requestAnimationFrame(function frame(now) { gaps.push(now - last); last = now; requestAnimationFrame(frame); });
	return true;
})()`

// scroll scrolls through the table to the end and back in large steps, one each frame, for at most four
// seconds. It returns the largest number of rows in the DOM.
const scroll = `new Promise(done => {
	const grid = document.querySelector("[role=grid]"), end = grid.scrollHeight;
	const begun = performance.now();
	let most = 0, y = 0, step = end / 150;
	window.steps = 0;
	requestAnimationFrame(function frame() {
		window.steps++;
		most = Math.max(most, document.querySelectorAll("[role=row]").length);
		y += step;
		if (y > end) step = -end / 100;
		if (y < 0 || performance.now() - begun > 4000) return done(most);
		grid.scrollTop = y;
		requestAnimationFrame(frame);
	});
})`

// TestManyTubes: the console is smooth with 10,000 tubes. It prints the durations of frames.
func TestManyTubes(t *testing.T) {
	const tubes = 10_000
	s := startServer(t)
	c := dial(t, s.addr)
	for i := range tubes {
		c.send("use tube-%05d\r\nput 0 0 60 1\r\nx\r\n", i)
	}
	c.flush()
	for range tubes {
		c.read("USING")
		c.read("INSERTED")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go keepMoving(ctx, s.addr, "tube-%05d", 500, 1000) // tubes, and jobs a second
	b := s.blank(t)
	begun := time.Now()
	b.goTo("")
	b.await(`document.querySelector('.row[data-id="tube-00000"]')`)
	t.Logf("all tubes were there after %v", time.Since(begun).Round(10*time.Millisecond))
	eval[bool](b, frames)
	busy := b.cpuTime()
	most := eval[int](b, scroll)
	busy = b.cpuTime() - busy
	if most > 120 {
		t.Errorf("there were %d rows in the page at a time", most)
	}
	b.fill("#filter", "tube-0999")
	b.awaitRows(10)
	b.fill("#filter", "")
	b.click("[data-sort=ready]")
	b.await(`document.querySelector("[aria-sort=descending]")`)
	got := eval[struct{ Longest, Most, Frames, Slow float64 }](b, `({ longest: Math.max(0, ...slow), most: Math.max(...gaps), frames: gaps.length, slow: slow.length })`)
	each := time.Duration(float64(busy) / scrolled(b))
	t.Logf("at most %d rows in the page; of %.0f frames, %.0f took more than 50 ms, the longest %.0f ms; the longest time between two: %.0f ms; one took %v of a processor while scrolling",
		most, got.Frames, got.Slow, got.Longest, got.Most, each.Round(time.Millisecond/10))
	if each > 100*time.Millisecond { // many times the usual duration with 10,000 tubes
		t.Errorf("a frame took %v of a processor", each)
	}
}

// scrolled returns the number of frames while scrolling.
func scrolled(b *tab) float64 { return eval[float64](b, "window.steps") }

// cpuTime returns the CPU time that the page has used. It does not depend on the load of the machine.
func (b *tab) cpuTime() time.Duration {
	b.t.Helper()
	send(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	for _, m := range send(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	b.t.Fatal("the browser does not report the CPU time of a page")
	return 0
}

// conn is a connection to the beanstalk port.
type conn struct {
	t   *testing.T
	raw net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return &conn{t, raw, bufio.NewReader(raw), bufio.NewWriter(raw)}
}

func (c *conn) send(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

func (c *conn) flush() { c.out.Flush() }

// read reads a line, which must start with a word.
func (c *conn) read(word string) string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, word) {
		c.t.Fatalf("%q, %v; want %s", line, err, word)
	}
	return line
}

// keepMoving puts, reserves and deletes jobs at a rate per second until ctx ends. The names of the tubes are a
// pattern with a number. Each tube always has some ready jobs.
func keepMoving(ctx context.Context, addr, pattern string, tubes, rate int) {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer raw.Close()
	in, out := bufio.NewReader(raw), bufio.NewWriter(raw)
	for i := range tubes {
		fmt.Fprintf(out, "watch "+pattern+"\r\nuse "+pattern+"\r\n", i, i)
		for range 20 {
			fmt.Fprint(out, "put 9 0 60 5\r\nhello\r\n")
		}
	}
	if out.Flush() != nil || skip(in, tubes*22) != nil {
		return
	}
	const perSecond = 50
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for round := 0; ctx.Err() == nil; round++ {
		<-tick.C
		if burst(in, out, fmt.Sprintf(pattern, round%tubes), rate/perSecond) != nil {
			return
		}
	}
}

// skip reads n lines.
func skip(in *bufio.Reader, n int) error {
	for range n {
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

// burst puts n jobs, then reserves and deletes as many.
func burst(in *bufio.Reader, out *bufio.Writer, tube string, n int) error {
	fmt.Fprintf(out, "use %s\r\n", tube)
	for range n {
		fmt.Fprint(out, "put 9 0 60 5\r\nhello\r\n")
	}
	for range n {
		fmt.Fprint(out, "reserve-with-timeout 0\r\n")
	}
	out.Flush()
	if err := skip(in, 1+n); err != nil {
		return err
	}
	for range n {
		line, err := in.ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) != 3 {
			return fmt.Errorf("%q: %w", line, err)
		}
		if err := skip(in, 1); err != nil {
			return err
		}
		fmt.Fprintf(out, "delete %s\r\n", words[1])
	}
	out.Flush()
	return skip(in, n)
}
