package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
)

// faultyStore decides as memory does, unless a test changes that.
type faultyStore struct {
	sluice.Store
	err    atomic.Pointer[error]
	denies atomic.Bool
}

func (s *faultyStore) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if err := s.err.Load(); err != nil {
		return sluice.Decision{}, *err
	}
	if s.denies.Load() {
		return sluice.Decision{Reason: sluice.ReasonLimited}, nil
	}
	return s.Store.Decide(ctx, r)
}

// observed is the proxy's limiter in front of a handler, in a bubble, with what it counts and logs.
type observed struct {
	t       *testing.T
	store   *faultyStore
	handler http.Handler
	release chan struct{} // lets one handled request end
	metrics *telemetry.Metrics
	log     *lockedBuffer
}

func newObserved(t *testing.T, o gate.Options, rules ...policy.Rule) *observed {
	t.Helper()
	m, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}
	x := &observed{t: t, store: &faultyStore{Store: m}, release: make(chan struct{}), metrics: telemetry.NewMetrics("test"), log: &lockedBuffer{}}
	rules = append(rules, policy.Rule{Name: "all", Key: []policy.Part{policy.Global()}, Limits: limitOf(sluice.FixedWindow{Rate: sluice.PerDay(1000)})})
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	x.metrics.SetRules(p.Rules())
	e := &engine{}
	e.decisions, err = observe.Open(observe.Options{
		Log: &telemetry.Settings{Sample: 1000}, AccessLog: &accesslog.Settings{}, Tracing: &tracing.Settings{},
		Logger: slog.New(slog.NewTextHandler(x.log, nil)), Metrics: x.metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.gate, err = gate.New(x.store, o); err != nil {
		t.Fatal(err)
	}
	if e.decider, err = httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: x.store}); err != nil {
		t.Fatal(err)
	}
	l, err := e.limiter("proxy", httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x.handler = l.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-x.release
		}
	}))
	return x
}

func limitOf(a sluice.Algorithm) []*sluice.Limit { return []*sluice.Limit{sluice.MustLimit("", a)} }

// begin serves a request in a goroutine of its own, and waits until it has ended or waits.
func (x *observed) begin(ctx context.Context, path, user string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody).WithContext(ctx)
	r.Header.Set("X-User", user)
	go x.handler.ServeHTTP(w, r)
	synctest.Wait()
	return w
}

// counted returns the outcomes that were counted for a rule, such as "denied=1".
func (x *observed) counted(rule string) string {
	w := httptest.NewRecorder()
	x.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	var all []string
	for line := range strings.Lines(w.Body.String()) {
		rest, ok := strings.CutPrefix(line, `sluice_decisions_total{outcome="`)
		outcome, rest, _ := strings.Cut(rest, `",rule="`+rule+`"} `)
		if n := strings.TrimSpace(rest); ok && n != "" && n != "0" {
			all = append(all, outcome+"="+n)
		}
	}
	return strings.Join(all, " ")
}

// Each refusal of the gate is counted and logged as the denial that the client gets, and not as the
// delay that the store had decided. A client that left is neither.
func TestRefusalsOfTheGateAreCountedAndLogged(t *testing.T) {
	user := []policy.Part{policy.Header("X-User")}
	paced := policy.Rule{Name: "r", Key: user, Limits: limitOf(sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 99})}
	with := func(r policy.Rule, change func(*policy.Rule)) policy.Rule { change(&r); return r }
	flight := policy.Rule{
		Name: "r", Key: user, OnStoreError: sluice.FallbackDeny, MaxWait: time.Hour,
		Limits: limitOf(sluice.Concurrency{Max: 1, Queue: 9, TTL: time.Hour, Latency: time.Second}),
	}
	for _, c := range []struct {
		name   string
		gate   gate.Options
		rule   policy.Rule
		before []string // users whose requests have passed or wait
		// during happens while the request waits.
		during func(x *observed, leave context.CancelFunc)
		within time.Duration // the deadline of the request, zero for none
		status int
		rules  string // outcomes of the rule that refused
		others string // outcomes of the other rule
		log    string
	}{
		{
			name: "ErrTooLate", gate: gate.Options{MaxDelay: time.Second}, rule: paced, before: []string{"a"}, status: 429,
			rules: "allowed=1 denied=1", others: "allowed=1 uncharged=1", log: "reason=limited rule=r",
		},
		{
			name: "ErrQueueFull", rule: with(paced, func(r *policy.Rule) { r.MaxWaiting = 2 }), before: []string{"a", "b", "b", "c", "c", "a"}, status: 429,
			rules: "allowed=3 denied=2", others: "allowed=3 uncharged=2", log: "reason=limited rule=r",
		},
		{
			name: "ErrKeyQueueFull", rule: with(paced, func(r *policy.Rule) { r.MaxWaitingPerKey = 1 }), before: []string{"a", "a"}, status: 429,
			rules: "allowed=1 denied=1", others: "allowed=1 uncharged=1", log: "reason=limited rule=r",
		},
		{
			name: "ErrTooManyWaiting", gate: gate.Options{MaxWaiting: 1}, rule: paced, before: []string{"b", "b", "a"}, status: 503,
			rules: "allowed=2 denied=1", others: "allowed=2 uncharged=1", log: "reason=limited rule=r",
		},
		{
			name: "ErrDeadline", rule: paced, before: []string{"a"}, within: time.Second, status: 503,
			rules: "allowed=1 denied=1", others: "allowed=1 uncharged=1", log: "reason=limited rule=r",
		},
		{
			name: "the deadline passes in the queue", rule: flight, before: []string{"a"}, within: 2 * time.Second, status: 503,
			during: func(*observed, context.CancelFunc) { <-time.After(3 * time.Second) },
			rules:  "allowed=1 denied=1", others: "allowed=1 uncharged=1", log: "reason=limited rule=r",
		},
		{
			name: "ErrLeaseLost", rule: flight, before: []string{"a"}, status: 429,
			during: func(x *observed, _ context.CancelFunc) { x.store.denies.Store(true); <-time.After(3 * time.Second) },
			rules:  "allowed=1 denied=1", others: "allowed=1 uncharged=1", log: "reason=limited rule=r",
		},
		{
			name: "the store fails", rule: flight, before: []string{"a"}, status: 503,
			during: func(x *observed, _ context.CancelFunc) {
				broken := errors.New("broken")
				x.store.err.Store(&broken)
				<-time.After(3 * time.Second)
			},
			rules: "allowed=1 error=1", others: "allowed=1 error=1", log: "reason=store-error rule=r",
		},
		{
			name: "the client leaves", rule: flight, before: []string{"a"}, status: 499,
			during: func(_ *observed, leave context.CancelFunc) { leave() },
			rules:  "allowed=1", others: "allowed=1", log: "",
		},
		{
			name: "its turn comes", rule: flight, before: []string{"a"}, status: 200,
			during: func(x *observed, _ context.CancelFunc) { x.release <- struct{}{}; <-time.After(3 * time.Second) },
			rules:  "allowed=1 delayed=1", others: "allowed=2", log: "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newObserved(t, c.gate, c.rule)
				rest, end := context.WithCancel(t.Context())
				path := "/"
				if c.rule.Limits[0] == flight.Limits[0] {
					path = "/slow"
				}
				for _, user := range c.before {
					x.begin(rest, path, user)
				}
				ctx, leave := context.WithCancel(t.Context())
				if c.within > 0 {
					ctx, leave = context.WithTimeout(t.Context(), c.within)
				}
				w := x.begin(ctx, "/", "a")
				if c.during != nil {
					c.during(x, leave)
				}
				synctest.Wait()
				if got := x.counted("r"); w.Code != c.status || got != c.rules {
					t.Errorf("status %d, and the rule counted %s; want %d and %s", w.Code, got, c.status, c.rules)
				}
				if got := x.counted("all"); got != c.others {
					t.Errorf("the other rule counted %s; want %s", got, c.others)
				}
				lines := strings.Split(strings.TrimSpace(x.log.String()), "\n")
				if last := lines[len(lines)-1]; (c.log == "") != (last == "") || !strings.Contains(last, c.log) {
					t.Errorf("the log ends with %q; want %q", last, c.log)
				}
				leave()
				end()
				x.store.err.Store(nil)
				close(x.release)
				<-time.After(2 * time.Hour)
				synctest.Wait()
			})
		})
	}
}

// A request without a path is refused before any rule is decided, and is counted and logged all the same.
func TestRefusedTargetsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	x := newObserved(t, gate.Options{})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.URL.Opaque = "//host/login"
	x.handler.ServeHTTP(w, r)
	if got := x.counted("(none)"); w.Code != http.StatusBadRequest || got != "denied=1" || !strings.Contains(x.log.String(), "reason=never") {
		t.Errorf("status %d, counted %q, logged %q", w.Code, got, fmt.Sprint(x.log))
	}
}
