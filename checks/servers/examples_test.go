package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/modeltest"
)

// folder holds the examples.
var folder = filepath.Join("..", "..", "examples")

// TestExamplesKeepTheirPromises runs what the comments of each example promise against the real server,
// with its store in memory and in a real Redis.
func TestExamplesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	r := redistest.Start(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps := scenario(t, file, string(text))
		for store, settings := range map[string]string{
			"memory": "store: memory\n",
			"redis":  fmt.Sprintf("store: {redis: {addresses: ['%s'], prefix: 'example-%s', deadline: 2s}}\n", r.Addr(), name),
		} {
			t.Run(name+"/"+store, func(t *testing.T) {
				t.Parallel()
				e := start(t, string(text), settings)
				for i := range steps {
					if !e.run(&steps[i]) {
						t.Fatalf("%s:%d: the step does not hold: %s", filepath.Base(file), steps[i].line, steps[i].text)
					}
				}
			})
		}
	}
}

// example is a server that runs one, with the services behind it.
type example struct {
	t        *testing.T
	server   *server
	services map[string]*service
	stalls   *process.Stalls
	ids      atomic.Int64
}

var (
	ownSetting = regexp.MustCompile(`(?m)^(version|listen|upstream|store|trusted_proxies):.*\n`)
	local      = regexp.MustCompile(`http://127\.0\.0\.1:(\d+)`)
)

// serviceAt is what the services of examples are called, besides the upstream, by their ports.
var serviceAt = map[string]string{"3001": "fallback", "8000": "ops"}

// start runs an example. Where it listens, what is behind it and its store are the test's.
func start(t *testing.T, text, store string) *example {
	t.Helper()
	e := &example{t: t, stalls: process.MeasureStalls(t), services: map[string]*service{"upstream": newService(t)}}
	settings := store + "upstream: " + e.services["upstream"].url + "\n" + "trusted_proxies: [127.0.0.0/8]\n"
	text = ownSetting.ReplaceAllString(text, "")
	text = local.ReplaceAllStringFunc(text, func(url string) string {
		name := serviceAt[local.FindStringSubmatch(url)[1]]
		if e.services[name] == nil {
			e.services[name] = newService(t)
		}
		return e.services[name].url
	})
	// The other files that it names.
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "lists"), os.DirFS(filepath.Join(folder, "lists"))); err != nil {
		t.Fatal(err)
	}
	e.server = serveIn(t, dir, settings+text, "WEBHOOK_SECRET=a secret of thirty-two bytes....")
	return e
}

// run does a step, and reports whether all was as it should be.
func (e *example) run(s *step) bool {
	switch {
	case s.wait > 0:
		<-time.After(s.wait)
		return true
	case s.message[0] != "":
		process.Eventually(e.t, "the message", func() bool { return e.services[s.message[0]].received(s.message[1]) })
		return true
	case s.figure[0] != "":
		if got := e.server.figure(s.figure[0]); got != s.figure[1] {
			e.t.Errorf("%s is %s", s.figure[0], got)
			return false
		}
		return true
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	got, ok := map[int]int{}, true
	began, stalled := time.Now(), e.stalls.Total()
	one := func() {
		status, problem := e.request(s)
		mu.Lock()
		defer mu.Unlock()
		got[status]++
		if problem != "" {
			e.t.Errorf("the answer breaks the example's promise: %s", problem)
			ok = false
		}
	}
	for range s.times {
		if s.atOnce {
			all.Go(one)
		} else {
			one()
		}
	}
	all.Wait()
	took := time.Since(began)
	if stalled = e.stalls.Total() - stalled; s.atMost > 0 && (took < s.atLeast || took-stalled > s.atMost) {
		e.t.Errorf("it took %v, of which the machine was too busy for %v", took, stalled)
		ok = false
	}
	if !maps.Equal(got, s.want) {
		e.t.Errorf("the statuses are %v, and should be %v", got, s.want)
		ok = false
	}
	return ok
}

// request sends one request of a step. The problem says what is wrong with the answer.
func (e *example) request(s *step) (status int, problem string) {
	o := s.orders
	o.ID = strconv.FormatInt(e.ids.Add(1), 10)
	order, err := json.Marshal(o)
	if err != nil {
		return 0, err.Error()
	}
	r, err := http.NewRequestWithContext(context.Background(), s.method, e.server.URLs["proxy"], bytes.NewReader(append(make([]byte, s.body), s.call...)))
	if err != nil {
		return 0, err.Error()
	}
	// As it is written: the path is not cleaned by the client.
	path, query, _ := strings.Cut(s.path, "?")
	r.URL.Opaque, r.URL.RawQuery = path, query
	for name, value := range s.header {
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	r.Header.Set("X-Orders", string(order))
	if s.from != "" {
		r.Header.Set("X-Forwarded-For", strings.ReplaceAll(s.from, "{n}", o.ID))
	}
	res, err := e.server.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	if len(s.want) > 1 && s.want[res.StatusCode] > 0 && res.StatusCode != http.StatusOK {
		return res.StatusCode, "" // the checks are for requests that pass
	}
	return res.StatusCode, e.wrong(s, o.ID, res, string(body))
}

// wrong says what is wrong with an answer.
func (e *example) wrong(s *step, id string, res *http.Response, body string) string {
	for _, f := range s.answer {
		if got := res.Header.Get(f[0]); got != f[1] {
			return fmt.Sprintf("%s is %q", f[0], got)
		}
	}
	for _, text := range s.says {
		if !strings.Contains(body, text) {
			return fmt.Sprintf("the answer is %.500q", body)
		}
	}
	by, got := "sluice", http.Header(nil)
	for name, service := range e.services {
		if h := service.got(id); h != nil {
			by, got = name, h
		}
	}
	if s.by != "" && by != s.by {
		return "the answer is by " + by
	}
	if len(s.gets) > 0 && got == nil {
		return "no service got it"
	}
	for _, f := range s.gets {
		if value := got.Get(f[0]); value != f[1] {
			return fmt.Sprintf("the service gets %s: %q", f[0], value)
		}
	}
	return ""
}

// service is one behind the server.
type service struct {
	url string
	mu  sync.Mutex
	all map[string]http.Header
	// messages are the bodies of requests that no client has sent.
	messages []string
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{all: map[string]http.Header{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

// ServeHTTP does what a request orders.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o orders
	if r.Header.Get("Webhook-Signature") != "" {
		body, err := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.messages = append(s.messages, string(body)); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return
	}
	if err := json.Unmarshal([]byte(r.Header.Get("X-Orders")), &o); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	s.all[o.ID] = r.Header.Clone()
	s.mu.Unlock()
	if o.Writes > 0 {
		r.Header.Set(modeltest.Output, strconv.Itoa(o.Writes))
		new(modeltest.Service).ServeHTTP(w, r)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if o.Takes > 0 {
		select {
		case <-time.After(o.Takes):
		case <-r.Context().Done():
		}
	}
	for name, value := range o.Header {
		w.Header().Set(name, value)
	}
	if o.Status == 0 {
		o.Status = http.StatusOK
	}
	w.WriteHeader(o.Status)
	_, _ = w.Write(make([]byte, o.Bytes)) // the client may be gone
}

// got returns the header of a request that the service got, or nil.
func (s *service) got(id string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// received reports whether a message came with a text in it.
func (s *service) received(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.messages, func(m string) bool { return strings.Contains(m, text) })
}
