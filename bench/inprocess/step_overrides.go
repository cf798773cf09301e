package inprocess

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// The names of the policies that the step of overrides compares. All have one rule, and decide about the same keys.
const (
	noTable     = "no table"
	emptyTable  = "an empty table"
	otherKeys   = "overrides of other keys"
	theseKeys   = "overrides of these keys"
	overrideTag = "override-"
)

// overridden decides by a policy with a table of overrides.
type overridden struct {
	policy *policy.Policy
	store  *memory.Store
	table  *policy.OverrideTable
}

// textOf has the text of a key in its header.
type textOf string

func (t textOf) Header(string) (string, bool) { return string(t), true }
func (textOf) Cookie(string) (string, bool)   { return "", false }
func (textOf) Query(string) (string, bool)    { return "", false }

// Take implements peers.Limiter.
func (o *overridden) Take(key string) bool {
	a := policy.Attributes{Path: "/", Values: textOf(key)}
	v := o.policy.Decide(context.Background(), o.store, &a)
	return v.Allowed()
}

// Close ignores the error: closing memory cannot fail.
func (o *overridden) Close() { _ = o.store.Close() }

// setAll gives many keys an override, of five different numbers.
func setAll(t *policy.OverrideTable, letter byte, n int) error {
	for i := range n {
		if err := t.Set("tenants", sluice.StringKey(figures.Key(letter, i)), strconv.Itoa(i%5), time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// overriddenSubject opens one of the policies.
func overriddenSubject(name string, keys int) (*overridden, error) {
	limit := func(more int) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.Every(liveLimit.Every), Burst: int64(liveLimit.Burst + more)})}
	}
	store, err := memory.New(memory.Options{MaxBytes: roomy})
	if err != nil {
		return nil, err
	}
	o := policy.Options{Rules: []policy.Rule{{Name: "tenants", Key: []policy.Part{policy.Header("Key")}, Limits: limit(0)}}}
	if name != noTable {
		o.Overrides = policy.NewOverrideTable()
		o.Terms = func(_, text string) (policy.Terms, error) {
			more, err := strconv.Atoi(text)
			return policy.Terms{Limits: limit(more + 1)}, err
		}
	}
	switch name {
	case otherKeys:
		err = setAll(o.Overrides, 'o', keys)
	case theseKeys:
		err = setAll(o.Overrides, 'u', keys)
	}
	if err != nil {
		return nil, err
	}
	p, err := policy.New(o)
	return &overridden{p, store, o.Overrides}, err
}

// measureOverrides times decisions of policies with and without overrides: about one key, and about a million keys drawn
// uniformly, whose states and overrides are in no cache. It also measures the memory that an override takes, and a change.
func measureOverrides(b *bench) error {
	var open limiters
	defer func() { open.close() }()
	var hot, cold []contender
	var draws [goroutines]stream
	for g := range draws {
		draws[g] = newStream(b.sequence, uniformDraw(b.liveKeys, int64(g+1)))
	}
	for _, name := range []string{noTable, emptyTable, otherKeys, theseKeys} {
		if !b.Wants("overrides", name) {
			continue
		}
		before := liveHeap()
		o, err := overriddenSubject(name, b.liveKeys)
		if err != nil {
			return err
		}
		open = append(open, o)
		if name == theseKeys {
			b.results.Set(overrideTag+"bytes", name, figures.Once(float64(liveHeap()-before)/float64(b.liveKeys)))
			b.results.Set(overrideTag+"change", name, timeChanges(b, o.table))
		}
		for i := range b.liveKeys {
			if !o.Take(key(i)) {
				return fmt.Errorf("%s: the first visit of key %d is denied", name, i)
			}
		}
		one := func(_, ops int) {
			for range ops {
				o.Take(hotOverridden)
			}
		}
		hot = append(hot, contender{name: name, ops: opsFor(b.turn, 1, one), take: one})
		cold = append(cold, contender{name: name, ops: b.sequence / 2, take: func(g, ops int) {
			draws[g][:ops*keyLen].take(o)
		}})
	}
	for name, stat := range b.race(1, hot) {
		b.results.Set(overrideTag+"hot", name, stat)
	}
	for name, stat := range b.race(1, cold) {
		b.results.Set(overrideTag+"cold", name, stat)
	}
	return nil
}

// hotOverridden is the key of requests about one key.
var hotOverridden = key(0)

// timeChanges times changes of one override each.
func timeChanges(b *bench, t *policy.OverrideTable) figures.Stat {
	var times []float64
	random := uniformDraw(b.liveKeys, 1)
	for range b.rounds {
		const changes = 20_000
		began := time.Now()
		for i := range changes {
			_ = t.Set("tenants", sluice.StringKey(key(random())), strconv.Itoa(i%5), time.Time{}) // the key is short
		}
		times = append(times, float64(time.Since(began).Nanoseconds())/changes)
	}
	return figures.Summarize(times)
}
