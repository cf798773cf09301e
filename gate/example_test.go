package gate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// must returns v, and panics if there is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An edge of some protocol makes requests wait for their turn and settles their costs.
func ExampleGate() {
	store := must(memory.New(memory.Options{Clock: func() int64 { return 1e15 }}))
	rules := must(policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "tokens", Key: []policy.Part{policy.Global()},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerMinute(1000)})},
		Cost:   policy.Cost{Source: policy.CostResponseHeader, Header: "Tokens", Estimate: 500},
	}}}))
	g := must(gate.New(store, gate.Options{}))

	serve := func(tokens string) {
		ctx := context.Background()
		v := rules.Decide(ctx, store, &policy.Attributes{})
		pass, err := g.Enter(ctx, &v)
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		fmt.Println("served with", v.Tightest.Remaining, "left")
		pass.Leave(ctx, policy.Outcome{Status: 200, Header: func(string) (string, bool) { return tokens, true }})
	}
	serve("20")
	serve("900")
	serve("20")
	// Output:
	// served with 500 left
	// served with 480 left
	// refused: gate: the verdict is a denial
}

func ExampleError() {
	store := must(memory.New(memory.Options{}))
	rules := must(policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "smooth", Key: []policy.Part{policy.Global()},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerHour(1), Queue: 5})},
	}}}))
	g := must(gate.New(store, gate.Options{MaxDelay: time.Minute}))
	for range 2 {
		v := rules.Decide(context.Background(), store, &policy.Attributes{})
		_, err := g.Enter(context.Background(), &v)
		fmt.Println(err, errors.Is(err, gate.ErrTooLate))
	}
	// Output:
	// <nil> false
	// gate: rule "smooth": the wait is longer than requests may wait true
}
