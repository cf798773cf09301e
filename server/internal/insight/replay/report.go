package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// Report is what a replay found. It is the document that --json writes.
type Report struct {
	Version int    `json:"version"` // of this document: 1
	Policy  string `json:"policy"`
	Against string `json:"against,omitempty"` // the policy before; without one, before is the log's own limits
	Log     Log    `json:"log"`

	Requests     Requests `json:"requests"`
	Clients      Clients  `json:"clients"`
	NewlyLimited Change   `json:"newly_limited"` // now, and not before
	Freed        Change   `json:"freed"`         // before, and not now
	Matrix       []Cell   `json:"matrix"`

	Rules       []Rule        `json:"rules"`
	Unevaluated []Unevaluated `json:"unevaluated"`
	// UnevaluatedBefore are rules of the policy before.
	UnevaluatedBefore []Unevaluated `json:"unevaluated_before"`

	Timeline       Timeline        `json:"timeline"`
	Shares         []Share         `json:"shares"`
	LimitedClients []LimitedClient `json:"limited_clients"`
	Endpoints      []Endpoint      `json:"endpoints"`
	Check          *Check          `json:"check,omitempty"`
	Caveats        []string        `json:"caveats"`
}

// Log is what was read.
type Log struct {
	Format string `json:"format"`
	logs.Stats
	LeftOut int64     `json:"left_out"` // by --logged-429
	Blur    float64   `json:"blur_seconds"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
}

// Requests counts requests.
type Requests struct {
	Total    int64 `json:"total"`
	Limited  int64 `json:"limited"`  // denied or degraded
	Denied   int64 `json:"denied"`   //
	Degraded int64 `json:"degraded"` //
	Marked   int64 `json:"marked"`
	Delayed  int64 `json:"delayed"`
	Invalid  int64 `json:"invalid"` // refused whatever the rules are, because services read them differently
	Before   int64 `json:"before"`  // limited by the policy before, or in the log
	Logged   int64 `json:"logged"`  // limited in the log
	Retries  int64 `json:"retries"` // requests that came back, with --clients retry
	Again    int64 `json:"limited_again"`
}

// Clients counts clients.
type Clients struct {
	By        string `json:"by"` // what distinguishes clients
	Total     int64  `json:"total"`
	Limited   int64  `json:"limited"` // of whom a request was limited
	Surely    int64  `json:"surely"`  // whatever the fractions of the log's seconds were
	SurelyNot int64  `json:"surely_not"`
	Unclear   int64  `json:"unclear"`
	Before    int64  `json:"before"`
}

// Change counts what is new.
type Change struct {
	Requests int64 `json:"requests"`
	Clients  int64 `json:"clients"`
}

// Cell counts the requests by what limited them.
type Cell struct {
	Before   *bool `json:"before,omitempty"` // the policy before; absent without one
	Now      bool  `json:"now"`
	Logged   bool  `json:"logged"`
	Requests int64 `json:"requests"`
}

// Rule is what a rule did.
type Rule struct {
	Name     string           `json:"name"`
	Shadow   bool             `json:"shadow"`
	Limits   []string         `json:"limits"`
	Requests int64            `json:"requests"` // that it matched
	Limited  int64            `json:"limited"`
	Keys     int64            `json:"limited_keys"` // keys of which a request was limited
	Delayed  int64            `json:"delayed"`
	Trial    int64            `json:"candidate_limited"`
	Reasons  map[string]int64 `json:"reasons"`
	Demand   []int64          `json:"demand"` // of the timeline
	Over     []int64          `json:"limited_over_time"`
}

// Timeline is the requests over time.
type Timeline struct {
	Start  time.Time `json:"start"`
	Step   int64     `json:"step_seconds"`
	Demand []int64   `json:"demand"`
	Passed []int64   `json:"passed"`
	Before []int64   `json:"passed_before,omitempty"`
	Logged []int64   `json:"limited_in_log"`
}

// Share says how many clients had at least a share of their requests limited.
type Share struct {
	Share   float64 `json:"share"`
	Clients int64   `json:"clients"`
}

// LimitedClient is a client of which requests were limited.
type LimitedClient struct {
	Client   string    `json:"client"`
	Newly    bool      `json:"newly"`
	Rule     string    `json:"rule"` // the first that limited it
	Requests int64     `json:"requests"`
	Limited  int64     `json:"limited"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Demand   []int64   `json:"demand,omitempty"` // of the timeline; absent for clients that came late
	Limits   []int64   `json:"limited_over_time,omitempty"`
}

// Endpoint is a method and a path.
type Endpoint struct {
	Endpoint string `json:"endpoint"`
	Requests int64  `json:"requests"`
	Limited  int64  `json:"limited"`
}

// most bounds the lists of a report.
const most = 20

// report makes the report.
func (r *run) report(stats *logs.Stats) *Report {
	t, e := &r.tally, r.engines[0]
	rep := &Report{
		Version: 1, Policy: r.o.Policy.Name,
		Log: Log{r.layout.Format, *stats, t.leftOut, r.layout.Blur.Seconds(), timeOf(t.from), timeOf(t.to)},
		Requests: Requests{
			Denied: t.kinds[denied], Degraded: t.kinds[degraded], Marked: t.kinds[marked], Delayed: t.kinds[delayed], Invalid: t.kinds[invalid],
			Retries: e.back.requests, Again: e.back.limited,
		},
		Matrix: []Cell{}, Rules: []Rule{}, LimitedClients: []LimitedClient{}, Endpoints: []Endpoint{}, Caveats: []string{},
		Unevaluated: append([]Unevaluated{}, t.unevaluated[0]...), UnevaluatedBefore: append([]Unevaluated{}, t.unevaluated[1]...),
	}
	if len(r.engines) > 1 {
		rep.Against = r.o.Against.Name
	}
	if r.o.Check {
		t.check.Examples = append([]Disagreement{}, t.check.Examples...)
		rep.Check = &t.check
	}
	r.matrix(rep)
	r.timeline(rep)
	r.rules(rep)
	r.clients(rep)
	r.endpoints(rep)
	r.caveats(rep)
	return rep
}

// matrix fills in what limited the requests.
func (r *run) matrix(rep *Report) {
	q := &rep.Requests
	for _, old := range []bool{false, true}[:len(r.engines)] {
		for i, n := range r.tally.matrix[bit(old)] {
			c := Cell{Now: i >= 2, Logged: i%2 == 1, Requests: n}
			before := c.Logged
			if len(r.engines) > 1 {
				c.Before, before = &old, old
			}
			rep.Matrix = append(rep.Matrix, c)
			q.Total += n
			q.Limited += n * bit(c.Now)
			q.Before += n * bit(before)
			q.Logged += n * bit(c.Logged)
			rep.NewlyLimited.Requests += n * bit(c.Now && !before)
			rep.Freed.Requests += n * bit(before && !c.Now)
		}
	}
}

// timeline fills in the series of all requests. All series have at most its width.
func (r *run) timeline(rep *Report) {
	t := &r.tally
	axis := &t.demand
	for _, c := range r.engines[0].rules {
		for axis.step < max(c.demand.step, c.limits.step) {
			axis.widen()
		}
	}
	step := steps[axis.step]
	rep.Timeline = Timeline{Start: timeOf(axis.first * step * micros), Step: step, Demand: axis.along(axis), Passed: t.passed.along(axis), Logged: t.inLogs.along(axis)}
	if len(r.engines) > 1 {
		rep.Timeline.Before = t.passedOld.along(axis)
	}
}

func (r *run) rules(rep *Report) {
	axis := &r.tally.demand
	for i := range r.engines[0].rules {
		c := &r.engines[0].rules[i]
		rule := c.rule
		c.Name, c.Shadow, c.Limits, c.Keys = rule.Name, rule.Shadow, []string{}, int64(len(c.keys))
		c.Demand, c.Over = c.demand.along(axis), c.limits.along(axis)
		for _, l := range rule.Limits {
			c.Limits = append(c.Limits, l.Algorithm().String())
		}
		rep.Rules = append(rep.Rules, c.Rule)
	}
}

func (r *run) clients(rep *Report) {
	t := &r.tally
	c := &rep.Clients
	c.By, c.Total = r.client.String(), int64(len(t.clients))
	var shares [101]int64
	var all []*limitedClient
	for _, k := range t.clients {
		now, before := k.limited > 0, k.before
		c.Before += bit(before)
		c.Limited += bit(now)
		rep.NewlyLimited.Clients += bit(now && !before)
		rep.Freed.Clients += bit(before && !now)
		switch blurred := r.layout.Blur >= time.Second; {
		case now && (k.sure || !blurred):
			c.Surely++
		case !now && (!blurred || !k.near):
			c.SurelyNot++
		default:
			c.Unclear++
		}
		if l := k.listed; l != nil {
			l.Newly, l.Requests, l.Limited = !before, int64(k.requests), int64(k.limited)
			all = append(all, l)
		}
		if now {
			shares[int(100*int64(k.limited)/int64(k.requests))]++
		}
	}
	rep.Shares = []Share{}
	for sum, i := int64(0), len(shares)-1; i >= 0; i-- {
		if sum += shares[i]; i%5 == 0 {
			rep.Shares = append(rep.Shares, Share{float64(i) / 100, sum})
		}
	}
	slices.Reverse(rep.Shares)
	// The clients with the most limited requests are listed, newly limited ones first.
	slices.SortFunc(all, func(a, b *limitedClient) int {
		return cmp.Or(cmp.Compare(bit(b.Newly), bit(a.Newly)), cmp.Compare(b.Limited, a.Limited), a.First.Compare(b.First), cmp.Compare(a.Client, b.Client))
	})
	for _, l := range all[:min(len(all), most)] {
		l.Client = r.o.Names(l.Client)
		if l.limits.cells != nil {
			l.Demand, l.Limits = l.demand.along(&t.demand), l.limits.along(&t.demand)
		}
		rep.LimitedClients = append(rep.LimitedClients, l.LimitedClient)
	}
}

func (r *run) endpoints(rep *Report) {
	for _, e := range r.tally.endpoints {
		if e.Limited > 0 {
			rep.Endpoints = append(rep.Endpoints, *e)
		}
	}
	slices.SortFunc(rep.Endpoints, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(b.Limited, a.Limited), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	rep.Endpoints = rep.Endpoints[:min(len(rep.Endpoints), most)]
}

// caveats says in words what limits the report.
func (r *run) caveats(rep *Report) {
	t := &r.tally
	say := func(when bool, format string, args ...any) {
		if when {
			rep.Caveats = append(rep.Caveats, fmt.Sprintf(format, args...))
		}
	}
	say(r.layout.Blur >= time.Second, "The log has whole seconds. Requests count as at the beginnings of their seconds.")
	say(rep.Clients.Unclear > 0, "Whether %d of the clients are limited depends on the fractions of the seconds.", rep.Clients.Unclear)
	say(r.layout.Ends, "The log has no durations, and its times may be when requests ended. Requests count as at these times.")
	say(r.layout.Has&logs.HasDuration == 0 && r.settles(), "The log has no durations. Costs that depend on the response were settled at once.")
	say(rep.Log.Bad > 0, "%d lines are not of the format, and were left out.", rep.Log.Bad)
	say(rep.Log.Late > 0, "%d lines came later than --reorder allows; their requests count later than they were.", rep.Log.Late)
	say(t.blind > 0 && r.settles(), "%d requests that the log's server refused pass here. What their handling would have cost is not known; estimates and the mean duration count.", t.blind)
	say(t.strange > 0, "%d clients have no address in the log, but another name. Rules that count by client_ip count all of them as one client.", t.strange)
	say(t.unnamed > 0, "%d requests have no %s, and are of no client.", t.unnamed, rep.Clients.By)
	say(!r.o.Retry && rep.Requests.Limited > 0, "Clients send what the log has, whether they are refused or not. For clients that come back, use --clients retry.")
	say(int64(t.listed) >= mostLimited, "Only the first %d limited clients are listed by name.", mostLimited)
	overflow := r.engines[0].overflow + r.engines[0].store.Stats().Overflow
	say(overflow > 0, "There was no memory for all keys; %d decisions shared units.", overflow)
	for _, rule := range r.engines[0].policy.Rules() {
		say(rule.Bandwidth != nil, "The rule %s paces bytes. A replay does not slow requests down.", rule.Name)
	}
}

// settles reports whether a rule has costs or leases that end after the response.
func (r *run) settles() bool {
	return slices.ContainsFunc(r.engines[0].policy.Rules(), settles)
}

// settles reports whether a rule has costs or leases that end after the response.
func settles(rule *policy.Rule) bool {
	return rule.Cost.Source.AfterResponse() || rule.Cost.Source == policy.CostRequestBytes || len(rule.CountStatus) > 0 ||
		slices.ContainsFunc(rule.Limits, (*sluice.Limit).IsConcurrency)
}
