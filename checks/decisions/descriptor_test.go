package decisions

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/storetest"
)

// describedRules are rules of one domain with all algorithms, a quota, and limits in shadow.
func describedRules() []policy.Rule {
	algorithms := []sluice.Algorithm{
		sluice.FixedWindow{Rate: sluice.Per(5, 10*time.Second)},
		sluice.FixedWindow{Rate: sluice.Per(5, 10*time.Second), CountDenied: true},
		sluice.TokenBucket{Rate: sluice.Per(5, 10*time.Second)},
		sluice.SlidingWindow{Rate: sluice.Per(5, 10*time.Second)},
		sluice.SlidingCounter{Rate: sluice.Per(5, 10*time.Second)},
		sluice.SlidingLog{Rate: sluice.Per(5, 10*time.Second)},
		sluice.LeakyBucket{Rate: sluice.Per(5, 10*time.Second), Queue: 4, Undelayed: 4},
	}
	var rules []policy.Rule
	for i, a := range algorithms {
		rules = append(rules, policy.Rule{
			Name:   fmt.Sprint("r", i),
			Match:  policy.Match{Descriptor: &descriptors.Pattern{Domain: "d", Entries: []descriptors.PatternEntry{{Key: fmt.Sprint("k", i)}}}},
			Limits: []*sluice.Limit{sluice.MustLimit("", a)},
		})
	}
	rules[0].Ban = &sluice.Ban{After: 3, For: 5 * time.Second}
	rules[2].Match.Descriptor.Quota, rules[3].Match.Descriptor.Quota = true, true
	rules[4].Shadow = true
	return rules
}

// descriptorCall returns a call of some descriptors at random.
func descriptorCall(rng *rand.Rand, rules int) []descriptors.Request {
	q := make([]descriptors.Request, 1+rng.IntN(4))
	for i := range q {
		q[i] = descriptors.Request{
			Entries: []descriptors.Entry{{Key: fmt.Sprint("k", rng.IntN(rules+1)), Value: fmt.Sprint(rng.IntN(2))}},
			Cost:    rng.Int64N(4),
		}
		switch rng.IntN(8) {
		case 0:
			q[i].Refund = true
		case 1:
			q[i].Look = true
		case 2:
			rate := sluice.Per(rng.Int64N(5), 10*time.Second)
			q[i].Limit = &rate
		}
	}
	return q
}

// TestDescriptorsDecideAsInMemory sends the same calls to a store in memory and to a server, and wants equal
// answers. Looks, refunds, quotas, and limits of the calls' own are among them.
func TestDescriptorsDecideAsInMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(server))
	clock := storetest.NewClock()
	inMemory, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	onServer, err := redisstore.New(redistest.WithClock(client, clock.Now), redisstore.Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	rules := describedRules()
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	passed, refunded := 0, 0
	for step := range redistest.Times(t, 800) {
		clock.Advance(time.Duration(rng.Int64N(int64(2 * time.Second))))
		q := descriptorCall(rng, len(rules))
		a := p.DecideDescriptors(t.Context(), inMemory, "d", q)
		b := p.DecideDescriptors(t.Context(), onServer, "d", q)
		if textA, textB := decided(&a), decided(&b); textA != textB {
			t.Fatalf("step %d: %+v\nin memory:     %s\non the server: %s", step, q, textA, textB)
		}
		if a.Allowed() {
			passed++
		}
		for i := range a.Descriptors {
			if a.Descriptors[i].Refunded {
				refunded++
			}
		}
	}
	t.Logf("%d calls passed, %d refunds", passed, refunded)
	if passed == 0 || refunded == 0 {
		t.Error("the calls are of one kind")
	}
}

// decided returns all that was decided about a call.
func decided(v *policy.DescriptorVerdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, error: %v", v.String(), v.Err)
	for i := range v.Descriptors {
		d := &v.Descriptors[i]
		fmt.Fprintf(&b, "\n  allowed %v, over %v, refunded %v (%v), %d remain, reset %v, retry %v", d.Allowed, d.Over, d.Refunded, d.Err, d.Remaining(), d.Reset(), d.RetryAfter())
	}
	return b.String()
}
