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
	Format   string         `json:"format"`
	Lines    int64          `json:"lines"`
	Bad      int64          `json:"bad"`      // not of the format
	Unread   int64          `json:"unread"`   // of connections without a request
	Late     int64          `json:"late"`     // out of order by more than --reorder
	Skipped  int64          `json:"skipped"`  // outside of --since and --until
	LeftOut  int64          `json:"left_out"` // by --logged-429
	Blur     float64        `json:"blur_seconds"`
	From     time.Time      `json:"from"`
	To       time.Time      `json:"to"`
	BadLines []logs.BadLine `json:"bad_lines"` // the first five
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
		Log: Log{
			Format: r.layout.Format, Lines: stats.Lines, Bad: stats.Bad, Unread: stats.Unread, Late: stats.Late, Skipped: stats.Skipped,
			LeftOut: t.leftOut, Blur: r.layout.Blur.Seconds(), From: timeOf(t.from), To: timeOf(t.to), BadLines: append([]logs.BadLine{}, stats.FirstBads...),
		},
		Requests: Requests{
			Denied: t.kinds[denied], Degraded: t.kinds[degraded], Marked: t.kinds[marked], Delayed: t.kinds[delayed], Invalid: t.kinds[invalid],
			Limited: t.kinds[denied] + t.kinds[degraded], Before: t.logged, Logged: t.logged, Retries: e.back.requests, Again: e.back.limited,
		},
		NewlyLimited: Change{Requests: t.newly}, Freed: Change{Requests: t.freed},
		Unevaluated: append([]Unevaluated{}, t.unevaluated[0]...), UnevaluatedBefore: append([]Unevaluated{}, t.unevaluated[1]...),
	}
	for _, n := range t.kinds {
		rep.Requests.Total += n
	}
	if len(r.engines) > 1 {
		rep.Against, rep.Requests.Before = r.o.Against.Name, t.old
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

func (r *run) matrix(rep *Report) {
	rep.Matrix = []Cell{}
	for old := range 2 {
		for now := range 2 {
			for logged := range 2 {
				c := Cell{Now: now == 1, Logged: logged == 1, Requests: r.tally.matrix[old][now][logged]}
				if len(r.engines) > 1 {
					before := old == 1
					c.Before = &before
				}
				if len(r.engines) > 1 || old == 0 {
					rep.Matrix = append(rep.Matrix, c)
				}
			}
		}
	}
}

// timeline fills in the series of all requests.
func (r *run) timeline(rep *Report) {
	t := &r.tally
	step, first := t.axis()
	n := len(t.demand.cells)
	rep.Timeline = Timeline{
		Start: time.Unix(first*steps[step], 0).UTC(), Step: steps[step],
		Demand: t.demand.over(step, first, n), Passed: t.passed.over(step, first, n), Logged: t.inLogs.over(step, first, n),
	}
	if len(r.engines) > 1 {
		rep.Timeline.Before = t.passedOld.over(step, first, n)
	}
}

// axis returns the width and the first cell of the timeline. All series have at most this width afterwards.
func (t *tally) axis() (step int, first int64) {
	for _, c := range t.run.engines[0].rules {
		for t.demand.step < max(c.demand.step, c.limits.step) {
			t.demand.widen()
		}
	}
	return t.demand.step, t.demand.first
}

func (r *run) rules(rep *Report) {
	rep.Rules = []Rule{}
	step, first := r.tally.axis()
	n := len(r.tally.demand.cells)
	for i, rule := range r.engines[0].policy.Rules() {
		c := &r.engines[0].rules[i]
		line := Rule{
			Name: rule.Name, Shadow: rule.Shadow, Requests: c.requests, Limited: c.limited, Keys: int64(len(c.keys)), Delayed: c.delayed, Trial: c.trial, Reasons: map[string]int64{},
			Demand: c.demand.over(step, first, n), Over: c.limits.over(step, first, n), Limits: []string{},
		}
		for _, l := range rule.Limits {
			line.Limits = append(line.Limits, l.Algorithm().String())
		}
		for why, n := range c.reasons {
			if n > 0 {
				line.Reasons[sluice.Reason(why).String()] = n
			}
		}
		rep.Rules = append(rep.Rules, line)
	}
}

func (r *run) clients(rep *Report) {
	t := &r.tally
	c := &rep.Clients
	c.By, c.Total = r.client.String(), int64(t.clients.n)
	var shares [101]int64
	for i := range t.clients.cells {
		k := &t.clients.cells[i]
		if k.hash == 0 {
			continue
		}
		now, before := k.limited > 0, k.before
		c.Before += int64(bit(before))
		c.Limited += int64(bit(now))
		switch {
		case now && !before:
			rep.NewlyLimited.Clients++
		case before && !now:
			rep.Freed.Clients++
		}
		switch blurred := r.layout.Blur >= time.Second; {
		case now && (k.sure || !blurred):
			c.Surely++
		case !now && (!blurred || !k.near):
			c.SurelyNot++
		default:
			c.Unclear++
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
	r.limitedClients(rep)
}

// limitedClients lists the clients with the most limited requests, newly limited ones first.
func (r *run) limitedClients(rep *Report) {
	t := &r.tally
	type entry struct {
		*limitedClient
		*client
		newly bool
	}
	var all []entry
	for hash, l := range t.limited {
		k := t.clients.cell(hash)
		all = append(all, entry{l, k, !k.before})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(bit(b.newly)-bit(a.newly), cmp.Compare(b.limited, a.limited), cmp.Compare(a.first, b.first), cmp.Compare(a.name, b.name))
	})
	step, first := t.axis()
	rep.LimitedClients = []LimitedClient{}
	for _, a := range all[:min(len(all), most)] {
		l := LimitedClient{
			Client: r.o.Names(a.name), Newly: a.newly, Rule: r.ruleName(a.rule), Requests: int64(a.requests), Limited: int64(a.limited),
			First: timeOf(a.limitedClient.first), Last: timeOf(a.last),
		}
		if a.limits.cells != nil {
			n := len(t.demand.cells)
			l.Demand, l.Limits = a.demand.over(step, first, n), a.limits.over(step, first, n)
		}
		rep.LimitedClients = append(rep.LimitedClients, l)
	}
}

// ruleName returns the name of a rule by its index.
func (r *run) ruleName(i int16) string {
	if i < 0 {
		return ""
	}
	return r.engines[0].policy.Rules()[i].Name
}

func (r *run) endpoints(rep *Report) {
	rep.Endpoints = []Endpoint{}
	for name, e := range r.tally.endpoints {
		if e.limited > 0 {
			rep.Endpoints = append(rep.Endpoints, Endpoint{name, e.requests, e.limited})
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
	rep.Caveats = []string{}
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
	say(t.unnamed > 0, "%d requests have no %s, and are of no client.", t.unnamed, rep.Clients.By)
	say(!r.o.Retry && rep.Requests.Limited > 0, "Clients send what the log has, whether they are refused or not. For clients that come back, use --clients retry.")
	say(int64(len(t.limited)) >= mostLimited, "Only the first %d limited clients are listed by name.", mostLimited)
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
