package replay

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// tally counts what was decided.
type tally struct {
	run         *run
	unevaluated [mostEngines][]Unevaluated
	leftOut     int64

	from, to                          int64
	kinds                             [waiting]int64
	matrix                            [2][4]int64        // requests: limited by the policy before, and twice by the policy plus by the log's own server
	clients                           map[uint64]*client // by the hashes of their names
	listed                            int                // clients that are limited, by name
	endpoints                         map[string]*Endpoint
	demand, passed, passedOld, inLogs series
	check                             Check
	unnamed                           int64 // requests without a client
	strange                           int64 // clients whose address is not one
	blind                             int64 // requests that the log's server has limited, so that nothing is known of their handling
}

// limitedClient is a client of which requests were limited.
type limitedClient struct {
	LimitedClient
	demand series
	limits series

	units int64 // that were refused since its limit was last full
	full  int64 // when the limit is full again
}

// exceed counts the units of a limited request. It reports whether the client is limited whatever the fractions of the
// log's seconds were: if it wanted more, while the limit was never full, than more exact times could have given.
func (l *limitedClient) exceed(at int64, o *outcome) bool {
	x := &o.excess
	if x.margin == 0 {
		return true // not by a number
	}
	if at >= l.full {
		l.units = 0
	}
	l.units += x.cost
	l.full = max(l.full, at+x.full)
	return l.units-x.cost >= x.margin
}

// The bounds of what is kept by name. What comes later is counted without its name.
const (
	mostLimited   = 100_000
	mostTimelines = 1_000
	mostEndpoints = 5_000
)

func (t *tally) init(r *run) {
	t.run, t.clients, t.endpoints = r, map[uint64]*client{}, map[string]*Endpoint{}
}

// add counts a request.
func (t *tally) add(s *seen) {
	r, rec, out := t.run, s.rec, &s.out[0]
	if r.o.seen != nil {
		r.o.seen(rec, out)
	}
	logged := isLimited(rec)
	at := rec.At
	if t.demand.cells == nil {
		t.from = at
	}
	t.from, t.to = min(t.from, at), max(t.to, at)
	t.kinds[out.kind]++
	t.demand.add(at, 1)
	limited, before := out.limited(), logged
	if !limited {
		t.passed.add(at, 1)
	}
	old := false
	if len(r.engines) > 1 {
		old = s.out[1].limited()
		before = old
		if !old {
			t.passedOld.add(at, 1)
		}
	}
	if logged {
		t.inLogs.add(at, 1)
		if !limited {
			t.blind++
		}
	}
	t.matrix[bit(old)][2*bit(limited)+bit(logged)]++
	t.endpoint(rec, limited)
	t.client(s, limited, before)
	if r.o.Check && rec.Verdict.Action != "" {
		t.check.add(t, rec, out)
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// client counts a request of a client.
func (t *tally) client(s *seen, limited, before bool) {
	if s.client == "" {
		t.unnamed++
		return
	}
	h := maphash.String(seed, s.client)
	c := t.clients[h]
	if c == nil {
		c = &client{}
		t.clients[h] = c
		t.strange += bit(t.run.client.kind == 0 && !isNetwork(s.client))
	}
	c.requests++
	c.before = c.before || before
	c.near = c.near || s.out[0].near
	l := c.listed
	if !limited {
		if l != nil && l.demand.cells != nil {
			l.demand.add(s.rec.At, 1)
		}
		return
	}
	c.limited++
	if l == nil {
		if t.listed >= mostLimited {
			return
		}
		t.listed++
		l = &limitedClient{LimitedClient: LimitedClient{Client: strings.Clone(s.client), First: timeOf(s.rec.At)}}
		if i := s.out[0].rule; i >= 0 {
			l.Rule = t.run.engines[0].rules[i].rule.Name
		}
		c.listed = l
	}
	l.Last = timeOf(s.rec.At)
	c.sure = l.exceed(s.rec.At, &s.out[0]) || c.sure
	if t.listed <= mostTimelines || l.limits.cells != nil {
		l.demand.add(s.rec.At, 1)
		l.limits.add(s.rec.At, 1)
	}
}

// endpoint counts a request to a method and a path.
func (t *tally) endpoint(rec *logs.Record, limited bool) {
	path, _, _ := strings.Cut(rec.Target, "?")
	const most = 200
	if len(path) > most {
		path = path[:most]
	}
	var room [most + 32]byte
	name := append(append(append(room[:0], rec.Method...), ' '), path...)
	e := t.endpoints[string(name)]
	if e == nil && len(t.endpoints) >= mostEndpoints {
		name = append(room[:0], otherEndpoints...)
		e = t.endpoints[string(name)]
	}
	if e == nil {
		e = &Endpoint{Endpoint: string(name)}
		t.endpoints[e.Endpoint] = e
	}
	e.Requests++
	e.Limited += bit(limited)
}

const otherEndpoints = "other paths"

// Check compares a log's verdicts with the policy's.
type Check struct {
	Compared    int64          `json:"compared"`           // lines with a verdict of a rule that was evaluated
	Agreed      int64          `json:"agreed"`             // equal to the replay's, also at a time within the resolution
	Within      int64          `json:"within"`             // agree at a time within the resolution, or with leases that end in time
	Resolution  float64        `json:"resolution_seconds"` // by how much these times differ at most
	NotCompared int64          `json:"not_compared"`       // lines of rules that were not evaluated, or of a fallback or units ahead
	Examples    []Disagreement `json:"examples"`           // the first disagreements
}

// Disagreement is a line whose verdict is another one in the replay.
type Disagreement struct {
	File   string `json:"file"`
	Line   int32  `json:"line"`
	Logged string `json:"logged"`
	Replay string `json:"replay"`
	Rule   string `json:"rule"` // of the log
}

// add compares the verdict of a line.
func (c *Check) add(t *tally, rec *logs.Record, out *outcome) {
	if rec.Verdict.Aside || slices.ContainsFunc(t.unevaluated[0], func(u Unevaluated) bool { return !u.Class && u.Name == rec.Verdict.Rule }) {
		c.NotCompared++
		return
	}
	c.Compared++
	exact := max(t.run.layout.Blur, clockError).Seconds()
	c.Resolution = max(c.Resolution, exact)
	got := out.action()
	if out.kind == delayed {
		got = "delay"
	}
	if out.agrees(&rec.Verdict) {
		c.Agreed++
		if out.within {
			c.Within++
			c.Resolution = max(c.Resolution, exact+float64(rec.Verdict.Took)/micros)
		}
		return
	}
	if len(c.Examples) < 5 {
		c.Examples = append(c.Examples, Disagreement{
			File: t.run.o.Logs.Files[rec.File], Line: rec.Line,
			Logged: strings.Clone(rec.Verdict.Action), Replay: got, Rule: strings.Clone(rec.Verdict.Rule),
		})
	}
}

// timeOf returns a time in microseconds of Unix time.
func timeOf(at int64) time.Time { return time.UnixMicro(at).UTC() }
