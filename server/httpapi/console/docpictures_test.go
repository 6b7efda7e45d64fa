//go:build chromium

package console_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// This file takes the screenshots of the documentation, from a server with the queues of a shop.

var (
	docPictures = flag.String("doc-pictures", "", "the `directory` for the screenshots of the documentation; \"\" skips them")
	shopFor     = flag.Duration("shop-for", time.Minute, "for what `duration` the shop runs before the screenshots: charts have a point every 10 s")
)

// maxPictureBytes is the maximum size of a screenshot.
const maxPictureBytes = 150_000

// queue is a queue of the shop.
type queue struct {
	name  string
	rate  float64       // jobs a second
	work  time.Duration // how long a job takes
	hands int           // workers
	body  func(i int) string
}

var customers = []string{"Ann Berger", "Tomás Ruiz", "Zoë Lind", "Wei Chen", "Fatima Noor", "Jonas Weiss", "Priya Nair", "Luca Conti"}

func order(i int) string { return fmt.Sprintf("2026-%06d", 418_200+i*7) }

// queues are the queues of the shop.
var queues = []queue{
	{"emails", 9, 110 * time.Millisecond, 2, func(i int) string {
		c := customers[i%len(customers)]
		return fmt.Sprintf(`{"template":"order-confirmed","to":{"name":%q,"address":"customer%d@example.org"},"order":{"number":%q,"lines":[{"sku":"LAMP-%d","count":1,"price":"39.00"},{"sku":"BULB-E27","count":%d,"price":"4.50"}],"gift":%v},"locale":"en","attempt":null}`, c, i, order(i), i%90+10, i%4+1, i%5 == 0)
	}},
	{"emails.newsletter", 22, 40 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"campaign":"autumn","customer":%d}`, 90_000+i) }},
	{"invoices", 4, 180 * time.Millisecond, 1, func(i int) string {
		return fmt.Sprintf(`{"order":%q,"total":"%d.90","currency":"EUR"}`, order(i), i%300+20)
	}},
	{"invoices.archive", 3, 20 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"order":%q}`, order(i)) }},
	{"thumbnails", 12, 240 * time.Millisecond, 3, func(i int) string { return fmt.Sprintf(`{"image":"products/%d.jpg","sizes":[160,320,640]}`, 5000+i) }},
	{"videos", 0.4, 4 * time.Second, 1, func(i int) string { return fmt.Sprintf(`{"source":"uploads/%d.mov","profile":"1080p"}`, i) }},
	{"search-index", 30, 15 * time.Millisecond, 2, func(i int) string { return fmt.Sprintf(`{"product":%d}`, i*13%9000) }},
	{"stock", 18, 30 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"sku":"LAMP-%d","delta":-%d}`, i%90+10, i%3+1) }},
	{"payments", 5, 90 * time.Millisecond, 2, func(i int) string { return fmt.Sprintf(`{"order":%q,"method":"card"}`, order(i)) }},
	{"refunds", 0.6, 300 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"order":%q,"reason":"returned"}`, order(i)) }},
	{"shipping-labels", 4, 150 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"order":%q,"carrier":"dhl"}`, order(i)) }},
	{"webhooks", 14, 70 * time.Millisecond, 2, func(i int) string { return fmt.Sprintf(`{"event":"order.paid","order":%q}`, order(i)) }},
	{"sms", 1.5, 100 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"to":"+49 30 55%05d","text":"Your parcel is on its way"}`, i) }},
	{"analytics", 45, 5 * time.Millisecond, 1, func(i int) string { return fmt.Sprintf(`{"event":"view","page":"/p/%d"}`, i*7%900) }},
	{"reports", 0.2, 2 * time.Second, 1, func(i int) string { return fmt.Sprintf(`{"report":"sales","day":%d}`, i) }},
}

// open starts a producer and the workers of a queue. They run until ctx ends.
func (q *queue) open(ctx context.Context, addr string) {
	go q.produce(ctx, addr)
	for i := range q.hands {
		go q.consume(ctx, addr, fmt.Sprintf("%s-%d", q.name, i+1))
	}
}

// produce puts jobs at a rate that varies.
func (q *queue) produce(ctx context.Context, addr string) {
	c, err := beanstalk.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	tube, begun, phase := beanstalk.NewTube(c, q.name), time.Now(), rand.Float64()*6
	for i := 0; ctx.Err() == nil; i++ {
		wave := 1 + 0.5*math.Sin(phase+time.Since(begun).Seconds()/25) + 0.25*math.Sin(2*phase+time.Since(begun).Seconds()/7)
		pri, delay := uint32(1024), time.Duration(0)
		if i%23 == 0 {
			pri = 100
		}
		if i%31 == 0 {
			delay = time.Duration(rand.IntN(40)+5) * time.Minute
		}
		if _, err := tube.Put([]byte(q.body(i)), pri, delay, time.Minute); err != nil {
			return
		}
		sleep(ctx, time.Duration(rand.ExpFloat64()/(q.rate*wave)*float64(time.Second)))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// consume works on jobs over a connection with a name. It buries one in 400.
func (q *queue) consume(ctx context.Context, addr, name string) {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer raw.Close()
	fmt.Fprintf(raw, "client %s\r\n", name)
	if skip(bufio.NewReader(raw), 1) != nil {
		return
	}
	c := beanstalk.NewConn(raw)
	tubes := beanstalk.NewTubeSet(c, q.name)
	for ctx.Err() == nil {
		id, _, err := tubes.Reserve(2 * time.Second)
		if err != nil {
			continue
		}
		sleep(ctx, time.Duration((0.6+rand.Float64()*0.8)*float64(q.work)))
		if rand.IntN(400) == 0 {
			c.Bury(id, 1024)
			continue
		}
		c.Delete(id)
	}
}

// reasons say why the jobs of some queues fail; "" is for no reason.
var reasons = map[string][]string{
	"payments":        {"402 the card was declined", "timeout after 30s: api.cards.example", ""},
	"refunds":         {"409 this order was refunded already"},
	"shipping-labels": {"422 the postal code 1011 AB does not match Amsterdam", "connection refused"},
}

// fail releases n jobs of a queue with a reason.
func (s *testServer) fail(name string, n int) {
	s.t.Helper()
	for i, job := range s.reserve(name, n) {
		path := fmt.Sprintf("/v1/jobs/%d/release?lease=%s", job.ID, job.Lease)
		if why := reasons[name][i%len(reasons[name])]; why != "" {
			path += "&reason=" + url.QueryEscape(why)
		}
		s.call("POST", path, nil, nil)
	}
}

// setUpShop sets policies, pauses a tube, and leaves some jobs parked.
func setUpShop(s *testServer) {
	for _, tube := range []string{"emails", "sms"} {
		s.put(tube, terms{"group": "customer-42", "delay": "2h", "body": terms{"template": "reminder", "customer": 42}}, terms{"group": "customer-42", "delay": "3h", "body": terms{"template": "survey", "customer": 42}})
	}
	s.put("invoices", terms{"key": "customer-42-november", "delay": "8h", "body": terms{"order": order(42), "total": "39.90"}})
	s.put("videos", terms{"meta": terms{"for": "customer-42"}, "delay": "1h", "body": terms{"source": "uploads/42.mov"}})
	for name, policy := range map[string]map[string]any{
		"payments": {"retry": []string{"10s", "1m", "10m"}, "max": 5}, "webhooks": {"retry": []string{"5s", "30s"}, "max": 8, "dead": "webhooks.dead"},
		"emails": {"quota_jobs": 100_000},
	} {
		s.call("PUT", tubePath(name)+"/policy", policy, nil)
	}
	for name, n := range map[string]int{"payments": 4, "refunds": 2, "shipping-labels": 7} {
		var jobs []terms
		for i := range n {
			job := terms{"body": fmt.Sprintf(`{"order":%q,"attempt":%d}`, order(900+i), i), "max": 1, "priority": 1}
			if i%2 == 0 {
				job["key"] = "order-" + order(900+i)
			}
			if i%3 == 1 {
				delete(job, "max")
				job["retry"] = []string{"1s"}
			}
			jobs = append(jobs, job)
		}
		s.put(name, jobs...)
		s.fail(name, n)
	}
	time.Sleep(1500 * time.Millisecond)
	for _, name := range []string{"payments", "refunds", "shipping-labels"} {
		if n := int(s.tube(name).Ready); n > 0 {
			s.fail(name, n)
		}
	}
	s.put("reports", terms{"body": `{"report":"sales","day":0}`})
	s.call("POST", tubePath("reports")+"/pause?for=2h&reason=The+numbers+of+yesterday+are+checked", nil, nil)
}

// TestDocPictures takes the screenshots of the documentation.
func TestDocPictures(t *testing.T) {
	if *docPictures == "" {
		t.Skip("-args -doc-pictures takes them")
	}
	s := startServer(t, "--store", "embedded:"+t.TempDir())
	setUpShop(s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range queues {
		queues[i].open(ctx, s.addr)
	}
	time.Sleep(*shopFor)
	for _, p := range []struct {
		name, page    string
		prepare, then func(b *tab)
	}{
		{name: "overview"},
		{name: "overview-dark", prepare: func(b *tab) { b.theme("dark") }},
		{name: "overview-phone", prepare: (*tab).phone},
		{name: "tube", page: "#/tube/emails", then: func(b *tab) { b.inState("delayed") }},
		{name: "job", page: "#/tube/emails", then: func(b *tab) {
			b.inState("delayed")
			b.openJob(s.jobs("emails", "delayed")[0].ID)
		}},
		{name: "put", page: "#/put/invoices", prepare: (*tab).tall, then: fillOrder},
		{name: "parked", page: "#/parked"},
		{name: "parked-phone", page: "#/parked", prepare: (*tab).phone},
		{name: "search", page: "#/search/customer-42"},
		{name: "workers", page: "#/workers"},
		{name: "server", page: "#/server"},
	} {
		b := s.blank(t)
		b.theme("light")
		if p.prepare != nil {
			p.prepare(b)
		}
		b.goTo(p.page)
		b.await(`document.querySelector("#main[data-ready=true]")`)
		time.Sleep(3 * time.Second) // until the charts are drawn
		if p.then != nil {
			p.then(b)
		}
		b.docScreenshot(p.name)
		b.close()
	}
}

// fillOrder fills in the form for a new job.
func fillOrder(b *tab) {
	b.fill(putField("body"), "{\n  \"order\": \"2026-418207\",\n  \"total\": \"52.50\",\n  \"currency\": \"EUR\"\n}")
	b.moreTags()
	for name, value := range map[string]string{"priority": "100", "key": "invoice-2026-418207", "retry": "10s, 1m, 10m"} {
		b.fill(putField(name), value)
	}
	b.clickAction("keep")
	b.fill(field("name"), "An invoice")
	b.confirm("keep")
}

// tall makes the window high enough for the form to put a job.
func (b *tab) tall() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 1260)); err != nil {
		b.t.Fatal(err)
	}
}

// paletted returns an image with 256 colors: the file is half as large.
func paletted(full image.Image) *image.Paletted {
	count, box := make(map[color.RGBA]int), full.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	small := image.NewPaletted(box, paletteOf(count))
	draw.Draw(small, box, full, box.Min, draw.Src)
	return small
}

// paletteOf returns up to 256 colors: first the most frequent one of each region of the color space, so that no
// small colored sign turns gray, then the most frequent of all.
func paletteOf(count map[color.RGBA]int) (all color.Palette) {
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	seen := make(map[color.RGBA]bool)
	region := func(c color.RGBA) color.RGBA { return color.RGBA{c.R / 32, c.G / 32, c.B / 32, 1} }
	self := func(c color.RGBA) color.RGBA { return c }
	for _, key := range []func(color.RGBA) color.RGBA{region, self} {
		for _, c := range colors {
			if seen[c] || seen[key(c)] || len(all) == 256 {
				continue
			}
			seen[c], seen[key(c)] = true, true
			all = append(all, c)
		}
	}
	return all
}

// docScreenshot saves a screenshot for the documentation.
func (b *tab) docScreenshot(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
	if err != nil {
		b.t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(*docPictures, 0o755); err != nil {
		b.t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(full)); err != nil {
		b.t.Fatal(err)
	}
	if small.Len() > maxPictureBytes {
		b.t.Errorf("%s has %d bytes, more than %d", name, small.Len(), maxPictureBytes)
	}
	if err := os.WriteFile(filepath.Join(*docPictures, name+".png"), small.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("%s.png: %d bytes", name, small.Len())
}
