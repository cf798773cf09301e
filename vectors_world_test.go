package sluice_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// forever is a wait that no limit reaches.
const forever = time.Duration(math.MaxInt64)

// fields are the settings or arguments of a vector.
type fields map[string]any

// num returns a number, which may be written as "inf".
func (f fields) num(name string, or float64) float64 {
	switch n := f[name].(type) {
	case float64:
		return n
	case string:
		if n, err := strconv.ParseFloat(n, 64); err == nil {
			return n
		}
	}
	return or
}

// count returns a whole number.
func (f fields) count(name string, or int64) int64 { return int64(f.num(name, float64(or))) }

// n returns how many units a step asks for.
func (f fields) n() int64 { return f.count("n", 1) }

func (f fields) text(name string) string {
	s, _ := f[name].(string)
	return s
}

// flag returns a yes or no.
func (f fields) flag(name string, or bool) bool {
	if b, ok := f[name].(bool); ok {
		return b
	}
	return or
}

func (f fields) key() sluice.Key { return sluice.StringKey(f.text("key")) }

// list returns the objects of a list.
func (f fields) list(name string) []fields {
	all, _ := f[name].([]any)
	out := make([]fields, 0, len(all))
	for _, a := range all {
		if m, ok := a.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// world is a store with a clock of its own, in which one vector happens.
type world struct {
	t     *testing.T
	ctx   context.Context
	v     *vector
	store *memory.Store
	// now is the clock and latest the latest it has shown, in microseconds.
	now, latest int64
	// back is how far the clock may go back, a period of the limit; beyond, it
	// stands still, as the store's own clock does. Zero is any distance.
	back time.Duration
	// also are further results of the step, compared with its fields.
	also map[string]any
	// tolerance is how much numbers may differ: the answers are in whole microseconds.
	tolerance float64
	// excuse, once set, says why the system answers the rest otherwise.
	excuse string
	// broken says that the vector's settings were refused.
	broken bool
	// laws are checked at the end.
	laws []func()
}

func newWorld(t *testing.T, v *vector) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), v: v}
	if v.TUnit == "relative" {
		w.now = 1_000_000_000_000
	}
	w.tolerance = 1.5e-6 * float64(time.Second) / float64(w.unit())
	store, err := memory.New(memory.Options{Clock: func() int64 { return w.now }, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.store = store
	return w
}

// unit is that of the vector's times.
func (w *world) unit() time.Duration {
	if w.v.TUnit == "ms" {
		return time.Millisecond
	}
	return time.Second
}

// advance sets the clock to the time of a step and forgets the one before.
func (w *world) advance(s fields) {
	w.also = nil
	if _, ok := s["t"].(float64); !ok {
		return
	}
	w.now = int64(span(s.num("t", 0), w.unit()) / time.Microsecond)
	if w.back > 0 && w.latest-w.now > int64(w.back/time.Microsecond) {
		w.now = w.latest
	}
	w.latest = max(w.latest, w.now)
}

// pass moves the clock on by a wait.
func (w *world) pass(d time.Duration) { w.now += int64(d / time.Microsecond) }

// in writes a time as a number of the vector's units.
func (w *world) in(d time.Duration) float64 { return float64(d) / float64(w.unit()) }

// limiter makes a limiter over the world's store.
func (w *world) limiter(name string, a sluice.Algorithm) (*sluice.Limiter, error) {
	limit, err := sluice.NewLimit(name, a)
	if err != nil {
		return nil, err
	}
	return sluice.NewLimiter(w.store, limit), nil
}

// change puts other numbers in force.
func change(l *sluice.Limiter, a sluice.Algorithm) error {
	limit, err := sluice.NewLimit(l.Limit().Name(), a)
	if err != nil {
		return err
	}
	return l.SetLimit(limit)
}

// settle brings the state of a key under the numbers in force, as of a time: a unit
// is taken and given back.
func (w *world) settle(l *sluice.Limiter, k sluice.Key, at int64) error {
	now := w.now
	w.now = at
	defer func() { w.now = now }()
	r, err := l.Reserve(w.ctx, k, 1, forever)
	if err != nil {
		return err
	}
	return r.Cancel(w.ctx)
}

// unknown reports an operation that an adapter does not have.
func unknown(s fields) (any, error) { return nil, fmt.Errorf("no such operation: %v", s) }

// span returns a number of units in whole microseconds.
func span(n float64, unit time.Duration) time.Duration {
	us := math.Round(n * float64(unit/time.Microsecond))
	if math.Abs(us) > float64(math.MaxInt64/1000) {
		return time.Duration(math.Copysign(float64(1<<62), us))
	}
	return time.Duration(us) * time.Microsecond
}

// ratio returns a number as the fraction of whole numbers that its digits tell.
func ratio(n float64) (num, den int64, ok bool) {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(n, 'g', -1, 64))
	if !ok || !r.Num().IsInt64() || !r.Denom().IsInt64() {
		return 0, 1, false
	}
	return r.Num().Int64(), r.Denom().Int64(), true
}

// perSecond returns the rate of n units a second. Numbers that make no rate make one
// that NewLimit refuses.
func perSecond(n float64) sluice.Rate {
	num, den, ok := ratio(n)
	if !ok || den > int64(forever/time.Second) {
		return sluice.Rate{}
	}
	return sluice.Per(num, time.Duration(den)*time.Second)
}

// perText returns the rate of n/period or of nginx's nr/period.
func perText(text string) (sluice.Rate, error) {
	return sluice.ParseRate(strings.Replace(text, "r/", "/", 1))
}

// rate returns a rate written as a text or as units a second.
func (f fields) rate(name string) (sluice.Rate, error) {
	if text := f.text(name); text != "" && text != "inf" {
		return perText(text)
	}
	return perSecond(f.num(name, 0)), nil
}

// inSecond returns the units of a rate in one second.
func inSecond(r sluice.Rate) float64 { return float64(r.Count()) / r.Period().Seconds() }

// debtor makes the bucket with the largest debt that can be counted.
func debtor(b sluice.TokenBucket) sluice.TokenBucket {
	for b.Debt = 1 << 50; b.Debt > 1; b.Debt /= 2 {
		if _, err := sluice.NewLimit("", b); err == nil {
			break
		}
	}
	return b
}

// oneOf is a result for which systems have several words.
type oneOf []string

// matches compares a result with the one expected, of which nil is any.
func (w *world) matches(got, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case float64:
		n, ok := number(got)
		return ok && math.Abs(n-want) <= w.tolerance
	case string:
		if words, ok := got.(oneOf); ok {
			return slices.Contains(words, want)
		}
		return got == want
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !w.matches(list[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		all, ok := got.(fields)
		for name := range want {
			ok = ok && w.matches(all[name], want[name])
		}
		return ok
	default:
		return got == want
	}
}

// alsoMatches compares what else a step tells.
func (w *world) alsoMatches(s fields) bool {
	if want, ok := s["tokens_before"]; ok && !w.matches(w.also["tokens_before"], want) {
		return false
	}
	// nginx counts whole milliseconds, and drops what is left of one.
	want, given := number(s["delay_ms"])
	got, _ := number(w.also["delay_ms"])
	return !given || w.matches(got, want) || math.Abs(got-want) < 1
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// up divides a duration, rounding up.
func up(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
