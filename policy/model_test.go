package policy_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// modelValues are values of a request to a model.
type modelValues struct {
	policy.Values
	model policy.Model
	err   error
	costs []policy.ModelCost
}

func (v *modelValues) Header(string) (string, bool) { return "k", true }
func (v *modelValues) Cookie(string) (string, bool) { return "", false }
func (v *modelValues) Query(string) (string, bool)  { return "", false }

func (v *modelValues) Model(c *policy.ModelCost) (policy.Model, error) {
	if c != nil {
		v.costs = append(v.costs, *c)
	}
	return v.model, v.err
}

// modelRule returns a rule of models with a capacity.
func modelRule(units int64, c policy.Cost) policy.Rule {
	c.Source = policy.CostModel
	return policy.Rule{
		Name: "tokens", Key: []policy.Part{policy.Global()}, Cost: c,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(units)})},
	}
}

var prices = []policy.ModelPrice{
	{Model: "gpt-4o-mini*", Input: 150_000, CachedInput: 75_000, Output: 600_000},
	{Model: "claude-*", Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000, Output: 15_000_000},
	{Model: "free", Input: 0, Output: 0},
}

func TestModelsReserveTheMostAndSettleTheUsage(t *testing.T) {
	for _, c := range []struct {
		name  string
		cost  policy.Cost
		model policy.Model
		taken int64
		out   policy.Outcome
		want  int64
	}{
		{"max_tokens", policy.Cost{}, policy.Model{Name: "a", Input: 401, Output: 50}, 151, policy.Outcome{Usage: &policy.Usage{Model: "a", Input: 90, Output: 20}}, 110},
		{"no max_tokens", policy.Cost{}, policy.Model{Name: "a", Input: 400, Output: -1}, 100 + 4096, policy.Outcome{Usage: &policy.Usage{Input: 1, CachedInput: 2, CacheWrite: 4, Output: 8}}, 15},
		{"own estimate", policy.Cost{Estimate: 7, Model: &policy.ModelCost{BytesPerToken: 1}}, policy.Model{Input: 400, Output: -1}, 407, policy.Outcome{Status: 200}, 407},
		{"more than reserved", policy.Cost{}, policy.Model{Input: 4, Output: 1}, 2, policy.Outcome{Usage: &policy.Usage{Output: 500}}, 500},
		{"broken", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 200, Partial: true, Usage: &policy.Usage{Output: 2}}, 11},
		{"broken beyond the estimate", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 200, Partial: true, Usage: &policy.Usage{Output: 20}}, 20},
		{"unknown", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Unknown: true}, 11},
		{"silent", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 200}, 11},
		{"error of the request", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 400}, 0},
		{"error of the service", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 503}, 0},
		{"lost by a gateway", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 502}, 11},
		{"late for a gateway", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 504}, 11},
		{"counted, and less than taken", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 200, Usage: &policy.Usage{Output: 5, AtLeast: true}}, 11},
		{"counted, and more than taken", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 200, Usage: &policy.Usage{Output: 50, AtLeast: true}}, 50},
		{"lost by Cloudflare", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 520}, 11},
		{"late for Cloudflare", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 524}, 11},
		{"overloaded", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 529}, 0},
		{"not passed on", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 502, Unsent: true}, 0},
		{"error with usage", policy.Cost{}, policy.Model{Input: 4, Output: 10}, 11, policy.Outcome{Status: 500, Usage: &policy.Usage{Input: 3}}, 3},
		{"no call", policy.Cost{}, policy.Model{None: true}, 0, policy.Outcome{Status: 200}, 0},
		{"priced", policy.Cost{Model: &policy.ModelCost{Prices: prices}}, policy.Model{Name: "claude-x", Input: 4_000, Output: 100}, (1000*3_750_000 + 100*15_000_000) / 1e6, policy.Outcome{Usage: &policy.Usage{Model: "claude-x", Input: 10, CachedInput: 10, CacheWrite: 10, Output: 1}}, 86},
		{"rounded up", policy.Cost{Model: &policy.ModelCost{Prices: prices}}, policy.Model{Name: "gpt-4o-mini", Input: 1, Output: 0}, 1, policy.Outcome{Usage: &policy.Usage{Model: "gpt-4o-mini", CachedInput: 1}}, 1},
		{"free", policy.Cost{Model: &policy.ModelCost{Prices: prices}}, policy.Model{Name: "free", Input: 1000, Output: 1000}, 0, policy.Outcome{Usage: &policy.Usage{Model: "free", Output: 1000}}, 0},
		{"unread costs the highest", policy.Cost{Model: &policy.ModelCost{Prices: prices}}, policy.Model{Unread: true, Input: 4_000_000, Output: 1_000_000}, 3_750_000 + 15_000_000, policy.Outcome{Usage: &policy.Usage{Unread: true, Output: 1_000_000}}, 15_000_000},
	} {
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{modelRule(1e12, c.cost)}})
		v := p.Decide(t.Context(), newModelStore(t), &policy.Attributes{Path: "/", Values: &modelValues{model: c.model}})
		if !v.Allowed() || len(v.Results) != 1 || v.Results[0].Request.Cost != c.taken {
			t.Errorf("%s: took %+v, not %d units", c.name, v.Results, c.taken)
			continue
		}
		if got := v.Results[0].Actual(c.out); got != c.want {
			t.Errorf("%s: settled at %d units, not %d", c.name, got, c.want)
		}
	}
}

func TestModelsWithoutAPriceAreRefused(t *testing.T) {
	rule := modelRule(1e12, policy.Cost{Model: &policy.ModelCost{Prices: prices}})
	shadow := modelRule(1e12, policy.Cost{Model: &policy.ModelCost{Prices: prices}})
	shadow.Shadow = true
	listed := rule
	listed.AllowKeys = [][]string{{"k"}}
	listed.Key = []policy.Part{policy.Header("K")}
	for _, c := range []struct {
		rule   policy.Rule
		name   string
		denied bool
	}{
		{rule, "gpt-4o", true},
		{rule, "", true},
		{rule, "gpt-4o-mini-2024", false},
		{shadow, "gpt-4o", false},
		{listed, "gpt-4o", false},
	} {
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{c.rule}})
		v := p.Decide(t.Context(), newModelStore(t), &policy.Attributes{Path: "/", Values: &modelValues{model: policy.Model{Name: c.name}}})
		if v.Allowed() == c.denied || c.denied && (v.Reason != sluice.ReasonListed || !errors.As(v.Refused, new(*policy.ModelError)) || len(v.Charges()) > 0) {
			t.Errorf("%q: the verdict is %+v", c.name, v)
		}
	}
}

func TestUnreadableRequestsAreRefused(t *testing.T) {
	bad := &policy.AttributeError{Attribute: "body", Problem: "is not JSON"}
	for _, shadow := range []bool{false, true} {
		rule := modelRule(100_000, policy.Cost{})
		rule.Shadow = shadow
		store := newModelStore(t)
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
		v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/", Values: &modelValues{err: bad, model: policy.Model{Output: -1}}})
		switch {
		case shadow && !v.Allowed():
			t.Errorf("in shadow, a request is refused: %+v", v)
		case !shadow && (v.Allowed() || v.Reason != sluice.ReasonNever || !errors.Is(v.Refused, bad) || len(v.Charges()) > 0):
			t.Errorf("an unreadable request is not refused without a charge: %+v", v)
		}
	}
}

// A request whose model may be another one is matched by rules, and by no exception.
func TestAttributeOfTheModel(t *testing.T) {
	match := func(m policy.Match) policy.Rule {
		return policy.Rule{Name: "r", Match: m, Always: true}
	}
	only := match(policy.Match{Unless: []policy.Match{{Attributes: []policy.ValueMatch{{Name: policy.ModelAttribute, OneOf: []string{"GPT-4o-Mini"}, Prefixes: []string{"claude-"}}}}}})
	never := match(policy.Match{Attributes: []policy.ValueMatch{{Name: policy.ModelAttribute, OneOf: []string{"o3-Pro"}}}})
	for _, c := range []struct {
		rule   policy.Rule
		values policy.Values
		denied bool
	}{
		{only, &modelValues{model: policy.Model{Name: "gpt-4o-mini"}}, false},
		{only, &modelValues{model: policy.Model{Name: "claude-x"}}, false},
		{only, &modelValues{model: policy.Model{Name: "o3-pro"}}, true},
		{only, &modelValues{model: policy.Model{Name: "gpt-4o-mini", Unread: true}}, true},
		{only, &modelValues{err: errors.New("x"), model: policy.Model{Name: "gpt-4o-mini"}}, true},
		{only, &modelValues{}, true},
		{never, &modelValues{model: policy.Model{Name: "o3-pro"}}, true},
		{never, &modelValues{model: policy.Model{Name: "a"}}, false},
		{never, &modelValues{model: policy.Model{Unread: true}}, true},
		{only, attributeValues{"model": "CLAUDE-x"}, false}, // of an edge without bodies
		{only, attributeValues{"model": "o3"}, true},
		{only, attributeValues{}, true},
	} {
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{c.rule}})
		v := p.Decide(t.Context(), newModelStore(t), &policy.Attributes{Path: "/", Values: c.values})
		if v.Allowed() == c.denied {
			t.Errorf("%+v: allowed is %v", c.values, v.Allowed())
		}
		if !p.ReadsModels() {
			t.Errorf("%+v: the policy does not report that it reads models", c.rule)
		}
	}
}

// attributeValues are values of an edge without bodies.
type attributeValues map[string]string

func (attributeValues) Header(string) (string, bool)           { return "", false }
func (attributeValues) Cookie(string) (string, bool)           { return "", false }
func (attributeValues) Query(string) (string, bool)            { return "", false }
func (v attributeValues) Attribute(name string) (string, bool) { s, ok := v[name]; return s, ok }

func TestModelPartSeparatesModels(t *testing.T) {
	rule := modelRule(100_000, policy.Cost{Model: &policy.ModelCost{Body: 5 << 20}})
	rule.Key = []policy.Part{policy.Attribute(policy.ModelAttribute).IfMissing(policy.MissingDeny)}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	store, keys := newModelStore(t), map[string]bool{}
	values := &modelValues{}
	for _, name := range []string{"a", "b", "a"} {
		values.model.Name = name
		v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/", Values: values})
		keys[fmt.Sprint(v.Results[0].Request.Key)] = true
	}
	if len(keys) != 2 {
		t.Errorf("two models have %d keys", len(keys))
	}
	for _, c := range values.costs {
		if c.Body != 5<<20 {
			t.Errorf("the body is read up to %d bytes, not to the 5 MiB of the rule", c.Body)
		}
	}
	values.model = policy.Model{Name: "a", Unread: true}
	if v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/", Values: values}); v.Allowed() {
		t.Errorf("a request whose model is uncertain has a key: %+v", v)
	}
}

// Costs are the exact sum of prices, rounded up, and no number overflows.
func TestModelCostLaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func(most int64) int64 {
		switch rng.IntN(4) {
		case 0:
			return 0
		case 1:
			return rng.Int64N(1 + most>>40)
		case 2:
			return most - rng.Int64N(3)
		}
		return rng.Int64N(most)
	}
	for range soak.Times(t, 4_000) {
		q := policy.ModelPrice{Model: "*", Input: number(1e12), Output: number(1e12), CachedInput: number(1e12), CacheWrite: number(1e12)}
		u := policy.Usage{Input: number(math.MaxInt64), CachedInput: number(math.MaxInt64), CacheWrite: number(math.MaxInt64), Output: number(math.MaxInt64)}
		rule := modelRule(1, policy.Cost{Model: &policy.ModelCost{Prices: []policy.ModelPrice{q}}})
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
		m := policy.LimitResult{Rule: p.Rules()[0]}
		sum := new(big.Int)
		add := func(n, price int64) { sum.Add(sum, new(big.Int).Mul(big.NewInt(n), big.NewInt(price))) }
		orInput := func(n int64) int64 {
			if n == 0 {
				return q.Input
			}
			return n
		}
		add(u.Input, q.Input)
		add(u.CachedInput, orInput(q.CachedInput))
		add(u.CacheWrite, orInput(q.CacheWrite))
		add(u.Output, q.Output)
		sum.Add(sum, big.NewInt(999_999)).Quo(sum, big.NewInt(1_000_000))
		want := int64(math.MaxInt64)
		if sum.IsInt64() {
			want = sum.Int64()
		}
		if got := m.Actual(policy.Outcome{Usage: &u}); got != want {
			t.Fatalf("%+v at %+v costs %d, not %d", u, q, got, want)
		}
	}
}

// Patterns match as regular expressions do.
func TestModelPatternLaw(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	text := func(letters string, most int) string {
		b := make([]byte, rng.IntN(most))
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	for range soak.Times(t, 4_000) {
		pattern, name := "a"+text("ab*", 6), "a"+text("ab", 8)
		want := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "*", ".*") + "$").MatchString(name)
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{modelRule(1e12, policy.Cost{Model: &policy.ModelCost{Prices: []policy.ModelPrice{{Model: pattern}}}})}})
		v := p.Decide(t.Context(), newModelStore(t), &policy.Attributes{Path: "/", Values: &modelValues{model: policy.Model{Name: name}}})
		if v.Allowed() != want {
			t.Fatalf("pattern %q matches %q: %v", pattern, name, v.Allowed())
		}
	}
}

func TestModelCostIsChecked(t *testing.T) {
	for field, c := range map[string]policy.Cost{
		"Cost.Model.Format":               {Model: &policy.ModelCost{Format: "openai"}},
		"Cost.Model.Body":                 {Model: &policy.ModelCost{Body: -1}},
		"Cost.Model.BytesPerToken":        {Model: &policy.ModelCost{BytesPerToken: -1}},
		"Cost.Model.Prices[0].Output":     {Model: &policy.ModelCost{Prices: []policy.ModelPrice{{Model: "a", Output: -1}}}},
		"Cost.Model.Prices[0].CacheWrite": {Model: &policy.ModelCost{Prices: []policy.ModelPrice{{Model: "a", CacheWrite: 1e12 + 1}}}},
		"Cost.Model.Prices[0].Model":      {Model: &policy.ModelCost{Prices: []policy.ModelPrice{{}}}},
		"Cost.Model.Prices[1].Model":      {Model: &policy.ModelCost{Prices: []policy.ModelPrice{{Model: "a*"}, {Model: "AB"}}}},
		"Cost.Max":                        {Max: 5},
		"Cost.Units":                      {Units: 5},
	} {
		_, err := policy.New(policy.Options{Rules: []policy.Rule{modelRule(1e6, c)}})
		var bad *policy.RuleError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: the error is %v, not of this field", field, err)
		}
	}
	r := modelRule(1e6, policy.Cost{Model: &policy.ModelCost{}})
	r.Cost.Source = policy.CostConstant
	if _, err := policy.New(policy.Options{Rules: []policy.Rule{r}}); err == nil || !strings.Contains(err.Error(), "Cost.Model") {
		t.Errorf("a constant cost with a ModelCost has the error %v", err)
	}
}

func newModelStore(tb testing.TB) *memory.Store {
	tb.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return store
}
