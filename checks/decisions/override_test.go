package decisions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/granttest"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
)

// tenant is a key, with what happened to it.
type tenant struct {
	name   string
	acts   []act
	backs  []back
	latest int64 // the latest time of a charge
	held   []lease
	steps  []string
	// strict is set when the stores gave less back than the oracle: they do not know how long a reservation waits that was made
	// under other numbers.
	strict bool
}

// act is the units of an admitted request, when it was admitted, and when they act, to within a microsecond: delays are rounded up.
type act struct {
	number              int // in the order of admissions
	at, from, to, units int64
	numbers             sluice.Algorithm
}

// back is units that the end of a charge gave back: as many more may be admitted from then on.
type back struct{ at, units int64 }

// lease is the units of a lease, and when it ends by itself.
type lease struct{ until, units int64 }

// made is a charge of an admitted request, in each store.
type made struct {
	*tenant
	charges []sluice.Charge
	moment  int64  // when it acts
	waited  bool   // after it was made
	lease   int    // the index of the lease
	ahead   *ahead // if it was taken from an allowance
}

// given is an override as the law expects it.
type given struct {
	text string
	end  int64 // in seconds, zero for none
}

// written is a policy with the numbers that its file has.
type written struct {
	*policy.Policy
	without    *policy.Policy // the same policy without allowances
	rule, gold int            // the numbers of the rule, and of the override for gold
}

// overriding decides about some tenants in several stores while their overrides change.
type overriding struct {
	*rapid.T
	family
	now, high int64
	back      bool
	versions  []sluice.Algorithm
	table     *policy.OverrideTable
	truth     map[string]given
	ahead     map[string]*ahead
	granted   int // allowances
	paid      int // requests
	policies  []written
	stores    []sluice.Store // the first is in memory; the oracle's receipts are its own
	names     []string
	oracle    *granttest.Server
	tenants   []*tenant
	charges   []made
}

// note remembers what happened to a tenant, for failures.
func (x *overriding) note(of *tenant, format string, args ...any) {
	of.steps = append(of.steps, fmt.Sprintf("at %d: ", x.now)+fmt.Sprintf(format, args...))
}

// fail fails with what happened to a tenant lately.
func (x *overriding) fail(of *tenant, format string, args ...any) {
	x.Helper()
	x.Fatalf("%s: %s; after:\n%s", of.name, fmt.Sprintf(format, args...), strings.Join(of.steps[max(0, len(of.steps)-90):], "\n"))
}

const lawRule = "law"

// newOverriding returns stores without states. A client adds a store in Redis.
func newOverriding(t *rapid.T, f family, client redisstore.Client, o redisstore.Options) *overriding {
	t.Helper()
	x := &overriding{T: t, family: f, table: policy.NewOverrideTable(), truth: map[string]given{}, ahead: map[string]*ahead{}}
	x.now = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + rapid.Int64Range(0, 1e7).Draw(t, "start")
	x.high = x.now
	clock := func() int64 { return x.now }
	for range rapid.IntRange(2, 4).Draw(t, "versions") {
		x.versions = append(x.versions, f.draw(t))
	}
	local, err := memory.New(memory.Options{Stripes: 1, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	x.stores, x.names = []sluice.Store{local}, []string{"memory"}
	switch f.name {
	case "token_bucket_warm_up", "leaky_bucket", "concurrency":
	default:
		x.oracle = granttest.New(granttest.Options{Clock: clock})
		x.stores, x.names = append(x.stores, x.oracle), append(x.names, "oracle")
	}
	if client != nil {
		remote, err := redisstore.New(redistest.WithClock(client, clock), o)
		if err != nil {
			t.Fatal(err)
		}
		x.stores, x.names = append(x.stores, remote), append(x.names, "redis")
	}
	for _, name := range []string{"a", "b", "gold", "friend", "foe"} {
		x.tenants = append(x.tenants, &tenant{name: name})
	}
	x.back = f.most != nil && rapid.IntRange(0, 2).Draw(t, "clock goes back") == 0
	x.reload()
	return x
}

func (x *overriding) version(label string) int {
	return rapid.IntRange(0, len(x.versions)-1).Draw(x.T, label)
}

// limits returns the only limit of a rule, with the numbers of a version.
func (x *overriding) limits(version int) []*sluice.Limit {
	l, err := sluice.NewLimit("", x.versions[version])
	if err != nil {
		x.Fatal(err)
	}
	return []*sluice.Limit{l}
}

// reload makes the policy of a file with other numbers. Requests in flight still use the policy before.
func (x *overriding) reload() {
	w := written{rule: x.version("rule"), gold: x.version("gold")}
	o := policy.Options{Overrides: x.table, Terms: x.terms, Rules: []policy.Rule{{
		Name: lawRule, Key: []policy.Part{policy.Header("X-Tenant")}, Limits: x.limits(w.rule),
		Overrides: []policy.Override{{Key: []string{"gold"}, Limits: x.limits(w.gold)}},
		AllowKeys: [][]string{{"friend"}}, DenyKeys: [][]string{{"foe"}},
	}}}
	if n := len(x.policies); n > 0 {
		o.Earlier = x.policies[n-1].Policy
	}
	var err error
	if w.without, err = policy.New(o); err != nil {
		x.Fatal(err)
	}
	if x.hasAhead() {
		o.Rules[0].Ahead = &policy.Ahead{Units: 100, For: time.Hour}
	}
	if w.Policy, err = policy.New(o); err != nil {
		x.Fatal(err)
	}
	x.policies = append(x.policies, w)
	x.policies = x.policies[max(0, len(x.policies)-2):]
}

// terms reads the terms of an override: a version, or a list.
func (x *overriding) terms(_, text string) (t policy.Terms, err error) {
	switch text {
	case "unlimited":
		t.List = policy.ListAllow
	case "deny":
		t.List = policy.ListDeny
	default:
		version, err := strconv.Atoi(text)
		if err != nil {
			return t, err
		}
		t.Limits = x.limits(version)
	}
	return t, nil
}

// set gives a tenant an override.
func (x *overriding) set(to *policy.OverrideTable, name string, g given, until time.Time) {
	if err := to.Set(lawRule, sluice.StringKey(name), g.text, until); err != nil {
		x.Fatal(err)
	}
	x.truth[name] = g
}

// override sets or removes the override of a tenant.
func (x *overriding) override() {
	name := rapid.SampledFrom(x.tenants).Draw(x.T, "tenant").name
	if rapid.IntRange(0, 3).Draw(x.T, "removes") == 0 {
		_, want := x.truth[name]
		if got := x.table.Remove(lawRule, sluice.StringKey(name)); got != want {
			x.Fatalf("removing the override of %s reports %v, want %v", name, got, want)
		}
		delete(x.truth, name)
		return
	}
	g := given{text: strconv.Itoa(x.version("numbers"))}
	if word := rapid.IntRange(0, 9).Draw(x.T, "word"); word < 2 {
		g.text = []string{"unlimited", "deny"}[word]
	}
	var until time.Time
	if rapid.Bool().Draw(x.T, "ends") {
		until = time.UnixMicro(x.now + rapid.Int64Range(1, 5e6).Draw(x.T, "for"))
		g.end = (until.UnixMicro() + 999_999) / 1_000_000
	}
	x.set(x.table, name, g, until)
}

// expire ends overrides, as a server does from time to time.
func (x *overriding) expire() {
	want := 0
	for name, g := range x.truth {
		if g.end > 0 && g.end <= x.now/1_000_000 {
			delete(x.truth, name)
			want++
		}
	}
	for name, a := range x.ahead {
		if a.Until.Unix() <= x.now/1_000_000 {
			delete(x.ahead, name)
			want++
		}
	}
	if got := x.table.Expire(time.UnixMicro(x.now)); got != want {
		x.Fatalf("%d overrides end at %d, want %d", got, x.now, want)
	}
}

// replace reads all overrides again, as a server does after a failover of Redis. The other Redis may lack the last change.
func (x *overriding) replace() {
	lost := rapid.SampledFrom(x.tenants).Draw(x.T, "lost").name
	before, table := x.truth, policy.NewOverrideTable()
	x.truth = map[string]given{}
	for name, g := range before {
		if name != lost {
			until := time.Time{}
			if g.end > 0 {
				until = time.Unix(g.end, 0)
			}
			x.set(table, name, g, until)
		}
	}
	for name, a := range x.ahead {
		x.setAhead(table, name, a)
	}
	x.table.Replace(table)
}

// expected returns the numbers that a tenant has under a policy, or its list.
func (x *overriding) expected(w written, name string) (policy.NumbersFrom, policy.List, sluice.Algorithm) {
	g, overridden := x.truth[name]
	switch {
	case name == "friend":
		return policy.FromRule, policy.ListAllow, nil
	case name == "foe":
		return policy.FromRule, policy.ListDeny, nil
	case overridden && g.text == "unlimited":
		return policy.FromCall, policy.ListAllow, nil
	case overridden && g.text == "deny":
		return policy.FromCall, policy.ListDeny, nil
	case overridden:
		version, _ := strconv.Atoi(g.text)
		return policy.FromCall, policy.NotListed, x.limits(version)[0].Algorithm()
	case name == "gold":
		return policy.FromFile, policy.NotListed, x.limits(w.gold)[0].Algorithm()
	}
	return policy.FromRule, policy.NotListed, x.limits(w.rule)[0].Algorithm()
}

// header has the header of a tenant.
type header string

func (h header) Header(name string) (string, bool) { return string(h), name == "X-Tenant" }
func (header) Cookie(string) (string, bool)        { return "", false }
func (header) Query(string) (string, bool)         { return "", false }

// decide makes a request in all stores.
func (x *overriding) decide() {
	of := x.tenants[rapid.SampledFrom([]int{0, 0, 0, 1, 2, 2, 3, 4}).Draw(x.T, "of")]
	w := rapid.SampledFrom(x.policies).Draw(x.T, "policy")
	from, list, numbers := x.expected(w, of.name)
	a := policy.Attributes{Path: "/", Values: header(of.name), Cost: rapid.Int64Range(1, 4).Draw(x.T, "cost")}
	if _, queues := numbers.(sluice.LeakyBucket); queues {
		a.Cost = 1 // several units leave one after another
	}
	if x.most != nil && !x.back {
		a.MaxWait = rapid.SampledFrom([]time.Duration{0, 0, sluice.NoWait, 300 * time.Millisecond, 2 * time.Second}).Draw(x.T, "wait")
	}
	m := made{tenant: of, ahead: x.payer(of, w, a, list)}
	var first *policy.LimitResult
	for i, store := range x.stores {
		v := w.Decide(x.Context(), store, &a)
		if list == policy.ListDeny {
			if r := w.LimitsFor(&a); v.Allowed() || v.Reason != sluice.ReasonListed || len(r) != 1 || r[0].From != from || r[0].Listed != list {
				x.fail(of, "%s decides %s; want a denial by a list, of %v", x.names[i], v.String(), from)
			}
			continue
		}
		if len(v.Results) != 1 {
			x.fail(of, "%s decides %s; want one result", x.names[i], v.String())
		}
		r := &v.Results[0]
		if r.From != from || r.Listed != list || r.Override != (from != policy.FromRule) || list == policy.NotListed && r.Request.Limit.Algorithm() != numbers {
			x.fail(of, "%s decides by %v of %v, list %q; want %v of %v, list %q", x.names[i], r.Request.Limit, r.From, r.Listed, numbers, from, list)
		}
		if first == nil {
			first = r
		}
		switch {
		case x.names[i] == "oracle" && of.strict:
		case m.ahead == nil && v.PaidAhead():
			x.fail(of, "%s pays %d from %+v; want none", x.names[i], a.Cost, *r.Ahead)
		case m.ahead != nil && (r.Ahead == nil || r.Ahead.Allowance != m.ahead.Allowance || r.Decision.Remaining != m.ahead.Units-m.ahead.used-a.Cost || v.Tightest.Remaining != r.Decision.Remaining):
			x.fail(of, "%s decides %s by %+v; want %d units of %+v, of which %d are used", x.names[i], v.String(), r.Ahead, a.Cost, m.ahead.Allowance, m.ahead.used)
		}
		got, want := r.Decision, first.Decision
		if x.names[i] == "oracle" {
			if of.strict {
				got = want
			}
			got.Receipt, want.Receipt = sluice.Receipt{}, sluice.Receipt{}
		}
		if got != want {
			x.fail(of, "%s decides about %d by %v, at %d: %+v; in memory %+v", x.names[i], a.Cost, r.Request.Limit, x.now, got, want)
		}
		m.charges = append(m.charges, r.Charge())
	}
	if list == policy.ListDeny {
		return
	}
	x.note(of, "%d under %v, waiting %v: %+v", a.Cost, numbers, a.MaxWait, first.Decision)
	switch d := &first.Decision; {
	case list == policy.ListAllow && !d.Allowed:
		x.fail(of, "a key on the list to allow gets %+v", d)
	case list == policy.ListAllow:
	case m.ahead != nil:
		m.ahead.used += a.Cost
		x.paid++
		x.charges = append(x.charges, m)
	case x.most == nil:
		x.lease(m, numbers.(sluice.Concurrency), a.Cost, d)
	case d.Allowed:
		at := x.now + d.Delay.Microseconds()
		if x.back { // it counts at the latest time at which the key was charged
			at = max(at, of.latest)
		}
		of.latest = max(of.latest, x.now)
		one := act{len(of.acts), x.now, at, at, a.Cost, numbers}
		if d.Delay > 0 {
			one.from--
		}
		m.moment, m.waited = one.to, d.Delay > 0
		of.acts = append(of.acts, one)
		x.charges = append(x.charges, m)
	}
}

// lease checks the decision of a concurrency limit: a lease is given if all units that are held are at most the numbers in force,
// whatever numbers the other leases were given under.
func (x *overriding) lease(m made, c sluice.Concurrency, cost int64, d *sluice.Decision) {
	units := cost
	for _, l := range m.held {
		if l.until > x.now {
			units += l.units
		}
	}
	if d.Allowed != (units <= c.Max+c.Queue) {
		x.fail(m.tenant, "a lease of %d, the last of %d units, under %v: %+v", cost, units, c, d)
	}
	if d.Allowed {
		m.lease = len(m.held)
		m.held = append(m.held, lease{x.now + c.TTL.Microseconds(), cost})
		x.charges = append(x.charges, m)
	}
}

// end ends a charge, whatever its numbers were, and whatever they are now.
func (x *overriding) end() {
	if len(x.charges) == 0 {
		return
	}
	i := rapid.IntRange(0, len(x.charges)-1).Draw(x.T, "charge")
	m := x.charges[i]
	x.charges = slices.Delete(x.charges, i, i+1)
	cost := m.charges[0].Cost
	settles := x.most != nil && rapid.Bool().Draw(x.T, "settles")
	actual := rapid.Int64Range(0, 2*cost).Draw(x.T, "actual")
	x.note(m.tenant, "a charge of %d at %d ends: settled %v at %d", cost, m.charges[0].Receipt.At, settles, actual)
	if m.ahead != nil {
		m.ahead.used = max(0, m.ahead.used+actual-cost)
		for i, store := range x.stores {
			if err := store.Settle(x.Context(), m.charges[i], actual); err != nil {
				x.fail(m.tenant, "%s settles a charge of an allowance with %v", x.names[i], err)
			}
		}
		return
	}
	if x.oracle != nil {
		c := m.charges[0]
		if state := x.oracle.Escrow(c.Limit, c.Key).State; state.Fresh(x.now) {
			// Stores end a charge as if they had forgotten a fresh state: by the numbers of the charge.
			if err := x.oracle.Reset(x.Context(), c.Limit, c.Key); err != nil {
				x.Fatal(err)
			}
		} else if !settles && !oracle.SameNumbers(state, granttest.Fresh(c.Limit)) {
			m.strict = m.strict || m.waited
		}
	}
	var first error
	for i, store := range x.stores {
		var err error
		switch {
		case settles:
			err = store.Settle(x.Context(), m.charges[i], actual)
		case x.most == nil:
			err = store.Release(x.Context(), m.charges[i], 0)
		case x.names[i] == "oracle" && first != nil: // it gives back what has acted, too
			err = first
		default:
			err = store.Cancel(x.Context(), m.charges[i])
		}
		if i == 0 {
			first = err
		}
		if (err == nil) != (first == nil) || errors.Is(err, sluice.ErrActed) != errors.Is(first, sluice.ErrActed) || errors.Is(err, sluice.ErrLeaseLost) != errors.Is(first, sluice.ErrLeaseLost) {
			x.fail(m.tenant, "%s ends a charge with %v, and memory with %v", x.names[i], err, first)
		}
	}
	if acted := errors.Is(first, sluice.ErrActed); x.most != nil && !settles && !x.back && acted != (x.now > m.moment) {
		x.fail(m.tenant, "a charge that acts at %d is cancelled at %d: %v", m.moment, x.now, first)
	}
	switch {
	case x.most == nil:
		if lasts := m.held[m.lease].until > x.now; lasts != (first == nil) {
			x.fail(m.tenant, "the release of a lease until %d at %d: %v", m.held[m.lease].until, x.now, first)
		}
		m.held[m.lease].until = 0
	case settles && first == nil:
		m.backs = append(m.backs, back{x.now, max(0, cost-actual)})
	case first == nil:
		m.backs = append(m.backs, back{x.now, cost})
	}
}

// pass moves the clock on, or back if no store may have forgotten a state.
func (x *overriding) pass() {
	step := rapid.SampledFrom([]int64{0, 1, 1000, 100_000, 500_000, 1_000_000, 5_000_000}).Draw(x.T, "pace")
	step = rapid.Int64Range(0, step).Draw(x.T, "step")
	if x.back && rapid.IntRange(0, 5).Draw(x.T, "direction") == 0 && !x.forgets() {
		x.now = max(x.now-step, x.high-400_000)
		return
	}
	x.now += step
	x.high = max(x.high, x.now)
}

// forgets reports whether the state of a tenant may be forgotten under some numbers.
func (x *overriding) forgets() bool {
	for _, of := range x.tenants {
		for version := range x.versions {
			l, err := sluice.NewLimit(lawRule, x.versions[version])
			if err != nil {
				x.Fatal(err)
			}
			d, err := x.stores[0].Decide(x.Context(), sluice.Request{Limit: l, Key: sluice.StringKey(of.name), Peek: true})
			if err != nil || len(of.acts) > 0 && d.ResetAfter == 0 {
				return true
			}
		}
	}
	return false
}

// bound checks that no more than the bound has acted over any interval. Only the numbers count that admissions
// had, from the first admission that acts in the interval to the last one: not what was in force before, or is later.
func (x *overriding) bound(of *tenant) (closest float64) {
	acts := slices.SortedStableFunc(slices.Values(of.acts), func(a, b act) int { return cmp.Compare(a.from, b.from) })
	for i, first := range acts {
		sum, began, from, to := int64(0), first.at, first.number, first.number
		for _, last := range acts[i:] {
			sum, began = sum+last.units, min(began, last.at)
			from, to = min(from, last.number), max(to, last.number)
			var numbers []sluice.Algorithm
			for _, a := range of.acts[from : to+1] {
				if !slices.Contains(numbers, a.numbers) {
					numbers = append(numbers, a.numbers)
				}
			}
			most := x.most(numbers, last.to-first.from)
			for _, b := range of.backs {
				if began <= b.at && b.at <= last.to {
					most += b.units
				}
			}
			if sum > most {
				x.fail(of, "%d units act from %d to %d, of at most %d under %v: %+v", sum, first.from, last.to, most, numbers, acts)
			}
			if len(numbers) > 1 {
				closest = max(closest, float64(sum)/float64(most))
			}
		}
	}
	return closest
}

// play makes changes and requests in turn, and returns how close the tenants came to a bound of several numbers.
func (x *overriding) play() (closest float64) {
	for range rapid.IntRange(1, 200).Draw(x.T, "steps") {
		switch step := rapid.IntRange(0, 19).Draw(x.T, "what"); {
		case step < 1:
			x.grant()
		case step < 3:
			x.override()
		case step < 4:
			x.expire()
		case step < 5:
			x.replace()
		case step < 6:
			x.reload()
		case step < 9:
			x.end()
		case step < 13:
			x.pass()
		default:
			x.decide()
		}
	}
	if x.most != nil {
		for _, of := range x.tenants {
			if !x.back || len(of.backs) == 0 { // with both, a charge counts at a time that the schedule does not show
				closest = max(closest, x.bound(of))
			}
		}
	}
	return closest
}

// overrides plays a law with the tenants of each algorithm. A client adds a store in Redis, which may be a cluster.
func overrides(t *testing.T, times int, client redisstore.Client, cluster bool) {
	t.Helper()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			n, paid, closest := 0, 0, 0.0
			for range redistest.Times(t, times) {
				rapid.Check(t, func(t *rapid.T) {
					n++
					x := newOverriding(t, f, client, redisstore.Options{Prefix: fmt.Sprintf("override-%s-%d", f.name, n), Cluster: cluster})
					closest = max(closest, x.play())
					paid += x.paid
				})
			}
			t.Logf("%d schedules, with %d requests that allowances paid for; the closest to a bound of several numbers was %.2f of it", n, paid, closest)
			if has := (&overriding{family: f}).hasAhead(); has != (paid > 0) {
				t.Errorf("allowances paid for %d requests; can they: %v", paid, has)
			}
		})
	}
}

// Overrides are set, changed, removed, read again, and end at random moments, while policies replace each other. Each decision has
// the numbers in force, and no interval has more units than the bound of the numbers of its admissions. Meanwhile, allowances pay for
// what the limits lack: exactly their units, and only if a limit denies the request. A store decides
// as the oracle, also about charges that were made under other numbers.
func TestOverridesKeepTheirBounds(t *testing.T) {
	t.Parallel()
	overrides(t, 1, nil, false)
}

// Overrides that change at random moments are decided in Redis as in memory.
func TestOverridesDecideAsInMemory(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	overrides(t, 1, plainClient{a.conn}, false)
}
