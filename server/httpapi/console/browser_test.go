//go:build chromium

// Package console_test tests the console in a real Chromium with real servers: make test-console.
// The build tag chromium keeps it out of other test runs, which need no browser.
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

// This file has the browser and its tabs, and records the problems of the tabs.

var screenshotDir = flag.String("pictures", "../../../bin/console", "the `directory` for screenshots")

// chromium is the browser of all tests. Each test has its own tabs, which share no state.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4") // more tests at a time only slow the browser down
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "console")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err == nil {
		err = os.MkdirAll(*screenshotDir, 0o755)
	}
	if err == nil {
		var end context.CancelFunc
		chromium, end = chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
			chromedp.NoSandbox, // the sandbox does not work for root, nor on all kernels
			chromedp.DisableGPU, chromedp.WindowSize(1280, 800), chromedp.Flag("lang", "en-US"),
			chromedp.WSURLReadTimeout(timeout), // starting takes long on a busy machine
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

// helpers and checks are scripts for each page: window.help and window.check.
var (
	//go:embed testdata/help.js
	helpers string
	//go:embed testdata/check.js
	checks string
)

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	s   *testServer
	ctx context.Context
	end context.CancelFunc

	once     sync.Once // for close
	mu       sync.Mutex
	problems []string // errors in the JavaScript console, exceptions, violations of the policy, requests to other hosts
	ignored  []*regexp.Regexp
	hosts    map[string]bool // hosts that got requests
}

// open opens a page of the console, such as "#/parked". The test fails at its end if the tab had
// problems.
func (s *testServer) open(t *testing.T, page string) *tab {
	t.Helper()
	b := s.blank(t)
	b.goTo(page)
	return b
}

// blank opens an empty tab.
func (s *testServer) blank(t *testing.T) *tab {
	t.Helper()
	b := &tab{t: t, s: s, hosts: make(map[string]bool)}
	b.ctx, b.end = chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.onEvent))
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
		t.Fatal(err)
	}
	send(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	send(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: helpers + checks})
	t.Cleanup(b.close)
	return b
}

// goTo goes to a page. If only the part after # differs, the page is not loaded again.
func (b *tab) goTo(address string) {
	b.t.Helper()
	if gone := send(b, page.Navigate, page.NavigateParams{URL: b.s.url + "/" + address}); gone.ErrorText != "" {
		b.t.Fatalf("going to %s: %s", address, gone.ErrorText)
	}
}

// reload loads the page again.
func (b *tab) reload() {
	b.t.Helper()
	eval[bool](b, "(window.before = true)")
	send(b, page.Reload, page.ReloadParams{})
	b.await("!window.before && document.readyState === 'complete'")
}

// close closes the tab and reports its problems. If the test has failed, it takes a screenshot.
func (b *tab) close() { b.once.Do(b.doClose) }

func (b *tab) doClose() {
	b.failureScreenshot()
	b.end()
	b.report()
}

func (b *tab) failureScreenshot() {
	if b.t.Failed() {
		b.screenshot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
	}
}

// report reports the problems since the last report.
func (b *tab) report() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Error(p)
	}
	b.problems = nil
	for host := range b.hosts {
		if b.s != nil && !strings.HasPrefix(b.s.url+"/", "http://"+host+"/") && !strings.HasPrefix(b.s.url+"/", "https://"+host+"/") {
			b.t.Errorf("a request to %s; the console is at %s", host, b.s.url)
		}
	}
}

// ignore ignores problems that match a pattern, because the test provokes them.
func (b *tab) ignore(pattern string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ignored = append(b.ignored, regexp.MustCompile(pattern))
}

// onEvent records problems. It runs in the goroutine that reads the messages of the tab.
func (b *tab) onEvent(event any) {
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
	for _, re := range b.ignored {
		if re.MatchString(text) {
			return
		}
	}
	b.problems = append(b.problems, text)
}

// screenshot saves a screenshot for people to look at.
func (b *tab) screenshot(name string) {
	path := filepath.Join(*screenshotDir, name+".png")
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	image, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, OptimizeForSpeed: new(true)})
	if err == nil {
		err = os.WriteFile(path, image.Data, 0o644)
	}
	if err != nil {
		b.t.Errorf("screenshot of %s: %v", name, err)
	}
}

// theme emulates the color scheme of the system: light or dark.
func (b *tab) theme(scheme string) {
	b.t.Helper()
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// desktop makes the tab large.
func (b *tab) desktop() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1440, 900)); err != nil {
		b.t.Fatal(err)
	}
}

// phone emulates the screen of a phone.
func (b *tab) phone() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)); err != nil {
		b.t.Fatal(err)
	}
}
