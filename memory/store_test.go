package memory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, newVirtual, storetest.TimeGoesBack(), storetest.Holds())
}

// TestMemoryKeepsTheContractConcurrently is the part of the contract in which the race detector can find something.
func TestMemoryKeepsTheContractConcurrently(t *testing.T) {
	storetest.Run(t, newVirtual, storetest.Concurrent(), storetest.Attempts(soak.Times(t, 1_000)))
}

func newVirtual(t *testing.T, clock *storetest.Clock) sluice.Store {
	t.Helper()
	return newStore(t, memory.Options{Clock: clock.Now})
}

// TestMemoryOptionsAreRefused: invalid options are refused, and the error has the remedy.
func TestMemoryOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		options memory.Options
		problem string // empty for none
	}{
		{memory.Options{}, ""},
		{memory.Options{MaxBytes: 1 << 20, Stripes: 1}, ""},
		{memory.Options{Stripes: 3}, ""},
		{memory.Options{MaxBytes: 1}, "MaxBytes is 1; give 1048576 or more"},
		{memory.Options{MaxBytes: -1}, "MaxBytes is -1"},
		{memory.Options{Stripes: -1}, "Stripes is -1; give 1 to 4096"},
		{memory.Options{Stripes: 5000}, "Stripes is 5000"},
	} {
		s, err := memory.New(c.options)
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("valid options %+v were refused: %v", c.options, err)
		case c.problem != "" && (err == nil || !strings.HasPrefix(err.Error(), "memory: ") || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%+v: got %v, want %q", c.options, err, c.problem)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDefaultClock: without a clock in the options, the store uses the machine's.
func TestDefaultClock(t *testing.T) {
	s := newStore(t, memory.Options{})
	l := sluice.MustLimit("own", sluice.TokenBucket{Rate: sluice.PerHour(10), Burst: 10})
	var d sluice.Decision
	var err error
	for range 10 {
		if d, err = s.Decide(t.Context(), sluice.Request{Limit: l, Key: sluice.StringKey("k"), Cost: 1}); err != nil || !d.Allowed {
			t.Fatalf("the limit has units left, but denied: %+v, %v", d, err)
		}
	}
	if at := time.UnixMicro(d.Receipt.At); time.Since(at) > time.Minute || time.Until(at) > time.Minute {
		t.Errorf("charged at %v", at)
	}
	d, err = s.Decide(t.Context(), sluice.Request{Limit: l, Key: sluice.StringKey("k"), Cost: 1})
	if err != nil || d.Allowed || d.RetryAfter < 5*time.Minute || d.RetryAfter > 6*time.Minute {
		t.Errorf("the eleventh unit: %+v, %v", d, err)
	}
}

// TestDecisionsDoNotAllocate: for limits whose state has a fixed size, no request about a known
// key allocates.
func TestDecisionsDoNotAllocate(t *testing.T) {
	now := int64(1_900_000_000_000_000)
	s := newStore(t, memory.Options{Clock: func() int64 { return now }})
	k := sluice.NewKey("GET", "/path", "192.0.2.1")
	for _, a := range generous {
		l := sluice.MustLimit("", a)
		for name, r := range map[string]sluice.Request{
			"a take":             {Limit: l, Key: k, Cost: 1},
			"one that is denied": {Limit: l, Key: k, Cost: 1 << 50},
			"a floor":            {Limit: l, Key: k, Cost: 1, Floor: 5},
			"a wait":             {Limit: l, Key: k, Cost: 1, MaxWait: time.Second},
		} {
			n := testing.AllocsPerRun(200, func() {
				now += 1_000_000
				if _, err := s.Decide(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
			if n > 0 {
				t.Errorf("%v: %s allocates %v times", l, name, n)
			}
		}
	}
}

// TestNewLimiter makes a limiter from a rate, and refuses invalid texts.
func TestNewLimiter(t *testing.T) {
	l, err := memory.NewLimiter("3/d")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Limit().Algorithm(); got != (sluice.TokenBucket{Rate: sluice.PerDay(3), Burst: 3, Debt: 3}) {
		t.Errorf("the limit is %v", got)
	}
	if d, err := l.AllowN(t.Context(), sluice.StringKey("key"), 3); err != nil || !d.Allowed || d.Remaining != 0 {
		t.Errorf("all 3 units should be there: %+v, %v", d, err)
	}
	var bad *sluice.RateError
	if _, err := memory.NewLimiter("often"); !errors.As(err, &bad) {
		t.Errorf("a text that is not a rate: %v", err)
	}
	var refused *sluice.LimitError
	if _, err := memory.NewLimiter("99999999999999999/s"); !errors.As(err, &refused) {
		t.Errorf("a rate that no limit accepts: %v", err)
	}
}
