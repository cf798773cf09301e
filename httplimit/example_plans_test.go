package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// plans finds the limits of customers. It keeps each answer of the database for a minute.
type plans struct {
	byName map[string][]*sluice.Limit // made once: a store remembers each limit that it has seen
	find   func(ctx context.Context, customer string) (plan string, err error)
	most   int // how many customers are kept

	mu    sync.Mutex
	known map[string]knownPlan
}

// knownPlan is the plan of a customer, until a time.
type knownPlan struct {
	limits []*sluice.Limit
	until  time.Time
}

// of returns the limits of a customer's plan, or nil for the limits of everybody. While the database does not answer in
// time, a customer keeps the last known plan, and nobody waits for the database again for ten seconds.
func (p *plans) of(ctx context.Context, customer string) []*sluice.Limit {
	p.mu.Lock()
	last, known := p.known[customer]
	p.mu.Unlock()
	now := time.Now()
	if known && now.Before(last.until) {
		return last.limits
	}
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	next := knownPlan{until: now.Add(time.Minute)}
	if name, err := p.find(ctx, customer); err == nil {
		next.limits = p.byName[name] // nil for an unknown plan
	} else {
		next = knownPlan{last.limits, now.Add(10 * time.Second)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !known && len(p.known) >= p.most {
		for other := range p.known { // any customer: the next request finds the plan again
			delete(p.known, other)
			break
		}
	}
	p.known[customer] = next
	return next.limits
}

// Customers have the numbers of their plan, which is in a database. All plans have limits of one name, so what a customer has used
// stays used when the plan changes.
func ExampleNewKeyDecider_plans() {
	limit := func(perMinute int64) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(perMinute)})}
	}
	database := map[string]string{"acme": "gold"} // of the program
	down := errors.New("the database does not answer")
	of := &plans{
		byName: map[string][]*sluice.Limit{"gold": limit(1000), "silver": limit(100)},
		find: func(_ context.Context, customer string) (string, error) {
			if customer == "lost" {
				return "", down
			}
			return database[customer], nil
		},
		most: 10_000, known: map[string]knownPlan{},
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store: store, Limits: limit(10), Key: []policy.Part{policy.Header("X-Customer").IfMissing(policy.MissingDeny)},
		LimitsFor: func(r *http.Request) []*sluice.Limit { return of.of(r.Context(), r.Header.Get("X-Customer")) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, customer := range []string{"acme", "acme", "unknown", "lost"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Customer", customer)
		v := decider.Decide(r)
		fmt.Println(customer, v.Tightest.Remaining, "of", v.Tightest.Limit)
	}
	// Output:
	// acme 999 of 1000
	// acme 998 of 1000
	// unknown 9 of 10
	// lost 9 of 10
}
