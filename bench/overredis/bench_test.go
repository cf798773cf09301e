package overredis

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

func TestKeysOverRedisDiffer(t *testing.T) {
	seen := map[string]bool{}
	for subject := range 10 {
		for _, k := range keysOf(subject, 20_000) {
			if len(k) != figures.KeyLen || seen[k] {
				t.Fatalf("key %q of subject %d: seen before, or not of %d bytes", k, subject, figures.KeyLen)
			}
			seen[k] = true
		}
	}
}

// TestBarsOverRedis checks that figures at a bar hold, that figures just beyond it do not, and that a bar without
// figures is not measured.
func TestBarsOverRedis(t *testing.T) {
	measured := func(excess float64) figures.Results {
		r := figures.Results{}
		set := func(metric, subject string, v float64) { r.Set(metric, subject, figures.Once(v)) }
		for _, n := range full.callers {
			set(cell("keys", n), minimalName, 1000)
			set(cell("keys", n), sluiceName, 900-excess)
			set(cell("keys", n), sluiceGoName, 500)
			set(cell("keys", n), redisRateName, 500+excess)
		}
		set("keys-64-script", minimalName, 100)
		set("keys-64-script", sluiceName, 115+excess)
		set("batch-64-script", floorBatchName, 100)
		set("batch-64-script", sluiceBatchName, 150+excess)
		set(metricUsed, minimalName, 133)
		set(metricUsed, sluiceName, 165.4+excess)
		return r
	}
	for _, b := range judge(measured(0)) {
		if !b.Measured || !b.Holds || b.Found == "" {
			t.Errorf("%s: a figure at its bar should hold: %s: %s", b.Promise, b.Found, b.Verdict())
		}
	}
	beyond := judge(measured(1))
	if got := figures.Failed(beyond); got != len(beyond) {
		t.Errorf("%d of %d bars fail", got, len(beyond))
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s: %s of nothing", b.Promise, b.Verdict())
		}
	}
}

// TestOneSlowRoundInTenIsAllowed checks that one slow round in ten is allowed, and two are not.
func TestOneSlowRoundInTenIsAllowed(t *testing.T) {
	for slow, holds := range []bool{true, true, false} {
		r, us, least := figures.Results{}, make([]float64, 10), make([]float64, 10)
		for i := range us {
			us[i], least[i] = 2000, 2000
			if i < slow {
				us[i] = 1000
			}
		}
		r.Set(cell("keys", 64), sluiceName, figures.Summarize(us))
		r.Set(cell("keys", 64), minimalName, figures.Summarize(least))
		if b := often(r, 64); !b.Measured || b.Holds != holds {
			t.Errorf("%d slow rounds: %+v", slow, b)
		}
	}
}

// TestNoSlowerReportsTheWorst checks that the bar on go-redis reports its worst ratio.
func TestNoSlowerReportsTheWorst(t *testing.T) {
	r := figures.Results{}
	for n, us := range map[int]float64{1: 120, 16: 90, 64: 130, 256: 95} {
		r.Set(cell("keys", n), sluiceGoName, figures.Once(us*1000))
		r.Set(cell("keys", n), redisRateName, figures.Once(100*1000))
	}
	b := noSlower(r)
	if !b.Measured || b.Holds || b.Found != "16 callers: 90.0k/s : 100.0k/s = 0.90" {
		t.Errorf("got %+v", b)
	}
}

// TestTurnsBecomeRatesAndShares checks how the outcome of a turn becomes rates and shares. The time in scripts is recorded
// only if each call was one script.
func TestTurnsBecomeRatesAndShares(t *testing.T) {
	b := &bench{results: figures.Results{}, failed: map[string]string{}}
	turn := func(decided, errs int, scripts int64) outcome {
		o := outcome{
			tally: tally{decided: decided, errors: errs},
			took:  2 * time.Second, p50: 3 * time.Microsecond, p99: 5 * time.Microsecond,
			server: usage{process: time.Duration(decided) * 8 * time.Microsecond, scripts: time.Duration(scripts) * 6 * time.Microsecond, calls: scripts},
		}
		if errs > 0 {
			o.err = errors.New("busy")
		}
		return o
	}
	b.record("keys-1", "one script", []outcome{turn(100, 0, 100), turn(300, 0, 300), turn(200, 0, 200)})
	b.record("keys-1", "two scripts", []outcome{turn(75, 25, 200), turn(0, 0, 0)})
	for _, c := range []struct {
		metric, subject string
		want            string
	}{
		{"keys-1", "one script", "100.0 (50.0–150.0)"},
		{"keys-1-p50", "one script", "3.0"},
		{"keys-1-p99", "one script", "5.0"},
		{"keys-1-server", "one script", "8.0"},
		{"keys-1-script", "one script", "6.0"},
		{"keys-1-errors", "one script", "0.0"},
		{"keys-1", "two scripts", "18.8 (0.0–37.5)"},
		{"keys-1-errors", "two scripts", "25.0"},
	} {
		if got := b.results[c.metric][c.subject].Text(1); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.metric, c.subject, got, c.want)
		}
	}
	if s, ok := b.results["keys-1-script"]["two scripts"]; ok {
		t.Errorf("the time of two scripts is recorded for one: %v", s)
	}
	if got := b.failed["keys-1-two scripts"]; got != "busy" {
		t.Errorf("the first error is %q", got)
	}
}

// limiterFunc is a limiter without a server.
type limiterFunc func(key string) (bool, error)

func (f limiterFunc) Take(_ context.Context, key string) (bool, error) { return f(key) }

// TestTurnsCountAfterTheWarmUp checks that a turn counts only what happens after the warm-up.
func TestTurnsCountAfterTheWarmUp(t *testing.T) {
	const admitted, denied, failed = "admitted", "denied", "failed"
	taken := map[string]int{} // by the one caller
	l := newLoad(limiterFunc(func(key string) (bool, error) {
		taken[key]++
		if key == failed {
			return false, errors.New(failed)
		}
		return key == admitted, nil
	}), []string{admitted, denied, failed}, 1)
	var warm map[string]int
	spent := usage{process: time.Second, scripts: time.Minute, calls: 7}
	o, err := l.turn(t.Context(), time.Millisecond, 5*time.Millisecond, func() (usage, error) {
		if warm == nil {
			warm = maps.Clone(taken)
			return usage{}, nil
		}
		return spent, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(warm) == 0 {
		t.Error("the warm-up sends no request")
	}
	counted := func(key string) int { return taken[key] - warm[key] }
	if o.decided != counted(admitted)+counted(denied) || o.denied != counted(denied) || o.errors != counted(failed) {
		t.Errorf("counted %+v of %v after %v", o.tally, taken, warm)
	}
	if (o.err != nil) != (o.errors > 0) || o.server != spent || o.took < 5*time.Millisecond || o.p50 > o.p99 {
		t.Errorf("got %+v", o)
	}
}

func TestTurnEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newLoad(limiterFunc(func(string) (bool, error) { cancel(); return true, nil }), []string{"key"}, 3)
	_, err := l.turn(ctx, time.Hour, time.Hour, func() (usage, error) { return usage{}, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTurnFailsWhenTheServerCannotBeRead(t *testing.T) {
	failed := errors.New("no INFO")
	l := newLoad(limiterFunc(func(string) (bool, error) { return true, nil }), []string{"key"}, 2)
	_, err := l.turn(t.Context(), 0, time.Hour, func() (usage, error) { return usage{}, failed })
	if !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
