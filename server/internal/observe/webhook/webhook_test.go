package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const signingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver receives messages, in a bubble of its own time.
type receiver struct {
	mu       sync.Mutex
	began    time.Time
	answer   func(attempt int) (status int, err error) // nil: 204
	attempts []string                                  // "time id"
	received []string                                  // "time rule state"
	slow     time.Duration
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	if r.slow > 0 {
		select {
		case <-time.After(r.slow):
		case <-q.Context().Done():
			return nil, q.Context().Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Since(r.began).Round(100 * time.Millisecond)
	r.attempts = append(r.attempts, fmt.Sprint(at, " ", q.Header.Get(headerID)))
	status := http.StatusNoContent
	if r.answer != nil {
		if status, err = r.answer(len(r.attempts)); err != nil {
			return nil, err
		}
	}
	if status < 300 {
		var m Message
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, err
		}
		for _, c := range m.Data.Changes {
			line := fmt.Sprint(at, " ", c.Rule, " ", c.State)
			if c.Reminder {
				line += " still"
			}
			r.received = append(r.received, line)
		}
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}, Request: q}, nil
}

// scene is a webhook that runs in a bubble.
type scene struct {
	*receiver
	*Webhook
	mu    sync.Mutex
	rules map[string]float64
	log   bytes.Buffer
	stop  context.CancelFunc
	ended chan struct{}
}

func (s *scene) set(rule string, pressure float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules[rule] = pressure
}

func (s *scene) remove(rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules, rule)
}

func run(t *testing.T, r *receiver, change func(*Options)) *scene {
	t.Helper()
	s := &scene{receiver: r, rules: map[string]float64{}, ended: make(chan struct{})}
	o := Options{
		URL: "https://ops.example.com/hooks/token-in-the-path", Secret: signingSecret, Instance: "test", Version: "test",
		Thresholds: Thresholds{Above: 0.8, Below: 0.5, For: 10 * time.Second},
		Rules: func() (names []string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for name := range s.rules {
				names = append(names, name)
			}
			return names
		},
		Pressure: func(rule string) float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.rules[rule]
		},
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)), transport: r,
	}
	if change != nil {
		change(&o)
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Webhook = w
	r.began = time.Now()
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() {
		defer close(s.ended)
		w.Run(ctx)
	}()
	<-time.After(50 * time.Millisecond) // what a test does is never at the moment of a look
	return s
}

// end stops the webhook, and checks the messages.
func (s *scene) end(t *testing.T, want ...string) {
	t.Helper()
	s.stop()
	<-s.ended
	if !slices.Equal(s.received, want) {
		t.Errorf("received %q\nwant %q", s.received, want)
	}
	for _, hidden := range []string{"token-in-the-path", "whsec", "MfKQ9r8"} {
		if strings.Contains(s.log.String(), hidden) {
			t.Errorf("the log holds %s: %s", hidden, &s.log)
		}
	}
}

// One message is sent when the pressure has been high for the time, and one when it has been low again. A
// pressure that swings around one threshold, or is short, sends none.
func TestSwingingPressureSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, &receiver{}, nil)
		for _, step := range []struct {
			pressure float64
			lasts    time.Duration
		}{
			{0.7, 30 * time.Second}, // not so much
			{2, 9 * time.Second},    // not for so long
			{0.7, time.Second},
			{0.8, 60 * time.Second}, // from 40 s on: sent at 51 s, once
			{0.5, 60 * time.Second}, // less, and not below
			{0.4, 9 * time.Second},  // below, and not for so long
			{0.6, 5 * time.Second},
			{5, 60 * time.Second},    // high again: sent already
			{0.49, 60 * time.Second}, // from 234 s on: sent at 245 s
			{0.9, 20 * time.Second},  // and from 294 s on: sent at 305 s
		} {
			s.set("api", step.pressure)
			<-time.After(step.lasts)
		}
		s.end(t, "51s api above", "4m5s api below", "5m5s api above")
	})
}

// A level is reached above one threshold and left below the other one.
func TestLevelsHaveTwoThresholds(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	steps := func(t *testing.T, thresholds Thresholds, steps []struct {
		at       int
		pressure float64
		high     bool
	},
	) {
		t.Helper()
		var l level
		for i, s := range steps {
			now := start.Add(time.Duration(s.at) * time.Second)
			l.look(now, s.pressure, thresholds)
			if l.high != s.high {
				t.Errorf("step %d, at %d s: high is %t", i, s.at, l.high)
			}
		}
	}
	type row = struct {
		at       int
		pressure float64
		high     bool
	}
	t.Run("no time", func(t *testing.T) {
		steps(t, Thresholds{Above: 1, Below: 1}, []row{{0, 0.99, false}, {1, 1, true}, {2, 1, true}, {3, 0.99, false}, {4, math.Inf(1), true}, {5, math.NaN(), true}})
	})
	t.Run("the clock goes back", func(t *testing.T) {
		steps(t, Thresholds{Above: 1, Below: 0.5, For: 10 * time.Second}, []row{
			{100, 2, false}, {109, 2, false}, {50, 2, false}, {59, 2, false}, {60, 2, true}, {40, 0, true}, {49, 0, true}, {50, 0, false},
		})
	})
}

// Several rules, some of which come or go.
func TestRulesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, &receiver{}, func(o *Options) { o.For = 0 })
		s.set("b", 1)
		s.set("a", 1)
		<-time.After(time.Second)
		s.set("quiet", 0)
		s.remove("a")
		<-time.After(time.Second)
		s.remove("b")
		s.set("b", 0.6) // the same one, changed
		<-time.After(time.Second)
		s.remove("quiet")
		s.remove("b")
		<-time.After(time.Second)
		s.stop()
		<-s.ended
		if len(s.levels) != 0 {
			t.Errorf("%d levels are kept", len(s.levels))
		}
		s.end(t, "100ms a above", "100ms b above", "1.1s a below", "3.1s b below")
	})
}

// With every, the message is repeated while the pressure stays high.
func TestMessagesRepeatWhilePressureIsHigh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, &receiver{}, func(o *Options) { o.For, o.Every = 0, time.Minute })
		s.set("api", 1)
		<-time.After(150 * time.Second)
		s.set("api", 0)
		<-time.After(150 * time.Second)
		s.end(t, "100ms api above", "1m0.1s api above still", "2m0.1s api above still", "2m30.1s api below")
	})
}

// A message is tried again a bounded number of times, under the same id; what changes meanwhile
// is received afterwards, the latest of it.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(int) (int, error) { return 0, errors.New("refused") }}
		s := run(t, r, func(o *Options) { o.For = 0 })
		s.set("api", 1)
		<-time.After(5 * time.Minute)
		if n := len(r.attempts); n != attempts {
			t.Fatalf("%d attempts: %q", n, r.attempts)
		}
		var at time.Duration
		_, id, _ := strings.Cut(r.attempts[0], " ")
		for i, a := range r.attempts {
			when, other, _ := strings.Cut(a, " ")
			d, err := time.ParseDuration(when)
			if err != nil || other != id {
				t.Fatalf("attempt %d: %s", i, a)
			}
			if pause := firstPause << i / 2; i > 0 && (d-at < pause || d-at > pause*5/4+200*time.Millisecond) {
				t.Errorf("attempt %d comes %v after the one before; want about %v", i, d-at, pause)
			}
			at = d
		}
		if got := countsOf(s.Webhook); got != (counts{GivenUp: 1, Failed: attempts}) {
			t.Errorf("want one message given up, got %+v", got)
		}
		// The next change is sent, and the receiver fails once.
		r.mu.Lock()
		r.answer = func(n int) (int, error) {
			if n == attempts+1 {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}
		r.mu.Unlock()
		s.set("api", 0)
		<-time.After(150 * time.Millisecond) // within the pause there are changes that cancel out
		s.set("x", 1)
		<-time.After(150 * time.Millisecond)
		s.set("x", 0)
		<-time.After(time.Minute)
		if got := countsOf(s.Webhook); got != (counts{Delivered: 1, GivenUp: 1, Failed: attempts + 1}) {
			t.Errorf("want only the latest change delivered, got %+v", got)
		}
		if _, when, _ := strings.Cut(strings.Join(s.received, ";"), " "); when != "api below" {
			t.Errorf("received %q", s.received)
		}
		s.end(t, s.received...)
	})
}

// counts are the numbers of messages and attempts in the metrics.
type counts struct{ Delivered, GivenUp, Failed uint64 }

func countsOf(w *Webhook) counts {
	return counts{w.delivered.Load(), w.givenUp.Load(), w.failed.Load()}
}

// One that does not answer is not waited for, neither at the end.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, &receiver{slow: time.Hour}, func(o *Options) { o.For = 0 })
		s.set("api", 1)
		<-time.After(callTime + 200*time.Millisecond)
		if got := countsOf(s.Webhook); got.Failed != 1 {
			t.Errorf("the silent receiver should count as one failure: %+v", got)
		}
		<-time.After(3 * time.Second) // in the second attempt
		before := time.Now()
		s.end(t)
		if d := time.Since(before); d != 0 {
			t.Errorf("it ended after %v", d)
		}
	})
}

// So many rules at once are several messages.
func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, &receiver{}, func(o *Options) { o.For = 0 })
		for i := range 2*maxChanges + 1 {
			s.set(fmt.Sprint("r", i), math.Inf(1))
		}
		<-time.After(time.Second)
		s.stop()
		<-s.ended
		if len(s.received) != 2*maxChanges+1 || len(s.attempts) != 3 {
			t.Errorf("%d rules in %d messages", len(s.received), len(s.attempts))
		}
	})
}

// The example of the specification, which other implementations are tested with.
func TestSignatureOfTheSpecification(t *testing.T) {
	key, err := keyOf(signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// A real receiver gets what it can verify, and redirections are not followed.
func TestReceiversCanVerifyMessages(t *testing.T) {
	type request struct {
		head http.Header
		body []byte
	}
	got := make(chan request, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection was followed") }))
	defer elsewhere.Close()
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(status)
		got <- request{r.Header, body}
	}))
	defer server.Close()
	w, err := New(Options{
		URL: server.URL, Secret: signingSecret, Thresholds: Thresholds{Above: 1, Below: 1}, Instance: "one", Version: "9",
		Rules: func() []string { return []string{"api"} }, Pressure: func(string) float64 { return 1.5 }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w.measure(now)
	w.compose(now)
	if err := w.post(t.Context(), w.sending); err != nil {
		t.Fatal(err)
	}
	r := <-got
	var m Message
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Data.Changes) != 1 {
		t.Fatalf("want a message with one change, got %s", r.body)
	}
	c := m.Data.Changes[0]
	if m.Type != "sluice.pressure" || m.Data.Instance != "one" || c.Rule != "api" || c.State != Above || c.Pressure != 1.5 || c.Since.IsZero() || c.Reminder {
		t.Errorf("the message is %s", r.body)
	}
	id, at := r.head.Get("Webhook-Id"), r.head.Get("Webhook-Timestamp")
	if !strings.HasPrefix(id, "msg_") || r.head.Get("Webhook-Signature") != sign(w.key, id, at, r.body) ||
		r.head.Get("Content-Type") != "application/json" || r.head.Get("User-Agent") != "sluice/9" {
		t.Errorf("the headers of the message are %v", r.head)
	}
	status = http.StatusTemporaryRedirect
	if err := w.post(t.Context(), w.sending); err == nil || !strings.Contains(err.Error(), "answered 307") {
		t.Errorf("a redirection: %v", err)
	}
	<-got
	server.Close()
	if err := w.post(t.Context(), w.sending); err == nil || strings.Contains(err.Error(), "http://") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestWebhookOptionsAreRefused(t *testing.T) {
	ok := Options{
		URL: "https://a.example.com/x", Secret: strings.Repeat("k", leastKey), Thresholds: Thresholds{Above: 0.8, Below: 0.5},
		Rules: func() []string { return nil }, Pressure: func(string) float64 { return 0 }, Logger: slog.Default(),
	}
	if _, err := New(ok); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Options)
		says   string
	}{
		{func(o *Options) { o.Secret = "short" }, "5 bytes, which can be guessed"},
		{func(o *Options) { o.Secret = "" }, "0 bytes"},
		{func(o *Options) { o.Secret = "whsec_hunter2!" }, "not base64"},
		{func(o *Options) { o.Secret = "whsec_aHVudGVyMg==" }, "7 bytes"},
		{func(o *Options) { o.URL = "" }, "Options.URL"},
		{func(o *Options) { o.URL = "ftp://a.example.com" }, "Options.URL"},
		{func(o *Options) { o.URL = "https://user:hunter2@a.example.com" }, "Options.URL"},
		{func(o *Options) { o.URL = "https://hunter2 .example.com" }, "Options.URL"},
		{func(o *Options) { o.Above = 0 }, "Options.Above is 0"},
		{func(o *Options) { o.Above = math.NaN() }, "Options.Above is NaN"},
		{func(o *Options) { o.Above = math.Inf(1) }, "Options.Above is +Inf"},
		{func(o *Options) { o.Below = 0.9 }, "Below 0.9"},
		{func(o *Options) { o.Below = 0 }, "Below 0"},
		{func(o *Options) { o.For = -1 }, "Options.For is -1ns"},
		{func(o *Options) { o.Every = -1 }, "Every -1ns"},
	} {
		o := ok
		c.change(&o)
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v; want %s", err, c.says)
		}
	}
}
