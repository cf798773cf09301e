package gate_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// bubbleStore returns a memory store whose clock is package time's, which is virtual in a
// synctest bubble.
func bubbleStore(tb testing.TB) *memory.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// edge has the parts of an edge: rules, a store and a gate.
type edge struct {
	tb    testing.TB
	rules *policy.Policy
	store sluice.Store
	gate  *gate.Gate

	mu   sync.Mutex
	errs []error
}

// newEdge returns an edge with rules that match all requests. A rule without a key gets
// the header X-Key as its key.
func newEdge(tb testing.TB, store sluice.Store, o gate.Options, rules ...policy.Rule) *edge {
	tb.Helper()
	e := &edge{tb: tb, store: store}
	for i := range rules {
		if rules[i].Key == nil {
			rules[i].Key = []policy.Part{policy.Header("X-Key")}
		}
	}
	var err error
	if e.rules, err = policy.New(policy.Options{Rules: rules}); err != nil {
		tb.Fatal(err)
	}
	if o.OnError == nil {
		o.OnError = func(_ context.Context, err error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.errs = append(e.errs, err)
		}
	}
	if e.gate, err = gate.New(store, o); err != nil {
		tb.Fatal(err)
	}
	return e
}

// reported returns the errors that the gate reported.
func (e *edge) reported() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.errs
}

// key is the Values of a request with this X-Key header.
type key string

func (k key) Header(name string) (string, bool) { return string(k), name == "X-Key" }
func (key) Cookie(string) (string, bool)        { return "", false }
func (key) Query(string) (string, bool)         { return "", false }

func (e *edge) decide(ctx context.Context, k string) policy.Verdict {
	return e.rules.Decide(ctx, e.store, &policy.Attributes{Path: "/", Values: key(k), RequestBytes: -1})
}

// entry is a request in a gate.
type entry struct {
	verdict   policy.Verdict
	admission *gate.Admission
	err       error
	at        time.Time
	done      bool
}

// enter decides a request and lets it enter the gate.
func (e *edge) enter(ctx context.Context, k string) *entry {
	n := &entry{verdict: e.decide(ctx, k)}
	n.admission, n.err = e.gate.Enter(ctx, &n.verdict)
	n.at, n.done = time.Now(), true
	return n
}

// begin decides a request and lets it enter in a goroutine, inside a bubble. The entry may be
// read after the next synctest.Wait.
func (e *edge) begin(ctx context.Context, k string) *entry {
	n := &entry{verdict: e.decide(ctx, k)}
	go func() {
		n.admission, n.err = e.gate.Enter(ctx, &n.verdict)
		n.at, n.done = time.Now(), true
	}()
	synctest.Wait()
	return n
}

// remaining returns the remaining units of a rule's only limit.
func (e *edge) remaining(rule string, k ...string) int64 {
	e.tb.Helper()
	v, err := e.rules.DecideRule(context.Background(), e.store, policy.RuleRequest{Rule: rule, Key: k, Peek: true})
	if err != nil || v.Err != nil {
		e.tb.Fatal(err, v.Err)
	}
	return v.Results[0].Decision.Remaining
}

// status returns an outcome with only a status.
func status(code int) policy.Outcome { return policy.Outcome{Status: code} }

// limit returns a limit without a name, which gets its rule's name.
func limit(a sluice.Algorithm) []*sluice.Limit { return []*sluice.Limit{sluice.MustLimit("", a)} }
