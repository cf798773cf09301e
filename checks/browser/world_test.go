package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/sluicehq/sluice/checks/process"
)

func TestMain(m *testing.M) { process.Main(m, func() { closeBrowser() }) }

// closeBrowser ends the browser of all tests, if there is one.
var closeBrowser = func() {}

// theBrowser starts a browser without a window, for all tests. Each tab of open has its own cookies and storage.
var theBrowser = sync.OnceValues(func() (context.Context, error) {
	program, err := process.Find("chromium", "chromium", "chromium-browser", "google-chrome")
	if err != nil {
		return nil, err
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("hide-scrollbars", true),
	})...)
	ctx, cancel := chromedp.NewContext(allocator)
	closeBrowser = func() { cancel(); end() }
	if err := chromedp.Do(ctx); err != nil {
		return nil, fmt.Errorf("the browser does not start: %w", err)
	}
	return ctx, nil
})

// policy has rules of several states.
const policy = `version: 1
listen: {proxy: off, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
log: {sample: 0}
rules:
  - name: login
    match: {path: /login, method: POST}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 30/m, burst: 10}
    ban: {after: 40, within: 10s, for: 2m}
  - name: per-user
    match: {path: /api/*}
    key: [header:X-User]
    limit: {algorithm: sliding_window, rate: 60/m}
    candidate: {algorithm: sliding_window, rate: 600/m}
  - name: search
    match: {path: /search}
    key: client_ip
    shadow: true
    limit: {algorithm: token_bucket, rate: 60/m, burst: 10}
  - name: export
    match: {path: /export}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 600/m}
    candidate: {algorithm: fixed_window, rate: 60/m}
`

// hostile is a key that would run if the page took it as HTML.
const hostile = `<script>alert(1)</script>`

// server runs sluice with the policy, and further arguments.
func server(t *testing.T, args ...string) *process.Sluice {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return process.StartSluice(t, exec.Command(process.Program(), append([]string{"serve", file}, args...)...), 2) //nolint:noctx // it ends with the test
}

// request is a request as the decision API reads it.
type request struct {
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	ClientIP string            `json:"client_ip"`
	Headers  map[string]string `json:"headers,omitempty"`
}

// step has the requests of a moment of a busy day: a client that guesses passwords, a user with a loop, and others.
func step(i int) []request {
	address := func(n int) string { return fmt.Sprintf("198.51.100.%d", n) }
	requests := []request{
		{"POST", "/login", "203.0.113.7", nil},
		{"POST", "/login", "203.0.113.7", nil},
		{"POST", "/login", address(i % 50), nil},
		{"GET", "/search", address(i % 3), nil},
		{"GET", "/export", address(1), nil},
		{"GET", "/", address(i % 250), nil},
	}
	for n := range 6 + int(4*math.Sin(float64(i)/300)) {
		requests = append(requests, request{"GET", "/api/items", address(n), map[string]string{"X-User": fmt.Sprint("user-", (i+n)%40)}})
	}
	return append(requests,
		request{"GET", "/api/items", address(9), map[string]string{"X-User": hostile}},
		request{"GET", "/api/items", address(9), map[string]string{"X-User": hostile}})
}

// traffic sends steps until stop is called, which returns when the last one is answered.
func traffic(t *testing.T, s *process.Sluice) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			text, err := json.Marshal(map[string]any{"requests": step(i)})
			if err != nil {
				t.Error(err)
				return
			}
			q, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, s.URLs["api"]+"/v1/check", bytes.NewReader(text))
			if err != nil {
				t.Error(err)
				return
			}
			q.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				return // the test stopped the server
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// tab is a tab of a browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	mistakes []string // what the console has, and dialogs
}

// The colors that a reader can prefer.
const (
	light = "light"
	dark  = "dark"
)

// open opens a page on a screen of this many pixels.
func open(t *testing.T, url string, width, height int64, colors string) *tab {
	t.Helper()
	browser, err := theBrowser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	note := func(text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mistakes = append(b.mistakes, text)
	}
	if err := chromedp.Listen(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			note("exception: " + e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			note(fmt.Sprintf("console.%s", e.Type))
		case *cdplog.EventEntryAdded:
			if e.Entry.Level != cdplog.EntryLevelVerbose {
				note(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
			}
		case *page.EventJavascriptDialogOpening:
			note("dialog: " + e.Message)
		}
	}); err != nil {
		t.Fatalf("the browser opens no tab: %v", err)
	}
	// An animation would be drawn sixty times a second, without a graphics card.
	preference := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: colors}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, preference); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	return b
}

// run does actions within the patience of tests.
func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 3*process.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("the browser: %v (%v)", err, b.console())
	}
}

// console returns what went wrong in the page.
func (b *tab) console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mistakes)
}

// of does an action within the patience of tests, and returns its value.
func of[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 3*process.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("the browser: %v (%v)", err, b.console())
	}
	return value
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return of(b, chromedp.Evaluate[T](expression))
}

// until waits until an expression is true in the page.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; time.Since(began) < 2*process.Patience; <-tick.C {
		if eval[bool](b, expression) {
			return
		}
	}
	b.t.Fatalf("%s: not within %v; the page shows %.3000q, the console has %q", what, 2*process.Patience, eval[string](b, `document.body.innerText`), b.console())
}

// shoot makes a picture of the page for a person, if the environment variable PICTURES names a folder.
func (b *tab) shoot(name string, whole bool) {
	b.t.Helper()
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	if err := os.WriteFile(filepath.Join(folder, name), of(b, take), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// metrics returns the numbers of a scrape, by series.
func metrics(t *testing.T, s *process.Sluice) map[string]string {
	t.Helper()
	numbers := map[string]string{}
	for line := range strings.Lines(process.Get(t, s.URLs["admin"]+"/metrics")) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			numbers[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return numbers
}
