//go:build chromium

// Package console_test tries the console in a real Chromium, on real servers: make test-console.
// It is built with the tag chromium only, so that other tests need no browser.
package console_test

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// This file has the browser and its tabs, and watches what the tabs do.

var pictures = flag.String("pictures", "../../../bin/console", "the `directory` where pictures are left")

// chromium is the browser of all tests; each has tabs of its own, which share nothing.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4") // a browser that has too much to do at a time only gets slower
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "console")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err == nil {
		err = os.MkdirAll(*pictures, 0o755)
	}
	if err == nil {
		var end context.CancelFunc
		chromium, end = chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
			chromedp.NoSandbox, // which root may not have, and which needs kernels that let others have it
			chromedp.DisableGPU, chromedp.WindowSize(1280, 800), chromedp.Flag("lang", "en-US"),
			chromedp.WSURLReadTimeout(patience), // a machine that is busy takes long to start it
		))
		defer end()
		err = chromedp.Do(chromium)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// helpers and checks are what tests need within each page: window.help and window.check.
var (
	//go:embed testdata/help.js
	helpers string
	//go:embed testdata/check.js
	checks string
)

// tab is a page that is open in the browser.
type tab struct {
	t   *testing.T
	s   *site
	ctx context.Context
	end context.CancelFunc

	once     sync.Once // for close
	mu       sync.Mutex
	problems []string // errors in the console, exceptions, breaches of the policy, requests to other hosts
	excused  []*regexp.Regexp
	hosts    map[string]bool // to which there were requests
}

// open opens a page of the console, such as "#/parked". The test fails if the tab had problems
// when it ends.
func (s *site) open(t *testing.T, page string) *tab {
	t.Helper()
	b := s.blank(t)
	b.goTo(page)
	return b
}

// blank opens an empty tab.
func (s *site) blank(t *testing.T) *tab {
	t.Helper()
	b := &tab{t: t, s: s, hosts: make(map[string]bool)}
	b.ctx, b.end = chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
		t.Fatal(err)
	}
	send(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	send(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: helpers + checks})
	t.Cleanup(b.close)
	return b
}

// goTo goes to a page; if only what follows the # is another one, the page is not loaded again.
func (b *tab) goTo(address string) {
	b.t.Helper()
	if gone := send(b, page.Navigate, page.NavigateParams{URL: b.s.url + "/" + address}); gone.ErrorText != "" {
		b.t.Fatalf("going to %s: %s", address, gone.ErrorText)
	}
}

// again loads the page again.
func (b *tab) again() {
	b.t.Helper()
	eval[bool](b, "(window.before = true)")
	send(b, page.Reload, page.ReloadParams{})
	b.await("!window.before && document.readyState === 'complete'")
}

// close ends the tab, with a picture if the test has failed, and says which problems it had.
func (b *tab) close() { b.once.Do(b.finish) }

func (b *tab) finish() {
	b.pictureOfFailure()
	b.end()
	b.report()
}

func (b *tab) pictureOfFailure() {
	if b.t.Failed() {
		b.picture("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
	}
}

// report says which problems there were since the last report.
func (b *tab) report() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Error(p)
	}
	b.problems = nil
	for host := range b.hosts {
		if b.s != nil && "http://"+host != b.s.url && "https://"+host != b.s.url {
			b.t.Errorf("a request to %s; the console is at %s", host, b.s.url)
		}
	}
}

// excuse has problems that match be none, because the test is about them.
func (b *tab) excuse(pattern string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excused = append(b.excused, regexp.MustCompile(pattern))
}

// hear takes down what the tab tells of. It runs where the tab's messages are read.
func (b *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.problem("exception: " + text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			b.problem(fmt.Sprintf("console.%s with %d arguments", e.Type, len(e.Args)))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.problem(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
			b.mu.Lock()
			b.hosts[u.Host] = true
			b.mu.Unlock()
		}
	}
}

func (b *tab) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, re := range b.excused {
		if re.MatchString(text) {
			return
		}
	}
	b.problems = append(b.problems, text)
}

// picture leaves a picture of what is seen, for people to look at.
func (b *tab) picture(name string) {
	path := filepath.Join(*pictures, name+".png")
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	image, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, OptimizeForSpeed: new(true)})
	if err == nil {
		err = os.WriteFile(path, image.Data, 0o644)
	}
	if err != nil {
		b.t.Errorf("a picture of %s: %v", name, err)
	}
}

// theme has the page shown as the system would have it: light or dark.
func (b *tab) theme(scheme string) {
	b.t.Helper()
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// phone has the tab be as small as that of a phone.
func (b *tab) phone() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)); err != nil {
		b.t.Fatal(err)
	}
}
