package app

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

// quickStarted runs what is built in, on free ports.
func quickStarted(t *testing.T) *running {
	t.Helper()
	_, f, err := QuickStart()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*accept.Listener{&f.Listen.Proxy, &f.Listen.API, &f.Listen.Admin} {
		l.Address = "127.0.0.1:0"
	}
	return start(t, f, nil)
}

func TestTheQuickStartListensWhereItIsSaid(t *testing.T) {
	t.Parallel()
	_, f, err := QuickStart()
	if err != nil {
		t.Fatal(err)
	}
	if f.Listen.Proxy.Address != "127.0.0.1:8080" || f.Listen.API.Address != "127.0.0.1:8081" || f.Listen.Admin.Address != "127.0.0.1:9090" {
		t.Errorf("the quick start listens at %+v", f.Listen)
	}
}

// TestTheQuickStartDoesWhatItSays runs what is printed.
func TestTheQuickStartDoesWhatItSays(t *testing.T) {
	r := quickStarted(t)
	var out strings.Builder
	if err := r.Announce(&out, true); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, listener := range []string{Proxy, API, Admin} {
		if !strings.Contains(text, r.URL(listener)) {
			t.Errorf("the text does not say where the %s listener is:\n%s", listener, text)
		}
	}

	loop := regexp.MustCompile(`(?m)^  for i in ([\d ]+); do curl -s -o /dev/null -w '%\{http_code\}\\n' (\S+)/; done$`).FindStringSubmatch(text)
	first := regexp.MustCompile(`The first (\d) requests are answered 200, the others 429`).FindStringSubmatch(text)
	pace := regexp.MustCompile(`one more every (\d) seconds`).FindStringSubmatch(text)
	if loop == nil || first == nil || pace == nil || loop[2] != r.URL(Proxy) {
		t.Fatalf("the text does not say what to run and what to expect:\n%s", text)
	}
	pass, _ := strconv.Atoi(first[1])
	seconds, _ := strconv.Atoi(pace[1])
	limit := r.engine.decider.Policy().Rules()[0].Limits[0].Algorithm().(sluice.TokenBucket)
	if limit.Burst != int64(pass) || limit.Rate.Period() != time.Duration(limit.Rate.Count())*time.Duration(seconds)*time.Second {
		t.Errorf("the text says %d at once and one more every %d s, the policy %v", pass, seconds, limit)
	}

	began := time.Now()
	for i := range strings.Fields(loop[1]) {
		want := http.StatusTooManyRequests
		if i < pass {
			want = http.StatusOK
		}
		if got := r.status(Proxy, "/"); got != want {
			t.Errorf("request %d answers %d, want %d", i+1, got, want)
		}
	}
	res, body := r.send(Proxy, http.MethodGet, "/", "")
	if res.Header.Get("RateLimit") == "" || res.Header.Get("RateLimit-Policy") != fmt.Sprintf(`"per-client";q=%d;w=10`, pass) ||
		res.Header.Get("Retry-After") != pace[1] || !strings.Contains(body, "quota-exceeded") {
		t.Errorf("a denial says %v, %s", res.Header, body)
	}
	// One more passes after the time that is said, and not before.
	eventually(t, "the next request that passes", func() bool { return r.status(Proxy, "/") == http.StatusOK })
	if took := time.Since(began); took < time.Duration(seconds)*time.Second || took > 2*time.Duration(seconds)*time.Second {
		t.Errorf("the next one passed after %v", took)
	}
}

func TestTheBuiltInServiceSeesTheClient(t *testing.T) {
	t.Parallel()
	r := quickStarted(t)
	_, text := r.send(Proxy, http.MethodPost, "/some/path?q=1", "the body", "X-Forwarded-For", "6.6.6.6")
	for _, want := range []string{"POST /some/path?q=1", "X-Forwarded-For: 127.0.0.1\n", "X-Real-Ip: 127.0.0.1\n", "the body"} {
		if !strings.Contains(text, want) {
			t.Errorf("the service did not see %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "6.6.6.6") {
		t.Errorf("the service saw what the client made up:\n%s", text)
	}
}

func TestOperatorsPagesAreNotPublic(t *testing.T) {
	t.Parallel()
	r := quickStarted(t)
	paths := []string{"/livez", "/readyz", "/healthz", "/healthcheck", "/metrics", "/debug/pprof/"}
	for _, path := range paths {
		if got := r.status(API, path); got != http.StatusNotFound {
			t.Errorf("the API answers %d at %s", got, path)
		}
	}
	for _, path := range paths[:5] { // as many as the quick start lets pass
		if got := r.status(Proxy, path); got != http.StatusNotFound {
			t.Errorf("the proxy answers %d at %s", got, path)
		}
	}
	for _, path := range paths[:5] {
		if got := r.status(Admin, path); got != http.StatusOK {
			t.Errorf("the admin listener answers %d at %s", got, path)
		}
	}
}

// The built-in service reads a body and begins its answer before the proxy has read the end of the body. The server
// has closed the body by then, and the answer is whole all the same.
func TestAnswersThatOvertakeTheEndOfABody(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: echo\nrules: []\n"), nil)
	long := strings.Repeat("x", 9000)
	for range 100 {
		if got, text := r.send(Proxy, http.MethodPost, "/", "ab", "X-Long", long); got.StatusCode != http.StatusOK || !strings.Contains(text, long) {
			t.Fatalf("%d, and %d bytes", got.StatusCode, len(text))
		}
	}
}
