package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// newStore returns a store for the examples. Its time does not pass, so that the output does not
// depend on how long an example takes.
func newStore() *memory.Store {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	store, err := memory.New(memory.Options{Clock: func() int64 { return now }})
	if err != nil {
		log.Fatal(err)
	}
	return store
}

func ExampleParseRate() {
	for _, text := range []string{"100/m", "10/30s", "100/300", "ten/m"} {
		rate, err := sluice.ParseRate(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(rate.Count(), "in", rate.Period())
	}
	// Output:
	// 100 in 1m0s
	// 10 in 30s
	// 100 in 5m0s
	// sluice: rate "ten/m" needs a whole count of 1 or more before the slash; write it as in 100/m, 5/s or 10/30s
}

func ExampleNewLimit() {
	limit, err := sluice.NewLimit("login", sluice.SlidingLog{Rate: sluice.PerMinute(5), MinInterval: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limit)

	_, err = sluice.NewLimit("login", sluice.SlidingLog{Rate: sluice.PerMinute(0)})
	fmt.Println(err)
	// Output:
	// login: sliding_log(5/m min_interval=1s)
	// sluice: limit "login": Rate is 0 units a period; give 1 or more
}

// A client that keeps trying stays denied, because denied attempts count; a client that waits for
// RetryAfter is allowed.
func ExampleSlidingWindow() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	store, err := memory.New(memory.Options{Clock: func() int64 { return now }})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, sluice.MustLimit("login", sluice.SlidingWindow{Rate: sluice.PerMinute(2), Cells: 6, CountDenied: true}))
	for _, seconds := range []int64{0, 0, 20, 20, 20, 20, 50} {
		now += seconds * 1_000_000
		d, err := limiter.Allow(context.Background(), sluice.StringKey("alice"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.RetryAfter)
	}
	// Output:
	// true 0s
	// true 0s
	// false 50s
	// false 50s
	// false 50s
	// false 50s
	// true 0s
}

func ExampleNewKey() {
	fmt.Println(sluice.NewKey("a:b", "c") == sluice.NewKey("a", "b:c"))
	fmt.Println(sluice.NewKey("alice") == sluice.StringKey("alice"))
	// Output:
	// false
	// true
}

func ExampleLimiter_Allow() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 2}))
	for range 3 {
		d, err := limiter.Allow(context.Background(), sluice.StringKey("alice"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Remaining, d.Reason, d.RetryAfter)
	}
	// Output:
	// true 1  0s
	// true 0  0s
	// false 0 limited 1s
}

func ExampleLimiter_AllowN() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("bytes", sluice.TokenBucket{Rate: sluice.PerSecond(1000), Burst: 5000}))
	for _, n := range []int64{4000, 2000, 6000} {
		d, err := limiter.AllowN(context.Background(), sluice.StringKey("alice"), n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(n, d.Allowed, d.Reason, d.RetryAfter)
	}
	// Output:
	// 4000 true  0s
	// 2000 false limited 1s
	// 6000 false never 0s
}

func ExampleLimiter_Peek() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.PerHour(10)}))
	key := sluice.StringKey("alice")
	for range 2 {
		d, err := limiter.PeekN(context.Background(), key, 3)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 10
	// true 10
}

func ExampleLimiter_Reserve() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("jobs", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 2}))
	key := sluice.StringKey("alice")
	for _, wait := range []time.Duration{0, 5 * time.Second, 3 * time.Second} {
		r, err := limiter.ReserveN(context.Background(), key, 2, wait)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.OK(), r.Decision().Delay, r.Decision().RetryAfter)
	}
	// Output:
	// true 0s 0s
	// true 2s 0s
	// false 0s 1s
}

func ExampleReservation_Cancel() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("jobs", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	r, err := limiter.ReserveN(ctx, key, 4, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Cancel(ctx))
	d, err := limiter.PeekN(ctx, key, 0)
	fmt.Println(d.Remaining, err)
	fmt.Println(errors.Is(r.Cancel(ctx), sluice.ErrEnded))
	// Output:
	// <nil>
	// 5 <nil>
	// true
}

// A model's answer costs as many tokens as it turns out to have: reserve the likely cost, and
// settle the actual one.
func ExampleReservation_Settle() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("tokens", sluice.TokenBucket{Rate: sluice.PerMinute(1000)}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	r, err := limiter.ReserveN(ctx, key, 400, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Decision().Remaining)
	if err := r.Settle(ctx, 150); err != nil {
		log.Fatal(err)
	}
	d, err := limiter.PeekN(ctx, key, 0)
	fmt.Println(d.Remaining, err)
	// Output:
	// 600
	// 850 <nil>
}

func ExampleLimiter_Wait() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, sluice.MustLimit("mail", sluice.TokenBucket{Rate: sluice.Every(time.Millisecond), Burst: 1}))
	for range 3 { // the second and the third wait a millisecond each
		if err := limiter.Wait(context.Background(), sluice.StringKey("alice")); err != nil {
			log.Fatal(err)
		}
	}
	err = limiter.WaitN(context.Background(), sluice.StringKey("alice"), 2)
	fmt.Println(errors.Is(err, sluice.ErrNever))
	// Output: true
}

func ExampleLimiter_Acquire() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("uploads", sluice.Concurrency{Max: 1}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	lease, err := limiter.Acquire(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	second, err := limiter.Acquire(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.OK(), second.OK(), second.Decision().Reason)
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	third, err := limiter.Acquire(ctx, key)
	fmt.Println(third.OK(), err)
	// Output:
	// true false limited
	// true <nil>
}

func ExampleLimiter_SetLimit() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 10}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	if _, err := limiter.AllowN(ctx, key, 4); err != nil {
		log.Fatal(err)
	}
	if err := limiter.SetLimit(sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 5})); err != nil {
		log.Fatal(err)
	}
	d, err := limiter.PeekN(ctx, key, 0)
	fmt.Println(d.Remaining, "of", d.Limit, err)
	// Output: 1 of 5 <nil>
}

func ExampleLimiter_Reset() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.PerDay(1)}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	for range 2 {
		d, err := limiter.Allow(ctx, key)
		fmt.Println(d.Allowed, err)
		if err := limiter.Reset(ctx, key); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true <nil>
	// true <nil>
}

// Two limits as one decision: both are charged, or none is.
func ExampleStore() {
	var store sluice.Store = newStore()
	perUser := sluice.MustLimit("user", sluice.FixedWindow{Rate: sluice.PerMinute(10)})
	everybody := sluice.MustLimit("all", sluice.FixedWindow{Rate: sluice.PerMinute(1)})
	requests := []sluice.Request{
		{Limit: perUser, Key: sluice.StringKey("alice"), Cost: 1},
		{Limit: everybody, Cost: 1},
	}
	decisions := make([]sluice.Decision, len(requests))
	for range 2 {
		if err := store.DecideAll(context.Background(), requests, decisions); err != nil {
			log.Fatal(err)
		}
		fmt.Println(decisions[0].Allowed, decisions[0].Remaining, decisions[1].Allowed, decisions[1].Remaining)
	}
	// Output:
	// true 9 true 0
	// true 9 false 0
}

// traced is a store that reports each decision, such as to a tracer. Bans pass it by.
type traced struct{ sluice.Store }

func (t traced) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	d, err := t.Store.Decide(ctx, r)
	fmt.Println("decided:", r.Limit.Name(), d.Allowed, err)
	return d, err
}

func (t traced) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	err := t.Store.DecideAll(ctx, rs, out)
	fmt.Println("decided:", len(rs), "requests", err)
	return err
}

func (t traced) Unwrap() sluice.Store { return t.Store }

// A store that wraps another one keeps its bans, by Unwrap.
func ExampleAs() {
	store := traced{newStore()}
	ctx, alice := context.Background(), sluice.StringKey("alice")
	login := sluice.MustLimit("login", sluice.SlidingLog{Rate: sluice.PerMinute(5)})

	bans, ok := sluice.As[sluice.Banner](store)
	if !ok {
		log.Fatal("the store takes no bans by hand")
	}
	if err := bans.BanKey(ctx, login, alice, time.Hour); err != nil {
		log.Fatal(err)
	}
	d, err := store.Decide(ctx, sluice.Request{Limit: login, Key: alice, Cost: 1, Ban: &sluice.Ban{}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Reason, d.RetryAfter)
	// Output:
	// decided: login false <nil>
	// banned 1h0m0s
}
