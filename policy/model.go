package policy

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/modelusage"
	"github.com/sluicehq/sluice/internal/source"
)

// ModelAttribute is the name of the attribute that holds the model of a request, in lower case: for Match.Attributes, for
// Attribute in a key, and for expressions. Edges of HTTP read it from the request's path or body.
const ModelAttribute = "model"

// ModelCost says how CostModel computes a cost. The zero ModelCost counts tokens: each token of input and output is one unit.
type ModelCost struct {
	// Format is the form of the API, such as "openai-chat" or "anthropic-messages". Default: the path of the request
	// decides. The answer to a request of an unknown form stays charged at the estimate.
	Format string
	// Body is how many bytes of a request's body are read. A request with a larger body costs an estimate, and its model is
	// unknown. Default: 1 MiB.
	Body int64
	// BytesPerToken is how many bytes of a request are estimated as one token of input. With 1, no estimate is too low.
	// Default: 4.
	BytesPerToken int64
	// Prices are prices of models. The first entry whose pattern matches applies, and a request for another model is refused.
	// Default: each token costs one unit.
	Prices []ModelPrice
	// Cancel ends the request to the service when the client leaves. Default: the answer is awaited, and settled.
	Cancel bool
	// IncludeUsage lets OpenAI's services report the usage of streams, and removes the report from the answer. Default:
	// streams without a report stay charged at the estimate.
	IncludeUsage bool
}

// ModelPrice is the price of a model, in units for a million tokens. Units are whole, such as millionths of a dollar, and the
// cost of a request is rounded up.
type ModelPrice struct {
	// Model is the name of a model, without regard to case. A star matches any text: "gpt-4o*".
	Model string
	// Input and Output are the prices of input and output. Reasoning is output.
	Input, Output int64
	// CachedInput and CacheWrite are the prices of input that comes from a cache of the service, and that goes into it.
	// Zero means Input.
	CachedInput, CacheWrite int64
}

// Model is what an edge finds in a request to a language model, before it is handled.
type Model struct {
	// Name is the name of the model, in lower case; empty if there is none.
	Name string
	// Input is the size of the request's body in bytes.
	Input int64
	// Output is the most tokens of output that the request allows; -1 if it does not limit them.
	Output int64
	// Unread says that the body was not read, so that the service may read another model in it.
	Unread bool
	// None says that the request calls no model. It costs nothing.
	None bool
}

// ModelValues is an optional interface of Values. It finds what a request says about a model. An error refuses the request;
// it is an *AttributeError.
// It belongs to one request, and need not be safe for concurrent use.
type ModelValues interface {
	Model(c *ModelCost) (Model, error)
}

// Usage is what the answer of a language model reports, in tokens. The numbers are disjoint.
type Usage struct {
	// Model is the model that the request named, and Unread says that the request was not read: see the type Model.
	Model  string
	Unread bool
	// Input is the input without the other two: CachedInput came from a cache of the service, and CacheWrite went into it.
	Input, CachedInput, CacheWrite int64
	// Output is the output, with reasoning.
	Output int64
	// AtLeast says that the answer did not report these numbers, and used as much or more.
	AtLeast bool
}

// ModelError refuses a request for a model that has no price. Edges answer it with status 403.
type ModelError struct {
	// Rule is the name of the rule that has the prices.
	Rule string
}

func (e *ModelError) Error() string {
	return fmt.Sprintf("policy: rule %q: no price is for the model of the request; add a row for it, or a row * for all others", e.Rule)
}

const (
	defaultModelBody = 1 << 20
	mostModelBody    = 64 << 20
	defaultOutput    = 4096
	million          = 1_000_000
	mostPrice        = million * million // of a token: a million units
)

// oneEach is the price of a million tokens without prices.
var oneEach = ModelPrice{Input: million, Output: million}

// checkModel checks how a cost of models is computed, and fills in its defaults.
func (c *Cost) checkModel(report func(field, value string, f fault)) {
	switch {
	case c.Source != CostModel && c.Model != nil:
		report("Cost.Model", "", fault{fmt.Sprintf("is given, and the source is %v", c.Source), "give CostModel, or leave it out"})
	case c.Source != CostModel:
		return
	}
	m := ModelCost{}
	if c.Model != nil {
		m = *c.Model
	}
	c.Model = &m
	if c.Max != 0 {
		report("Cost.Max", "", fault{"is given, and the cost is what a model used", "leave it out"})
	}
	if _, err := modelusage.ParseFormat(m.Format); err != nil && m.Format != "" {
		report("Cost.Model.Format", m.Format, fault{"is not a format", "give none, or " + modelFormats()})
	}
	if m.Body < 0 || m.Body > mostModelBody {
		report("Cost.Model.Body", "", is(m.Body, fmt.Sprintf("give 1 to %d bytes, or 0 for 1 MiB", mostModelBody)))
	}
	if m.BytesPerToken < 0 {
		report("Cost.Model.BytesPerToken", "", is(m.BytesPerToken, "give 1 or more, or 0 for 4"))
	}
	orElse(&m.Body, defaultModelBody)
	orElse(&m.BytesPerToken, 4)
	orElse(&c.Estimate, defaultOutput)
	m.Prices = m.checkPrices(report)
}

func orElse(n *int64, otherwise int64) {
	if *n == 0 {
		*n = otherwise
	}
}

// modelFormats lists the names of the formats.
func modelFormats() string {
	var names []string
	for f := modelusage.Unknown + 1; f.String() != modelusage.Unknown.String(); f++ {
		names = append(names, f.String())
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// checkPrices returns the prices with their defaults.
func (m *ModelCost) checkPrices(report func(field, value string, f fault)) (prices []ModelPrice) {
	for i, p := range m.Prices {
		at := fmt.Sprintf("Cost.Model.Prices[%d]", i)
		p.Model = strings.ToLower(p.Model)
		if p.Model == "" {
			report(at+".Model", "", fault{"is missing", "give the name of a model, or * for all others"})
		}
		for j := range prices {
			if p.Model != "" && isStarMatch(prices[j].Model, p.Model) {
				report(at+".Model", p.Model, fault{fmt.Sprintf("never applies, because %q before it matches the same models", prices[j].Model), "put it before that one, or remove it"})
				break
			}
		}
		for _, n := range []struct {
			name  string
			price int64
		}{{"Input", p.Input}, {"CachedInput", p.CachedInput}, {"CacheWrite", p.CacheWrite}, {"Output", p.Output}} {
			if n.price < 0 || n.price > mostPrice {
				report(at+"."+n.name, "", is(n.price, fmt.Sprintf("give 0 to %d units for a million tokens", int64(mostPrice))))
			}
		}
		prices = append(prices, p.complete())
	}
	return prices
}

// complete fills in the defaults of a price.
func (p ModelPrice) complete() ModelPrice {
	orElse(&p.CachedInput, p.Input)
	orElse(&p.CacheWrite, p.Input)
	return p
}

// isStarMatch reports whether a pattern matches a name. A star matches any text.
func isStarMatch(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, found := strings.CutPrefix(name, first)
	for found {
		var piece string
		if piece, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(name, piece)
		}
		_, name, found = strings.Cut(name, piece)
	}
	return false
}

// price returns the price of a model. For a request that was not read, each kind of token has its highest price, so that no
// model is cheaper if a client hides its name.
func (m *ModelCost) price(name string, unread bool) (p ModelPrice, found bool) {
	if len(m.Prices) == 0 {
		return oneEach.complete(), true
	}
	for i := range m.Prices {
		q := &m.Prices[i]
		switch {
		case unread:
			p.Input, p.Output = max(p.Input, q.Input), max(p.Output, q.Output)
			p.CachedInput, p.CacheWrite = max(p.CachedInput, q.CachedInput), max(p.CacheWrite, q.CacheWrite)
		case isStarMatch(q.Model, name):
			return *q, true
		}
	}
	return p, unread
}

// of returns what tokens cost, rounded up. A cost beyond 63 bits is the largest number.
func (p *ModelPrice) of(u Usage) int64 {
	var high, low uint64
	for _, n := range [...][2]int64{{u.Input, p.Input}, {u.CachedInput, p.CachedInput}, {u.CacheWrite, p.CacheWrite}, {u.Output, p.Output}} {
		h, l := bits.Mul64(uint64(max(0, n[0])), uint64(n[1]))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry) // a price has 40 bits, so the sum of four has no more than 105
	}
	low, carry := bits.Add64(low, million-1, 0)
	if high += carry; high >= million {
		return math.MaxInt64
	}
	units, _ := bits.Div64(high, low, million)
	return int64(min(units, math.MaxInt64))
}

// before returns what a request takes before it is handled: its estimated input, and the most output that it allows. found
// is false for a model without a price.
func (c *Cost) before(m Model) (units int64, found bool) {
	if m.None {
		return 0, true
	}
	p, found := c.Model.price(m.Name, m.Unread)
	u := Usage{Input: m.Input / c.Model.BytesPerToken, Output: m.Output}
	if m.Input%c.Model.BytesPerToken > 0 {
		u.Input++
	}
	if m.Output < 0 {
		u.Output = c.Estimate
	}
	p.Input = max(p.Input, p.CachedInput, p.CacheWrite)
	return p.of(u), found
}

// Unbilled reports whether the service of a model bills nothing for an answer without Usage: it did not get the request,
// or answered with an error. A gateway that lost the answer (502, Cloudflare's 520), or stopped waiting for it (504, 524), does not
// know that.
func (o *Outcome) Unbilled() bool {
	switch o.Status {
	case 502, 504, 520, 524:
		return o.Unsent
	}
	const errors = 400
	return o.Unsent || !o.Unknown && o.Status >= errors
}

// after returns what a handled request cost, of which units have been taken already.
func (c *Cost) after(taken int64, o Outcome) int64 {
	switch {
	case o.Usage == nil && o.Unbilled():
		return 0
	case o.Usage == nil:
		return taken
	}
	p, found := c.Model.price(o.Usage.Model, o.Usage.Unread)
	if !found {
		return taken // in shadow
	}
	units := p.of(*o.Usage)
	if o.Unknown || o.Partial || o.Usage.AtLeast {
		return max(taken, units)
	}
	return units
}

// model returns what a request says about its model. An edge without bodies reads nothing.
func (a *Attributes) model(c *ModelCost) (Model, error) {
	if v, ok := a.Values.(ModelValues); ok {
		return v.Model(c)
	}
	return Model{Input: max(0, a.RequestBytes), Output: -1, Unread: true}, nil
}

// readModel returns the attribute of the model. Services may read another model in a body that was not read.
func (a *Attributes) readModel() Found {
	v, ok := a.Values.(ModelValues)
	if !ok {
		name, ok := a.value(source.Attribute, ModelAttribute)
		if !ok {
			return Found{}
		}
		name = strings.ToLower(name)
		return Found{First: name, Last: name, Count: CountOne}
	}
	m, err := v.Model(a.modelCost)
	r := Found{First: m.Name, Last: m.Name, Count: CountOne}
	switch {
	case err != nil, m.Unread:
		r.Count = CountUnclear
	case m.Name == "":
		return Found{}
	}
	return r
}

// costOf returns what a request costs, as far as it is known before it is handled. A negative cost refuses the request, as
// s.refusal says.
func (s *scratch) costOf(r *rule, a *Attributes) int64 {
	s.refusal = nil
	if r.Cost.Source != CostModel {
		return r.Cost.of(a)
	}
	m, err := a.model(r.Cost.Model)
	units, found := r.Cost.before(m)
	switch {
	case r.role != RoleEnforced:
	case err != nil:
		s.refusal = denial(sluice.ReasonNever, r)
		s.refusal.Rule, s.refusal.Refused = nil, err
	case !found:
		s.refusal = denial(sluice.ReasonListed, r)
		s.refusal.Refused = &ModelError{r.Name}
	}
	if s.refusal != nil {
		return -1
	}
	return units
}

// ReadsModels reports whether rules or classes read the model of requests, so that an edge must keep their bodies.
func (p *Policy) ReadsModels() bool { return p.modelCost != nil }

// setModels notes whether the policy reads models, and how much of a body it reads at most.
func (p *Policy) setModels() {
	most := int64(0)
	for _, r := range p.rules {
		if r.Cost.Source == CostModel && r.Cost.Model != nil {
			most = max(most, r.Cost.Model.Body)
		}
	}
	for _, name := range p.ReadNames(source.Attribute) {
		if name == ModelAttribute {
			most = max(most, defaultModelBody)
		}
	}
	if most > 0 {
		p.modelCost = &ModelCost{Body: most}
	}
}
