package live

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

const (
	// window is how long keys are counted, before counting begins again. The keys of the window before are kept.
	window = 30 * time.Minute
	// mostDenying bounds the rules whose keys are counted. The counters of a rule take up to 600 KB, if all its keys are as
	// long as can be, and usually 330 KB.
	mostDenying = 64
	// quiet is how long a rule denies nothing before its counters may go to another rule.
	quiet = time.Minute
	// longestDeniedKey is the longest text of a key that is kept. A longer key is kept as its fingerprint.
	longestDeniedKey = 256
)

// DeniedKeys counts the keys that this server denied most, for each rule, in this half hour and the one before. It is
// safe for concurrent use.
type DeniedKeys struct {
	// Newly counts the requests that only a candidate would have denied, by key, in the same way. It is nil in other
	// counts than denials.
	Newly *DeniedKeys

	fingerprint func(sluice.Key) string
	now         func() time.Time
	most        int // counters of a rule in a window
	uncounted   atomic.Uint64

	rules atomic.Pointer[map[string]*denying] // never changed, but replaced
	mu    sync.Mutex                          // held while it is replaced
}

// denying has the counters of a rule.
type denying struct {
	mu         sync.Mutex
	began      time.Time       // of the window
	last       time.Time       // denial
	now, early counters        // of this window and the one before
	candidate  []*sluice.Limit // that was counted, in Newly
}

// DeniedKey is a key of a rule that was denied.
type DeniedKey struct {
	Rule string
	// Key is the key; zero if its text was too long to be kept.
	Key sluice.Key
	// Digest is the fingerprint of the key, as in the log.
	Digest string
	// Limit, Role and Reason describe the last denial.
	Limit  string
	Role   policy.Role
	Reason sluice.Reason
	// Plan is the plan that the last denied request named, if its numbers counted. An override that names a plan is not
	// the request's.
	Plan string
	// Denials counts the denials. It is never too low, and too high by up to Error: the key had these denials, or
	// another key.
	Denials, Error uint64
	// First and Last are the times of the first and of the last denial that were counted.
	First, Last time.Time
	Trial
}

// NewDeniedKeys returns an empty DeniedKeys.
func NewDeniedKeys(fingerprint func(sluice.Key) string) *DeniedKeys {
	d := newKeys(fingerprint, mostCounters)
	d.Newly = newKeys(fingerprint, mostCounters)
	return d
}

// newKeys returns empty counts, with so many counters for a rule in a window.
func newKeys(fingerprint func(sluice.Key) string, most int) *DeniedKeys {
	d := &DeniedKeys{fingerprint: fingerprint, now: time.Now, most: most}
	d.rules.Store(&map[string]*denying{})
	return d
}

// Observe counts the keys that the limits of a verdict denied, or only a candidate. Rules in shadow and advisory rules
// count too, with their Role.
func (d *DeniedKeys) Observe(v *policy.Verdict) {
	if v.Err != nil {
		return
	}
	for i := range v.Results {
		if m := &v.Results[i]; !m.Decision.Allowed && m.Listed == policy.NotListed {
			switch t := trialOf(v.Results, i); {
			case m.Role != policy.RoleCandidate:
				d.add(m, t)
			case t.WouldDeny > 0:
				d.add(m, t)
				d.Newly.add(m, t)
			}
		}
	}
}

// add counts a denial of a key. A denial by a candidate counts only in Newly, and in the trial of a key that has a counter.
func (d *DeniedKeys) add(m *policy.LimitResult, t Trial) {
	now, candidate := d.now(), m.Role == policy.RoleCandidate && d.Newly != nil
	r := (*d.rules.Load())[m.Rule.Name]
	if r == nil && !candidate {
		r = d.create(m.Rule.Name, now)
	}
	if r == nil {
		return
	}
	id := keyID{key: m.Request.Key}
	if len(id.key.Text()) > longestDeniedKey {
		id = keyID{digest: d.fingerprint(id.key)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	if candidate {
		if k := cmp.Or(r.now.byKey[id], r.early.byKey[id]); k != nil {
			k.add(t)
		}
		return
	}
	if d.Newly == nil && !slices.Equal(r.candidate, t.Candidate) { // a reload changed the candidate
		r.now, r.early, r.candidate = counters{most: d.most}, counters{most: d.most}, t.Candidate
	}
	r.last = now
	k := r.now.count(id, now)
	k.add(t)
	k.Rule, k.Limit, k.Role, k.Reason, k.Plan = m.Rule.Name, m.Request.Limit.Name(), m.Role, m.Decision.Reason, ""
	if m.From == policy.FromPlan {
		k.Plan = m.Plan()
	}
}

// kept returns the key with a text of its own. A part of a request's text would keep the whole text in memory.
func kept(id keyID) keyID {
	id.key = sluice.EncodedKey(strings.Clone(id.key.Text()), id.key.Len())
	return id
}

// turn begins a new window if it is time.
func (r *denying) turn(now time.Time) {
	switch age := now.Sub(r.began); {
	case age < window:
		return
	case age < 2*window:
		r.early, r.now, r.began = r.now, counters{most: r.now.most}, r.began.Add(window)
	default:
		r.early, r.now, r.began = counters{most: r.now.most}, counters{most: r.now.most}, now
	}
}

// create returns the counters of a rule that has none yet; nil if too many other rules deny requests, which is counted.
func (d *DeniedKeys) create(rule string, now time.Time) *denying {
	d.mu.Lock()
	defer d.mu.Unlock()
	rules := maps.Clone(*d.rules.Load())
	if r := rules[rule]; r != nil {
		return r
	}
	if len(rules) == mostDenying && !drop(rules, now.Add(-quiet)) {
		d.uncounted.Add(1)
		return nil
	}
	r := &denying{began: now, last: now, now: counters{most: d.most}, early: counters{most: d.most}}
	rules[rule] = r
	d.rules.Store(&rules)
	return r
}

// drop drops the counters of the rule whose last denial is the oldest, if it is older than a time.
func drop(rules map[string]*denying, than time.Time) bool {
	var oldest string
	for name, r := range rules {
		r.mu.Lock()
		last := r.last
		r.mu.Unlock()
		if last.Before(than) {
			oldest, than = name, last
		}
	}
	delete(rules, oldest)
	return oldest != ""
}

// Uncounted returns how many denials were not counted, because too many rules denied requests at once.
func (d *DeniedKeys) Uncounted() uint64 { return d.uncounted.Load() }

// Latest returns up to most keys of a rule, the latest denial first. An empty rule means all rules. The result more reports
// whether there are more keys.
func (d *DeniedKeys) Latest(rule string, most int) (keys []DeniedKey, more bool) {
	all := d.list(rule, func(a, b *DeniedKey) int { return b.Last.Compare(a.Last) })
	return d.first(all, most), len(all) > most
}

// Most returns keys as Latest does, in another order: first the keys that were denied in the last minute, and the most
// denials first. Only denials that are certain count.
func (d *DeniedKeys) Most(rule string, most int) (keys []DeniedKey, more bool) {
	recent := d.now().Add(-time.Minute)
	all := d.list(rule, func(a, b *DeniedKey) int {
		if now := a.Last.After(recent); now != b.Last.After(recent) {
			if now {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Denials-b.Error, a.Denials-a.Error), b.Last.Compare(a.Last))
	})
	return d.first(all, most), len(all) > most
}

// Summary returns up to most keys of a rule with the most denials, and for each rule the most denials that a key may
// have which is not among them. So the summaries of several servers can be merged with their errors, as Agarwal et al.
// (2012) describe.
func (d *DeniedKeys) Summary(rule string, most int) (keys []DeniedKey, missed map[string]uint64) {
	missed = map[string]uint64{}
	for name, r := range *d.rules.Load() {
		if rule == "" || rule == name {
			r.mu.Lock()
			missed[name] = r.now.missed() + r.early.missed()
			r.mu.Unlock()
		}
	}
	all := d.list(rule, func(a, b *DeniedKey) int { return cmp.Compare(b.Denials, a.Denials) })
	for _, k := range all[min(most, len(all)):] {
		missed[k.Rule] = max(missed[k.Rule], k.Denials)
	}
	return d.first(all, most), missed
}

// list returns the keys of a rule in an order.
func (d *DeniedKeys) list(rule string, order func(a, b *DeniedKey) int) (keys []DeniedKey) {
	now := d.now()
	for name, r := range *d.rules.Load() {
		if rule == "" || rule == name {
			keys = append(keys, r.all(now)...)
		}
	}
	slices.SortFunc(keys, func(a, b DeniedKey) int {
		return cmp.Or(order(&a, &b), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Key.Text(), b.Key.Text()), strings.Compare(a.Digest, b.Digest))
	})
	return keys
}

// first returns up to most of the keys, with their digests.
func (d *DeniedKeys) first(keys []DeniedKey, most int) []DeniedKey {
	keys = keys[:min(most, len(keys))]
	for i := range keys {
		if keys[i].Digest == "" {
			keys[i].Digest = d.fingerprint(keys[i].Key)
		}
	}
	return keys
}

// all returns the keys of both windows. A key that has a counter in one of them may have as many denials in the other
// as the least counter there.
func (r *denying) all(now time.Time) []DeniedKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(now)
	keys := make([]DeniedKey, 0, len(r.now.least)+len(r.early.least))
	add := func(k DeniedKey, missed uint64) {
		k.Denials, k.Error = k.Denials+missed, k.Error+missed
		keys = append(keys, k)
	}
	for _, c := range r.now.least {
		k, missed := c.DeniedKey, r.early.missed()
		if e := r.early.byKey[keyID{k.Key, k.Digest}]; e != nil {
			k.Denials, k.Error, k.First, missed = k.Denials+e.Denials, k.Error+e.Error, e.First, 0
			k.Trial = e.Trial
			k.add(c.Trial)
		}
		add(k, missed)
	}
	for _, c := range r.early.least {
		if r.now.byKey[keyID{c.Key, c.Digest}] == nil {
			add(c.DeniedKey, r.now.missed())
		}
	}
	return keys
}
