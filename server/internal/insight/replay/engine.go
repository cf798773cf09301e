package replay

import (
	"errors"
	"hash/maphash"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// outcome is what a policy did with a request.
type outcome struct {
	kind   kind
	reason sluice.Reason
	rule   int16 // the index of the rule that decided; -1 for none
	near   bool  // a limit would perhaps have denied it if the times of the log were more exact
	within bool  // the verdict of the log follows from another time, which the log's resolution allows
	wait   int64 // in microseconds
	excess excess
}

// excess describes a request that a limit does not let pass.
type excess struct {
	cost   int64
	margin int64 // units by which the time of the log can change what the limit has left; 0 for another refusal
	full   int64 // microseconds until the limit is full again
}

// kind is what becomes of a request.
type kind uint8

const (
	allowed  kind = iota // passes
	marked               // passes with a mark
	delayed              // passes after a wait
	degraded             // passes to a fallback, or gets the answer of a rule
	denied               // is refused by a rule, or by the default
	invalid              // is refused whatever the rules are, because services read it in different ways
	waiting              // waits for a lease, so it is not known yet
)

// limited reports whether the rules limit the request.
func (o *outcome) limited() bool { return o.kind == degraded || o.kind == denied }

// action returns the action as access logs have it. Sluice's own log has a wait as allow.
func (o *outcome) action() string { return actions[o.kind].String() }

var actions = [...]policy.Action{marked: policy.Mark, degraded: policy.Degrade, denied: policy.Deny, invalid: policy.Deny, waiting: policy.Allow}

// engine decides about records by one policy, as a server does.
type engine struct {
	policy    *policy.Policy
	store     *memory.Store
	gate      *gate.Gate
	ip        *httplimit.ClientIP
	decider   *httplimit.Decider
	request   *request
	now       int64
	blur      time.Duration                     // requests began up to this time after their stamps
	index     map[*policy.Rule]int              // of rules
	rules     []ruleCount                       // by index
	pressure  bool                              // a rule depends on pressure
	header    map[string]int                    // indices of headers of responses in Record.Values
	events    events                            // what happens later
	queues    map[limitKey][]*flight            // requests that wait for leases
	waiting   map[queueKey]int                  // how many wait, by rule and by key
	late      []resolution                      // outcomes of requests that waited
	retries   bool                              // refused requests come back
	attempt   int                               // of the current request
	back      struct{ requests, limited int64 } // requests that came back
	overflow  int64                             // of other engines of the policy: see memory.Stats
	service   mean
	exact     int64 // microseconds by which times can differ from the log's, to follow its verdicts; 0 for not at all
	deferred  []deferred
	trials    trials                 // of the store
	entered   *flight                // that began last
	pressed   bool                   // the current request was deferred, and its demand is counted
	patience  int64                  // how long deferred records wait
	wanted    []limitKey             // leases that the last request tried lacks
	snapshots []snapshot             // of the last moments, if a log's verdicts are followed
	felt      int64                  // the time of the pressure by which requests are decided
	took      int64                  // how long the decision of the current request may have taken
	open      bool                   // the log has verdicts and no durations: a lease ends when a later verdict needs it
	named     bool                   // the log names the rules that decided
	held      map[limitKey][]*flight // in the order in which they began, if open
}

// resolution is the outcome of a request that waited. The id is 0 for a request that came back.
type resolution struct {
	id      int64
	outcome outcome
}

func (e *engine) resolved(id int64, o outcome) { e.late = append(e.late, resolution{id, o}) }

// ruleCount counts what a rule did.
type ruleCount struct {
	Rule
	rule   *policy.Rule
	keys   map[uint64]struct{} // hashes of keys that were limited
	demand series              // requests
	limits series              // limited
}

// mean is the mean duration of the requests that were handled.
type mean struct{ sum, n int64 }

func (m *mean) of() int64 { return m.sum / max(1, m.n) }

// mostBytes bounds the memory of the states.
const mostBytes = min(8<<30, math.MaxInt)

func newEngine(p *Policy, o policy.Options, l *logs.Layout, assumed []Assumption) (*engine, error) {
	e := &engine{felt: latest, blur: l.Blur, request: newRequest(l, assumed), queues: map[limitKey][]*flight{}, waiting: map[queueKey]int{}, held: map[limitKey][]*flight{}}
	var err error
	clock := func() int64 { return e.now }
	if e.store, err = memory.New(memory.Options{MaxBytes: mostBytes, Stripes: 1, Clock: clock}); err != nil {
		return nil, err
	}
	e.trials.Store = e.store
	if e.gate, err = gate.New(e.store, gate.Options{Clock: clock}); err != nil {
		return nil, err
	}
	o.Pressure = e.feel
	if e.policy, err = policy.New(o); err != nil {
		return nil, err
	}
	e.ip, err = httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: p.Trusted, TrustUnix: p.TrustUnix, IPv6Prefix: p.IPv6Prefix})
	if err != nil {
		return nil, err
	}
	deciding := httplimit.PolicyOptions{
		Policy: e.policy, Store: &e.trials, ClientIP: e.ip,
		Removes: func(r *http.Request, name string) bool {
			why := removal.Of(name)
			return !why.FromClients(p.MethodOverride) && (!why.FromProxies() || !e.ip.TrustsPeer(r))
		},
		TrustPlan:  func(*http.Request) bool { return true }, // the log says what a gateway has reported
		TrustMarks: func(r *http.Request) bool { return p.TrustMarks && e.ip.TrustsPeer(r) },
		Claim:      e.request.named("claim"),
		Attribute:  e.request.named("attribute"),
	}
	if e.decider, err = httplimit.NewPolicyDecider(deciding); err != nil {
		return nil, err
	}
	e.index, e.header = map[*policy.Rule]int{}, map[string]int{}
	for i, r := range e.policy.Rules() {
		e.index[r] = i
		e.rules = append(e.rules, ruleCount{rule: r, Rule: Rule{Reasons: map[string]int64{}}, keys: map[uint64]struct{}{}})
		e.pressure = e.pressure || usesPressure(&r.Match)
		if r.Cost.Source == policy.CostResponseHeader {
			e.header[r.Cost.Header] = l.Index(response, r.Cost.Header)
		}
	}
	return e, nil
}

// usesPressure reports whether a match depends on the pressure on a rule.
func usesPressure(match *policy.Match) bool {
	reads := func(condition policy.Matcher) bool {
		uses, ok := condition.(interface{ Uses() (bool, []string) })
		if !ok {
			return false
		}
		_, rules := uses.Uses()
		return len(rules) > 0
	}
	return slices.ContainsFunc(withExceptions(match), func(m *policy.Match) bool { return m.Pressure > 0 || slices.ContainsFunc(m.If, reads) })
}

// limitKey is a limit and a key, where requests wait for leases.
type limitKey struct {
	limit string
	key   sluice.Key
}

func keyOf(r *policy.LimitResult) limitKey { return limitKey{r.Request.Limit.Name(), r.Request.Key} }

// queueKey is where requests are counted that wait: in the queue of a rule, and in the part of a key.
type queueKey struct {
	rule string
	key  sluice.Key
	one  bool
}

// decide decides about a record. The id is for a request that waits: late has it with the outcome.
func (e *engine) decide(rec *logs.Record, id int64, logged bool) outcome {
	e.advance(rec.At)
	e.now = max(e.now, rec.At)
	e.attempt = 0
	if !logged && rec.Duration >= 0 {
		e.service.sum += rec.Duration
		e.service.n++
	}
	if e.exact == 0 || rec.Verdict.Action == "" {
		return e.enter(rec, id, logged)
	}
	return e.follow(rec, id, logged)
}

// errTarget refuses a request whose target no server accepts.
var errTarget = errors.New("the target is not a path")

// verdict decides about a request of a record.
func (e *engine) verdict(rec *logs.Record) policy.Verdict {
	if !e.request.set(rec) {
		return policy.Verdict{Refused: errTarget}
	}
	e.took = rec.Verdict.Took
	return e.decider.Decide(&e.request.Request)
}

// enter decides about a request at this moment. A request that the log's own server has limited has no outcome of a service.
func (e *engine) enter(rec *logs.Record, id int64, logged bool) outcome {
	v := e.verdict(rec)
	if v.Refused != nil {
		return outcome{kind: invalid, rule: -1, reason: sluice.ReasonNever}
	}
	e.count(&v)
	later := false
	for i := range v.Results {
		r := &v.Results[i]
		later = later || r.Charged() && (r.Request.Member != 0 || r.Settles()) || isDelayed(r)
	}
	o := e.outcome(&v)
	if !later {
		if o.kind == denied {
			e.again(rec, logged, v.RetryAfter())
		}
		v.Free()
		return o
	}
	f := &flight{engine: e, id: id, results: v.Results, began: e.now, service: rec.Duration, leased: math.MaxInt64}
	f.end = endOf(rec, logged)
	if logged {
		f.service = e.service.of()
	}
	if len(e.header) > 0 {
		values := slices.Clone(rec.Values) // the record is used again
		f.end.Header = func(name string) (string, bool) {
			if i, ok := e.header[name]; ok && i >= 0 && values[i] != logs.Missing {
				text, _, _ := strings.Cut(values[i], logs.Separator)
				return text, true
			}
			return "", false
		}
	}
	e.entered = f
	f.hold()
	if o.kind == denied {
		f.release(e.store.Cancel) // rules in shadow are charged even then
		e.again(rec, logged, v.RetryAfter())
		return o
	}
	if late := f.queue(); late != nil {
		return e.refuse(f, late, rec)
	}
	f.outcome, f.attempt = o, e.attempt
	if e.retries && len(f.queued) > 0 {
		f.rec = clone(rec)
	}
	if f.turn > 0 {
		e.events.add(e.now+f.turn, f, begins)
		if f.pending = len(f.leases) > 0; f.pending {
			o.kind = waiting
		} else if o.kind == allowed {
			o.kind, o.wait = delayed, f.turn
		}
		return o
	}
	return f.begin()
}

// endOf returns the outcome of the service. A request that the log's own server has limited has none.
func endOf(rec *logs.Record, logged bool) policy.Outcome {
	o := policy.Outcome{Status: rec.Status, RequestBytes: max(0, rec.Received), ResponseBytes: max(0, rec.Sent), Unknown: logged}
	if rec.Method == http.MethodHead {
		o.ResponseBytes = 0
	}
	return o
}

// refuse gives back the charges of a request that cannot wait.
func (e *engine) refuse(f *flight, r *policy.LimitResult, rec *logs.Record) outcome {
	f.undo()
	i := e.index[r.Rule]
	e.countRefused(r)
	if rec != nil {
		e.again(rec, f.end.Unknown, max(time.Second, r.Decision.Delay))
	}
	return outcome{kind: denied, rule: int16(i), reason: sluice.ReasonLimited}
}

// mostAttempts bounds how often a refused request comes.
const mostAttempts = 5

// again lets a refused request come back, if clients retry.
func (e *engine) again(rec *logs.Record, logged bool, after time.Duration) {
	if !e.retries || after <= 0 || e.attempt+1 >= mostAttempts {
		return
	}
	if e.attempt == 0 {
		rec = clone(rec)
	}
	e.events.add(e.now+int64(after/time.Microsecond), &flight{rec: rec, attempt: e.attempt + 1, end: policy.Outcome{Unknown: logged}}, returns)
}

// returned decides about a request that came back.
func (e *engine) returned(f *flight) {
	e.attempt = f.attempt
	o := e.enter(f.rec, 0, f.end.Unknown)
	e.back.requests++
	if o.limited() {
		e.back.limited++
	}
}

// clone returns a record that keeps nothing of the log's text.
func clone(rec *logs.Record) *logs.Record {
	c := *rec
	c.Values = slices.Clone(c.Values)
	texts := []*string{&c.Client, &c.Method, &c.Target, &c.Host, &c.Verdict.Action, &c.Verdict.Rule}
	for i := range c.Values {
		texts = append(texts, &c.Values[i])
	}
	for _, text := range texts {
		*text = strings.Clone(*text)
	}
	return &c
}

// isDelayed reports whether a request must wait for a limit.
func isDelayed(r *policy.LimitResult) bool {
	return r.Decision.Delay > 0 && r.Decision.Allowed && !r.Request.Shadow && r.Role == policy.RoleEnforced
}

// count counts what the rules decided.
func (e *engine) count(v *policy.Verdict) {
	e.press(v)
	last, limited := -1, -1
	for i := range v.Results {
		m := &v.Results[i]
		at := min(last+1, len(e.rules)-1) // mostly, rules follow each other
		if i > 0 && m.Rule == v.Results[i-1].Rule {
			at = last
		} else if e.rules[at].rule != m.Rule {
			at = e.index[m.Rule]
		}
		c := &e.rules[at]
		if at != last {
			c.want(e.now)
		}
		switch {
		case m.Decision.Allowed:
			if at != last && isDelayed(m) {
				c.Delayed++
			}
		case m.Role == policy.RoleCandidate:
			c.Trial++
		default:
			if at != limited {
				c.limit(e.now, m.Decision.Reason)
			}
			limited = at
			c.keys[HashOf(m.Request.Key)] = struct{}{}
		}
		last = at
	}
	if v.Missing != nil && v.Rule != nil {
		c := &e.rules[e.index[v.Rule]]
		c.want(e.now)
		c.limit(e.now, v.Reason)
	}
}

var seed = maphash.MakeSeed() //nolint:gochecknoglobals // hashes of keys are compared in this process only

// HashOf returns a hash of a key, by which keys are counted. It differs in each process.
func HashOf(k sluice.Key) uint64 { return maphash.String(seed, k.Text()) + uint64(k.Len()) }

// countRefused counts a request that could not wait for a limit.
func (e *engine) countRefused(r *policy.LimitResult) {
	c := &e.rules[e.index[r.Rule]]
	c.keys[HashOf(r.Request.Key)] = struct{}{}
	c.limit(e.now, sluice.ReasonLimited)
}

// want counts a request that a rule matches.
func (c *ruleCount) want(now int64) {
	c.Requests++
	c.demand.add(now, 1)
}

// limit counts a request that a rule limits.
func (c *ruleCount) limit(now int64, why sluice.Reason) {
	c.Limited++
	c.limits.add(now, 1)
	c.Reasons[why.String()]++
}

// outcome returns what becomes of a request, as far as it is known.
func (e *engine) outcome(v *policy.Verdict) outcome {
	o := outcome{rule: -1, reason: v.Reason}
	rule := v.Rule
	switch v.Action {
	case policy.Deny:
		o.kind = denied
	case policy.Degrade:
		o.kind, rule = degraded, v.Degrade
	case policy.Mark:
		o.kind, rule = marked, v.Mark
	}
	if rule != nil && o.kind != allowed {
		o.rule = int16(e.index[rule])
	}
	if e.blur >= time.Second {
		e.bound(v, &o)
	}
	return o
}

// bound finds out whether more exact times of the log could change an outcome. The times of two requests can be further
// apart or closer by the blur, and then a limit gives more or less by what its rate gives in this time.
func (e *engine) bound(v *policy.Verdict, o *outcome) {
	for i := range v.Results {
		m := &v.Results[i]
		if m.Role != policy.RoleEnforced && m.Role != policy.RoleAdvisory || m.Listed != policy.NotListed || m.Request.Limit == nil {
			continue
		}
		rate := m.Request.Limit.Rate()
		if rate.IsZero() {
			continue
		}
		margin := 1 + int64(float64(rate.Count())*float64(e.blur)/float64(rate.Period()))
		switch why := m.Decision.Reason; {
		case m.Decision.Allowed:
			o.near = o.near || m.Decision.Remaining < margin
		case o.excess.cost == 0 && (why == sluice.ReasonLimited || why == sluice.ReasonTooSoon):
			o.excess = excess{m.Request.Cost, margin, int64(m.Decision.ResetAfter / time.Microsecond)}
		}
	}
}
