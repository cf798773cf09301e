package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/policy/internal/keys"
)

// OverrideTable has overrides that change while policies are in force, such as by calls of operators. Policies that
// have it in their Options look there first, then among the overrides of their rules. A change touches the entry of one
// key, however many there are: a decision has the numbers before the change or after it. The table outlives policies.
// Make it with NewOverrideTable.
//
// An override names its terms by a text, which Options.Terms reads when a key first needs them. Many keys should share few
// texts. It is safe for concurrent use.
type OverrideTable struct {
	mu    sync.Mutex
	rules map[string]*ruleOverrides
	next  uint32 // the first end, zero for none
}

// Terms are what an override gives a key, in place of the numbers of the rule. One of Limits, Plan and List is set.
type Terms struct {
	// Limits has one limit for each limit of the rule, as in Override.
	Limits []*sluice.Limit
	// Plan names a plan of the policy, in place of limits.
	Plan string
	// List is ListAllow to let the key pass without limits, and ListDeny to refuse it.
	List List
	// Warning is what an operator should know about terms that fit, for CheckTerms. Optional.
	Warning string
}

// ruleOverrides are the overrides of a rule. It stays as long as the table, because policies keep it.
type ruleOverrides struct {
	table keys.Table[*terms]
	texts map[string]*terms // of the table; guarded by OverrideTable.mu
	// windows are the limits of allowances, by their last day since the epoch; guarded by OverrideTable.mu.
	windows map[int64]*sluice.Limit
}

// terms are the terms of some keys of a rule, as the policy in force reads them.
type terms struct {
	text string
	uses int // guarded by OverrideTable.mu
	made atomic.Pointer[madeTerms]
	// allowance is what the text says, if it is of AllowancesOf a rule.
	allowance *allowance
}

// madeTerms are terms that a policy has read.
type madeTerms struct {
	rule    *rule
	set     *limitSet
	list    List
	warning string
	err     error // why they do not fit the rule
}

// NewOverrideTable returns an empty table.
func NewOverrideTable() *OverrideTable { return &OverrideTable{rules: map[string]*ruleOverrides{}} }

// of returns the overrides of a rule. The caller has the lock.
func (t *OverrideTable) of(rule string) *ruleOverrides {
	o := t.rules[rule]
	if o == nil {
		o = &ruleOverrides{texts: map[string]*terms{}, windows: map[int64]*sluice.Limit{}}
		t.rules[rule] = o
	}
	return o
}

// get returns the overrides of a rule; nil without a table.
func (t *OverrideTable) get(rule string) *ruleOverrides {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of(rule)
}

// Set gives a key of a rule the terms of a text until a time; the zero time means for ever. The time counts in whole
// seconds, rounded up. It is an error if the key has more than 65,535 bytes. Whether the terms fit the rule is for
// CheckTerms.
func (t *OverrideTable) Set(rule string, key sluice.Key, text string, until time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, end := t.of(rule), secondsOf(until)
	id := keys.NewID(key)
	before, _, had := o.table.Get(id)
	now := o.texts[text]
	if now == nil {
		now = &terms{text: text, allowance: o.allowance(rule, text)}
	}
	if !o.table.Set(id, now, end) {
		return fmt.Errorf("policy: the key of the override has %d bytes; %d are the most", len(key.Text()), keys.MaxKey)
	}
	now.uses++
	o.texts[text] = now
	if had {
		o.drop(before)
	}
	if end > 0 && (t.next == 0 || end < t.next) {
		t.next = end
	}
	return nil
}

// secondsOf returns a time as a table has it; zero for the zero time.
func secondsOf(until time.Time) uint32 {
	if until.IsZero() {
		return 0
	}
	return uint32(min(max(until.Add(time.Second-1).Unix(), 1), math.MaxUint32))
}

// drop ends a use of terms.
func (o *ruleOverrides) drop(x *terms) {
	if x.uses--; x.uses == 0 && o.texts[x.text] == x {
		delete(o.texts, x.text)
	}
}

// Remove removes the override of a key, and reports whether there was one.
func (t *OverrideTable) Remove(rule string, key sluice.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.rules[rule]
	return o != nil && o.remove(keys.NewID(key))
}

func (o *ruleOverrides) remove(id keys.ID) bool {
	x, _, had := o.table.Get(id)
	if had {
		o.table.Remove(id)
		o.drop(x)
	}
	return had
}

// Expire removes the overrides that have ended, and returns how many there were. Call it about once a second: overrides
// do not end without it.
func (t *OverrideTable) Expire(now time.Time) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := uint32(min(max(now.Unix(), 0), math.MaxUint32))
	if t.next == 0 || seconds < t.next {
		return 0
	}
	t.next = 0
	for _, o := range t.rules {
		ended, next := o.table.Ended(seconds)
		for _, id := range ended {
			o.remove(id)
		}
		n += len(ended)
		if next > 0 && (t.next == 0 || next < t.next) {
			t.next = next
		}
	}
	return n
}

// Replace takes all overrides from another table, which must not be used afterwards. Each rule is replaced in one step.
func (t *OverrideTable) Replace(with *OverrideTable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rule := range with.rules {
		t.of(rule)
	}
	for rule, o := range t.rules {
		x := with.of(rule)
		for text, now := range x.texts { // stores recognize limits by their pointers
			if before := o.texts[text]; before != nil {
				now.made.Store(before.made.Load())
			}
			now.allowance = o.allowance(rule, text)
		}
		o.table.Take(&x.table)
		o.texts = x.texts
	}
	t.next = with.next
}

// Len returns the number of overrides of all rules.
func (t *OverrideTable) Len() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.rules {
		n += o.table.Len()
	}
	return n
}

// Bytes returns how much memory the keys of all overrides take.
func (t *OverrideTable) Bytes() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.rules {
		n += o.table.Bytes()
	}
	return n
}

// Page returns up to most keys of a rule, in an order of their own, of which a part begins with a prefix. The first
// page is after the zero Key.
func (t *OverrideTable) Page(rule, prefix string, after sluice.Key, most int) []sluice.Key {
	var page []sluice.Key
	order := func(a, b sluice.Key) int {
		if c := strings.Compare(a.Text(), b.Text()); c != 0 {
			return c
		}
		return a.Len() - b.Len()
	}
	cut := func() {
		slices.SortFunc(page, order)
		page = page[:min(len(page), most)]
	}
	t.mu.Lock()
	o := t.rules[rule]
	t.mu.Unlock()
	if o == nil {
		return nil // a name that somebody looks for takes no memory
	}
	o.table.Each(func(id keys.ID, _ *terms) {
		k := id.Key()
		if prefix != "" && !slices.ContainsFunc(k.Parts(), func(part string) bool { return strings.HasPrefix(part, prefix) }) || after != (sluice.Key{}) && order(k, after) <= 0 {
			return
		}
		if page = append(page, k); len(page) >= 2*most+100 {
			cut()
		}
	})
	cut()
	return page
}

// Rules returns the names of all rules that have overrides, in their order, without AllowancesOf them. The policy in
// force may have no such rule.
func (t *OverrideTable) Rules() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, o := range t.rules {
		if !o.table.IsEmpty() && !strings.HasSuffix(name, aheadSuffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// errNoTerms is why a policy without Options.Terms applies no override of a table.
var errNoTerms = errors.New("policy: Options.Terms is missing, so no override of the table applies; give a function that reads their terms")

// CheckTerms checks the terms of a text for a rule, and returns their Warning. The error is a *RuleRequestError for an
// unknown rule. Otherwise it is the error of Options.Terms, or a *RuleError.
func (p *Policy) CheckTerms(rule, text string) (warning string, err error) {
	r := p.byName[rule]
	switch {
	case r == nil:
		return "", &RuleRequestError{Rule: rule, Unknown: true, Problem: "is unknown"}
	case r.lazily == nil:
		return "", &RuleRequestError{Rule: rule, Problem: "has no limits, so its keys have no overrides"}
	}
	m := r.termsOf(r.lazily.options.Overrides.named(rule, text))
	return m.warning, m.err
}

// named returns the terms of a text: the terms that keys of the rule have, which may have been read already, or new ones.
func (t *OverrideTable) named(rule, text string) *terms {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if o := t.rules[rule]; o != nil && o.texts[text] != nil {
			return o.texts[text]
		}
	}
	return &terms{text: text}
}

// lazily returns what a rule needs to read terms later.
func (c *compiler) lazily() *compiler {
	o := c.options
	o.Rules, o.Plans, o.Earlier = nil, nil, nil
	return &compiler{options: o, form: c.form, classes: c.classes, plans: c.plans}
}

// termsOf returns the terms as the rule reads them.
func (r *rule) termsOf(x *terms) *madeTerms {
	if m := x.made.Load(); m != nil && m.rule == r {
		return m
	}
	m := r.read(x)
	x.made.Store(m)
	return m
}

// read reads terms. Limits with the same numbers as before stay the same limits.
func (r *rule) read(x *terms) *madeTerms {
	m := &madeTerms{rule: r}
	c := *r.lazily
	if c.options.Terms == nil {
		m.err = errNoTerms
		return m
	}
	t, err := c.options.Terms(r.Name, x.text)
	if m.err = err; err != nil {
		return m
	}
	if m.list, m.warning = t.List, t.Warning; m.list != NotListed {
		return m
	}
	if before := x.made.Load(); before != nil && before.set != nil {
		c.earlier = map[sameLimit]*sluice.Limit{}
		for i := range before.set.requests {
			l := before.set.requests[i].Limit
			c.earlier[identityOf(l)] = l
		}
	}
	c.index, c.rule = r.index, r.Name
	adding := overrideAdder{compiler: &c, rule: r, byNumbers: map[string]*limitSet{}}
	if t.Plan != "" {
		m.set = adding.planSet("Terms", t.Plan, t.Limits, FromCall)
	} else if m.set = adding.setOf("Terms", t.Limits); m.set != nil {
		m.set.from = FromCall
	}
	if len(c.errs) > 0 {
		m.set, m.err = nil, c.errs[0]
	}
	return m
}

// overrideByCall applies the override of a table to a selection, and reports whether there is one that fits.
func (s *scratch) overrideByCall(q *selection) bool {
	x, found := q.rule.byCall.table.FindOften(q.key, &s.keys, &s.overrides, func() bool {
		f, ok := s.store.(driver.Fetcher)
		if ok {
			f.Fetch(q.set.requests[0].Limit, q.key.View(&s.keys)) // it arrives while the table is searched
		}
		return ok
	})
	if !found {
		return false
	}
	m := q.rule.termsOf(x)
	switch {
	case m.err != nil:
		return false
	case m.list != NotListed:
		q.listed, q.byCall = m.list, true
		if m.list == ListDeny {
			q.reason = sluice.ReasonListed
		}
	default:
		q.set = m.set
	}
	return true
}
