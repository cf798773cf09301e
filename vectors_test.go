package sluice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// The systems whose work this project takes over are described by test vectors:
// calls, at given times, and their results. Each system has an adapter, in a file of its
// own, that implements its calls over the public API. SLUICE_VECTORS names another file
// of vectors to run.
const vectorsFile = "testdata/vectors/source-systems.json"

// system makes an adapter for one vector. Its error is a refusal, if the vector
// has numbers that no limit accepts.
type system func(w *world, v *vector) (adapter, error)

// adapter answers the calls of a system.
type adapter interface {
	// do makes the call of a step at the world's time and returns its result.
	do(s step) (any, error)
}

// systems are all that there is to take over.
var systems = map[string]system{
	"redis_lua_token_bucket":       redisLua,
	"rolling_window":               rollingWindow,
	"sub_window_counter":           subWindow,
	"fixed_window":                 articleWindow,
	"think_throttle_v1_history":    thinkThrottle1,
	"think_throttle_v3":            thinkThrottle3,
	"think_throttle_v3_rate_parse": thinkThrottleRate,
	"token_pseudo":                 tokenPseudo,
	"resty_limit_req":              restyReq,
	"resty_limit_count":            restyCount,
	"resty_limit_conn":             restyConn,
	"resty_limit_traffic":          restyTraffic,
	"nginx_limit_req":              nginxReq,
	"redis_leaky_ban":              leakyBan,
	"x_time_rate":                  xTimeRate,
	"guava_smooth":                 guavaSmooth,
	"lru":                          lru,
	"lru_limiter":                  lru,
}

// unsupported are systems that are out of scope, with the reason.
var unsupported = map[string]string{
	"sometimes": "rate.Sometimes counts calls of a function, it limits nobody",
}

// refusal says that a vector has numbers which limits refuse, and why.
type refusal string

func (r refusal) Error() string { return string(r) }

// correct holds what a right implementation answers to the steps of vectors that
// show a fault, where their notes say so.
var correct = map[string][]any{
	"TB-04-defect": {1, 1, 1, 0, 0, 1, 1, 1}, // the store's own clock, whatever unit the caller's is in
	"TB-06-defect": {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
	"TB-09-defect": {"error", 3},
	"TB-10-defect": {1, 0, 0},
	"TB-11-defect": {"error", "error", "error", "error", "error"},
	"TD-12-defect": {
		map[string]any{"allow": true}, map[string]any{"allow": false, "wait": 60},
		map[string]any{"allow": false, "wait": 59}, map[string]any{"allow": false, "wait": 1},
	},
	"TD-13-defect": {true, true, false, true, true, false, false},
	"TD-17-defect": {true, true, true, false, false, false, false},
	"TD-18-defect": {true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, false},
	"TR-11-defect": {"error"}, "TR-12-defect": {"error"}, "TR-13-defect": {"error"}, "TR-14-defect": {"error"},
	"FW-01-defect": {true, true, true, false, true, true},
	"RR-13-defect": {"ok", "ok", "ok", "ok", "ok", "ok", "rejected", "ok", "rejected", "rejected", "rejected", "rejected", "rejected", "rejected"},
	"CT-07-defect": {1, 0, "rejected", "rejected", 1, 2, 1, 2, 1},
}

// vector is one test vector.
type vector struct {
	ID     string         `json:"id"`
	System string         `json:"system"`
	Unit   string         `json:"t_unit"`
	Config map[string]any `json:"config"`
	Steps  []step         `json:"steps"`
	Check  string         `json:"check"`

	// Of a vector that is checked by its rate.
	Allowed  any `json:"allowed"`
	StepMS   any `json:"step_ms"`
	Duration any `json:"duration_ms"`
}

func (v *vector) defect() bool { return strings.HasSuffix(v.ID, "-defect") }

// fields are the named values of a configuration or a step.
type fields map[string]any

// step is one call: t, op, arguments, and the result to expect.
type step = fields

// has reports whether a field is there.
func (f fields) has(name string) bool { return f[name] != nil }

// text returns a field that is a string.
func (f fields) text(name string) string {
	s, _ := f[name].(string)
	return s
}

// rat returns a field that is a number, exactly, or the given one if there is none.
func (f fields) rat(name string, otherwise int64) *big.Rat {
	if r, ok := number(f[name]); ok {
		return r
	}
	return big.NewRat(otherwise, 1)
}

// int returns a field that is a whole number.
func (f fields) int(name string, otherwise int64) int64 {
	r := f.rat(name, otherwise)
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

// key returns the key that a step is about.
func (f fields) key() sluice.Key {
	if !f.has("key") {
		return sluice.Key{}
	}
	return sluice.StringKey(fmt.Sprint(f["key"]))
}

// number returns a JSON number, or one of ours, as a fraction.
func number(v any) (*big.Rat, bool) {
	switch n := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(n.String())
	case float64:
		r := new(big.Rat).SetFloat64(n)
		return r, r != nil
	case int:
		return big.NewRat(int64(n), 1), true
	case int64:
		return big.NewRat(n, 1), true
	default:
		return nil, false
	}
}

// micros returns a time in the given unit as microseconds, rounded down.
func micros(r *big.Rat, unit string) int64 {
	each := int64(1_000_000)
	if unit == "ms" {
		each = 1000
	}
	us := new(big.Rat).Mul(r, big.NewRat(each, 1))
	return new(big.Int).Quo(us.Num(), us.Denom()).Int64()
}

// world is a store whose clock the steps of a vector set.
type world struct {
	*memory.Store
	ctx context.Context
	now int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{ctx: t.Context()}
	store, err := memory.New(memory.Options{Clock: func() int64 { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	w.Store = store
	return w
}

// limit makes a limit; one that is refused makes the vector one that cannot be
// expressed.
func limit(name string, a sluice.Algorithm) (*sluice.Limit, error) {
	l, err := sluice.NewLimit(name, a)
	if err != nil {
		return nil, refusal(err.Error())
	}
	return l, nil
}

// perSecond returns the rate of a number of units a second, times scale.
func perSecond(n any, scale int64) (sluice.Rate, error) {
	r, ok := number(n)
	if !ok {
		return sluice.Rate{}, refusal(fmt.Sprintf("a rate of %v a second is no number", n))
	}
	r = new(big.Rat).Mul(r, big.NewRat(scale, 1_000_000))
	if !r.Num().IsInt64() || !r.Denom().IsInt64() || r.Sign() <= 0 || r.Denom().Cmp(big.NewInt(1<<53)) > 0 {
		return sluice.Rate{}, refusal(fmt.Sprintf("a rate of %v a second is refused: it must be more than one in 100 years", n))
	}
	return sluice.Per(r.Num().Int64(), time.Duration(r.Denom().Int64())*time.Microsecond), nil
}

// TestVectors runs every vector that can be checked.
func TestVectors(t *testing.T) {
	file := vectorsFile
	if other := os.Getenv("SLUICE_VECTORS"); other != "" {
		file = other
	}
	counts := map[string]int{}
	listed := map[string]string{}
	for _, v := range readVectors(t, file) {
		outcome, reason := "", ""
		t.Run(v.ID, func(t *testing.T) { outcome, reason = check(t, v) })
		counts[outcome]++
		if reason != "" {
			listed[v.ID] = reason
		}
	}
	total := 0
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[outcome], outcome)
		total += counts[outcome]
	}
	t.Logf("%4d vectors in all", total)
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		t.Logf("%s: %s", id, listed[id])
	}
	if counts[""] > 0 {
		t.Errorf("%d vectors were neither run nor listed", counts[""])
	}
	if file == vectorsFile {
		checkCounts(t, counts, listed)
	}
}

// The outcomes of a vector.
const (
	ran      = "agree"
	differs  = "show a fault that is not matched"
	partly   = "agree until the clock steps back, and keep the bound after that"
	replaced = "are replaced by a rule of ours"
	refused  = "have numbers that limits refuse"
	outside  = "are out of scope"
	words    = "are described in words only"
)

// checkCounts holds the outcomes of the vectors in this repository, so that none
// leaves the tests unseen.
func checkCounts(t *testing.T, counts map[string]int, listed map[string]string) {
	t.Helper()
	want := map[string]int{ran: 62, differs: 24, partly: 3, replaced: 1, refused: 4, outside: 4, words: 61}
	if !maps.Equal(counts, want) {
		t.Errorf("the outcomes are %v, want %v", counts, want)
	}
	ids := []string{"GV-13", "GV-19", "LR-04", "SM-01", "SM-02", "SM-03", "SM-05", "XT-03", "XT-13", "XT-16", "XT-23", "XT-25"}
	if got := slices.Sorted(maps.Keys(listed)); !slices.Equal(got, ids) {
		t.Errorf("listed are %v, want %v", got, ids)
	}
}

func readVectors(t *testing.T, file string) []*vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Vectors []*vector `json:"vectors"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&all); err != nil || len(all.Vectors) == 0 {
		t.Fatalf("%s: %v, %d vectors", file, err, len(all.Vectors))
	}
	return all.Vectors
}

// check runs a vector. It returns its outcome, empty for a failure, and why it
// could not be run as it is written.
func check(t *testing.T, v *vector) (outcome, reason string) {
	t.Helper()
	if v.Check == "none" {
		return words, ""
	}
	if why := unsupported[v.System]; why != "" {
		return outside, why
	}
	make, ok := systems[v.System]
	if !ok {
		t.Errorf("no adapter for the system %q", v.System)
		return "", ""
	}
	w := newWorld(t)
	a, err := make(w, v)
	var why refusal
	switch {
	case errors.As(err, &why) && !v.defect():
		return refused, string(why)
	case err != nil:
		t.Errorf("%v", err)
		return "", ""
	}
	if c, ok := a.(interface {
		whole(t *testing.T) (outcome, reason string)
	}); ok {
		if outcome, reason := c.whole(t); outcome != "" || t.Failed() {
			return outcome, reason
		}
	}
	return runSteps(t, w, v, a)
}

// runSteps makes the calls of a vector one after another.
func runSteps(t *testing.T, w *world, v *vector, a adapter) (outcome, reason string) {
	t.Helper()
	if len(v.Steps) == 0 {
		t.Errorf("the vector has no steps, and a check of %q", v.Check)
		return "", ""
	}
	back, wrong := false, 0
	for i, s := range v.Steps {
		if at, ok := number(s["t"]); ok {
			now := micros(at, v.Unit)
			if scaled, ok := a.(interface{ scale() int64 }); ok {
				now *= scaled.scale()
			}
			back = back || now < w.now && i > 0
			if m, ok := a.(interface{ moveOn(now int64) error }); ok && now != w.now {
				if err := m.moveOn(now); err != nil {
					t.Fatal(err)
				}
			}
			w.now = now
		}
		got, err := a.do(s)
		if err != nil {
			t.Fatalf("step %d, %v: %v", i, s, err)
		}
		if right := correct[v.ID]; right != nil && !same(right[i], got) {
			t.Errorf("step %d, %v: %v, want %v", i, s, got, right[i])
		}
		switch {
		case same(s["expect"], got):
		case v.defect():
			wrong++
		case back && v.System == "x_time_rate":
			// It takes its clock back and mints; from here on the bound must hold.
		default:
			t.Errorf("step %d, %v: %v, want %v", i, s, got, s["expect"])
		}
	}
	if b, ok := a.(interface{ bound(t *testing.T) }); ok {
		b.bound(t)
	}
	switch {
	case t.Failed():
		return "", ""
	case v.defect() && wrong == 0:
		t.Errorf("the fault is matched")
		return "", ""
	case v.defect():
		return differs, ""
	case back && v.System == "x_time_rate":
		return partly, "x/time/rate takes its clock back with the caller's, and mints what was refilled since"
	}
	return ran, ""
}

// approx is a result that may be off by a little.
type approx struct{ value, by float64 }

// oneOf is a result that has several names.
type oneOf []string

// same compares a result with the one to expect. Of objects, only the fields that
// are expected.
func same(want, got any) bool {
	switch g := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if !same(v, g[k]) {
				return false
			}
		}
		return true
	case []any:
		w, ok := want.([]any)
		return ok && slices.EqualFunc(w, g, same)
	case oneOf:
		w, ok := want.(string)
		return ok && slices.Contains(g, w)
	case approx:
		w, ok := number(want)
		if !ok {
			return false
		}
		f, _ := w.Float64()
		return f-g.value <= g.by && g.value-f <= g.by
	}
	if g, ok := number(got); ok {
		w, ok := number(want)
		return ok && w.Cmp(g) == 0
	}
	return want == got
}

// seconds returns a duration in seconds, for a result.
func seconds(d time.Duration, by float64) approx { return approx{d.Seconds(), by} }

// roundedUp returns a duration in whole seconds, rounded up.
func roundedUp(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
