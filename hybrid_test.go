package sluice_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// Terms that are left out have their defaults, and the others stay.
func TestHybridDefaults(t *testing.T) {
	exact := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerSecond(1000)})
	for _, step := range []struct {
		given, want sluice.Hybrid
		escrow      int64
	}{
		{sluice.Hybrid{}, sluice.Hybrid{Sync: 100 * time.Millisecond, Life: 2 * time.Second, Stranded: 0.05}, 50},
		{sluice.Hybrid{Sync: 10 * time.Second}, sluice.Hybrid{Sync: 10 * time.Second, Life: 40 * time.Second, Stranded: 0.05}, 50},
		{
			sluice.Hybrid{Sync: 10 * time.Millisecond, Life: 40 * time.Millisecond, Stranded: 0.29, Overdraft: 1000, Credit: 1000},
			sluice.Hybrid{Sync: 10 * time.Millisecond, Life: 40 * time.Millisecond, Stranded: 0.29, Overdraft: 1000, Credit: 1000},
			290,
		},
		{
			sluice.Hybrid{Stranded: 1, Life: time.Minute},
			sluice.Hybrid{Sync: 100 * time.Millisecond, Life: time.Minute, Stranded: 1},
			1000,
		},
	} {
		l, err := exact.WithHybrid(step.given)
		if err != nil {
			t.Error(err)
			continue
		}
		if *l.Hybrid() != step.want || l.Escrow() != step.escrow {
			t.Errorf("%+v is %+v with an escrow of %d, want %+v and %d", step.given, *l.Hybrid(), l.Escrow(), step.want, step.escrow)
		}
		if l.ID() != exact.ID() || l.NameID() != exact.NameID() || l.Name() != exact.Name() || *l.Params() != *exact.Params() || l.String() != exact.String() {
			t.Errorf("%v with hybrid terms is another limit than %v", l, exact)
		}
	}
	if exact.Hybrid() != nil || exact.Escrow() != 0 {
		t.Error("WithHybrid has changed the limit, not a copy")
	}
}

// TestLargestEscrow: a part of the largest capacity is computed exactly.
func TestLargestEscrow(t *testing.T) {
	for _, step := range []struct{ capacity, escrow int64 }{{1<<53 - 2, 1<<53 - 2}, {1, 1}} {
		l := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000), Burst: step.capacity})
		h, err := l.WithHybrid(sluice.Hybrid{Stranded: 1})
		if err != nil {
			t.Fatal(err)
		}
		if h.Escrow() != step.escrow {
			t.Errorf("the whole of %d units is %d", step.capacity, h.Escrow())
		}
	}
}

func TestWithHybridRefuses(t *testing.T) {
	r := sluice.PerMinute(100)
	bucket := sluice.TokenBucket{Rate: r}
	for _, step := range []struct {
		algorithm sluice.Algorithm
		terms     sluice.Hybrid
		want      string
	}{
		{
			sluice.LeakyBucket{Rate: r},
			sluice.Hybrid{},
			`Hybrid is given with a leaky bucket, whose units leave in one order for all processes; leave out Hybrid, or use a token bucket`,
		},
		{
			sluice.TokenBucket{Rate: r, WarmUp: time.Second},
			sluice.Hybrid{},
			`Hybrid is given with a warm-up, whose rate depends on the order of all requests; leave out Hybrid, or the warm-up`,
		},
		{
			sluice.FixedWindow{Rate: r, CountDenied: true},
			sluice.Hybrid{},
			`Hybrid is given with CountDenied: a denial in one process would have to count in all others at once; leave out Hybrid, or CountDenied`,
		},
		{
			sluice.SlidingWindow{Rate: r, CountDenied: true},
			sluice.Hybrid{},
			`Hybrid is given with CountDenied: a denial in one process would have to count in all others at once; leave out Hybrid, or CountDenied`,
		},
		{
			sluice.SlidingCounter{Rate: r, CountDenied: true},
			sluice.Hybrid{},
			`Hybrid is given with CountDenied: a denial in one process would have to count in all others at once; leave out Hybrid, or CountDenied`,
		},
		{
			sluice.SlidingLog{Rate: r, CountDenied: true},
			sluice.Hybrid{},
			`Hybrid is given with CountDenied: a denial in one process would have to count in all others at once; leave out Hybrid, or CountDenied`,
		},
		{
			sluice.SlidingLog{Rate: r, MinInterval: time.Millisecond},
			sluice.Hybrid{},
			`Hybrid is given with MinInterval, which depends on the last request of any process; leave out Hybrid, or MinInterval`,
		},
		{
			sluice.Concurrency{Max: 100},
			sluice.Hybrid{},
			`Hybrid is given with a concurrency limit, whose units are not spent but released; leave out Hybrid, or bound the rate with a token bucket`,
		},
		{bucket, sluice.Hybrid{Sync: time.Millisecond}, `Hybrid.Sync is 1ms; give 10ms to 10s`},
		{bucket, sluice.Hybrid{Sync: 11 * time.Second}, `Hybrid.Sync is 11s; give 10ms to 10s`},
		{bucket, sluice.Hybrid{Sync: 10*time.Millisecond + 1}, `Hybrid.Sync is 10.000001ms; give whole microseconds`},
		{bucket, sluice.Hybrid{Life: 399 * time.Millisecond}, `Hybrid.Life is 399ms, less than 4 times Sync; give 400ms or more, or a shorter Sync`},
		{bucket, sluice.Hybrid{Life: -1}, `Hybrid.Life is -1ns; give 0s to 1m0s`},
		{bucket, sluice.Hybrid{Life: 61 * time.Second}, `Hybrid.Life is 1m1s; give 0s to 1m0s`},
		{bucket, sluice.Hybrid{Stranded: 1.01}, `Hybrid.Stranded is 1.01; give 0.000001 to 1`},
		{bucket, sluice.Hybrid{Stranded: -0.05}, `Hybrid.Stranded is -0.05; give 0.000001 to 1`},
		{bucket, sluice.Hybrid{Stranded: math.NaN()}, `Hybrid.Stranded is NaN; give 0.000001 to 1`},
		{
			bucket,
			sluice.Hybrid{Stranded: 0.009},
			`Hybrid.Stranded of 0.009 is less than one unit of 100, so that nothing can be granted; give 0.01 or more, or leave out Hybrid`,
		},
		{
			sluice.TokenBucket{Rate: sluice.PerSecond(3)},
			sluice.Hybrid{},
			`Hybrid.Stranded of 0.05 is less than one unit of 3, so that nothing can be granted; give 0.333334 or more, or leave out Hybrid`,
		},
		{bucket, sluice.Hybrid{Overdraft: 101}, `Hybrid.Overdraft is 101; give 0 to 100`},
		{bucket, sluice.Hybrid{Overdraft: -1}, `Hybrid.Overdraft is -1; give 0 to 100`},
		{bucket, sluice.Hybrid{Credit: 101}, `Hybrid.Credit is 101; give 0 to 100`},
	} {
		l, err := sluice.MustLimit("api", step.algorithm).WithHybrid(step.terms)
		var bad *sluice.LimitError
		if l != nil || !errors.As(err, &bad) || err.Error() != `sluice: limit "api": `+step.want {
			t.Errorf("%v with %+v: %v, want %s", step.algorithm, step.terms, err, step.want)
		}
	}
	if _, err := sluice.MustLimit("", bucket).WithHybrid(sluice.Hybrid{Credit: -1}); err == nil || err.Error() != `sluice: limit: Hybrid.Credit is -1; give 0 to 100` {
		t.Error(err)
	}
}

// TestGrantableAlgorithms has a limit of each algorithm that accepts hybrid terms. A refusal names
// a part of the capacity that is accepted.
func TestGrantableAlgorithms(t *testing.T) {
	r := sluice.PerMinute(100)
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: r},
		sluice.FixedWindow{Rate: r},
		sluice.FixedWindow{Rate: r, Opened: true},
		sluice.FixedWindow{Rate: r, Calendar: sluice.CalendarDay},
		sluice.SlidingWindow{Rate: r},
		sluice.SlidingCounter{Rate: r},
		sluice.SlidingLog{Rate: r},
	} {
		if _, err := sluice.MustLimit("", a).WithHybrid(sluice.Hybrid{}); err != nil {
			t.Error(err)
		}
	}
	for n := int64(1); n < 40; n++ {
		l := sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerSecond(n)})
		least := float64((1_000_000+n-1)/n) / 1_000_000
		if _, err := l.WithHybrid(sluice.Hybrid{Stranded: least}); err != nil {
			t.Errorf("the part that a refusal names is refused: %v", err)
		}
	}
}
