package algo_test

import (
	"fmt"
	"math/rand"
	"testing"
	"testing/quick"

	"github.com/sluicehq/sluice/internal/algo"
)

// machine is a limit with the state of one key, used as a store uses it.
type machine struct {
	p *algo.Params
	s algo.State
	w []uint64
}

func newMachine(p algo.Params) *machine {
	m := &machine{p: &p}
	if !p.Inline() {
		least, _ := p.Words()
		m.w = make([]uint64, least)
	}
	return m
}

func (m *machine) decide(req algo.Request, commit bool) algo.Result {
	if m.p.Inline() {
		var res algo.Result
		s := m.p.DecideState(m.s, &req, &res)
		if commit {
			m.s = s
		}
		return res
	}
	if commit {
		m.grow(req.Now)
	}
	return m.p.DecideWords(m.w, req, commit)
}

// grow makes room for one more charge.
func (m *machine) grow(now int64) {
	if _, most := m.p.Words(); len(m.w) < most && m.p.FullWords(m.w, now) {
		w := make([]uint64, min(2*len(m.w), most))
		m.p.MoveWords(w, m.w)
		m.w = w
	}
}

func (m *machine) settle(now int64, c algo.Charge, actual int64) {
	if m.p.Inline() {
		m.s = m.p.SettleState(m.s, now, c, actual)
		return
	}
	m.grow(now)
	m.p.SettleWords(m.w, now, c, actual)
}

func (m *machine) cancel(now int64, c algo.Charge) {
	if m.p.Inline() {
		m.s = m.p.CancelState(m.s, now, c)
		return
	}
	m.p.CancelWords(m.w, now, c)
}

func (m *machine) fresh(now int64) bool {
	if m.p.Inline() {
		return m.p.FreshState(m.s, now)
	}
	return m.p.FreshWords(m.w, now)
}

// convert changes the numbers of the key's limit.
func (m *machine) convert(p algo.Params, now int64) {
	from := m.p
	m.p = &p
	if p.Inline() {
		m.s = p.ConvertState(from, m.s, now)
		return
	}
	least, _ := p.Words()
	w := make([]uint64, max(least, len(m.w)))
	p.ConvertWords(from, w, m.w, now)
	m.w = w
}

// state returns the state as text, to compare it.
func (m *machine) state() string { return fmt.Sprint(m.s, m.w) }

// charge returns what an allowed request took.
func charge(req algo.Request, res algo.Result) algo.Charge {
	return algo.Charge{Cost: req.Cost, Floor: req.Floor, At: res.At, Over: res.Over, Member: req.Member}
}

// numbers returns the used numbers of a limit as text.
func numbers(p *algo.Params) string {
	switch p.Kind {
	case algo.KindBucket:
		return fmt.Sprintf("token bucket %+v", p.Bucket)
	case algo.KindWarmBucket:
		return fmt.Sprintf("warm bucket %+v", p.Warm)
	case algo.KindLeaky:
		return fmt.Sprintf("leaky bucket %+v", p.Leaky)
	case algo.KindFixedWindow:
		return fmt.Sprintf("fixed window %+v", p.Fixed)
	case algo.KindSlidingWindow:
		return fmt.Sprintf("sliding window %+v", p.Cells)
	case algo.KindSlidingCounter:
		return fmt.Sprintf("sliding counter %+v", p.Counter)
	case algo.KindSlidingLog:
		return fmt.Sprintf("sliding log %+v", p.Log)
	case algo.KindConcurrency:
		return fmt.Sprintf("concurrency %+v", p.Conc)
	default:
		return fmt.Sprintf("kind %d: %+v", p.Kind, *p)
	}
}

// chooser makes the choices of a schedule: at random, or from the bytes of a fuzz
// target.
type chooser struct {
	rng  *rand.Rand
	data []byte
}

// below returns a number from 0 to n−1.
func (c *chooser) below(n int64) int64 {
	if c.rng != nil {
		return c.rng.Int63n(n)
	}
	v := uint64(0)
	for k := int64(1); k < n && len(c.data) > 0; k <<= 8 {
		v = v<<8 | uint64(c.data[0])
		c.data = c.data[1:]
		if k > 1<<48 {
			break
		}
	}
	return int64(v % uint64(n))
}

// more reports whether the schedule goes on.
func (c *chooser) more() bool { return c.rng != nil || len(c.data) > 0 }

func (c *chooser) one(of ...int64) int64 { return of[c.below(int64(len(of)))] }

func (c *chooser) oneIn(n int64) bool { return c.below(n) == 0 }

// pace has the times that matter to a limit: the time of one unit and of all units.
type pace struct{ unit, period int64 }

// step returns how much time passes before the next request: none, a tick, about one of the times
// that matter, or very much; or back, if allowed, by a little or by much.
func (c *chooser) step(p pace, back int64) int64 {
	switch k := c.below(20); {
	case k < 6:
		return 0
	case k < 8:
		return 1
	case k < 11:
		return p.unit + c.one(-1, 0, 1)
	case k < 14:
		return c.below(3*p.unit + 1)
	case k < 16:
		return c.below(p.period + 1)
	case k < 17:
		return p.period + c.one(-1, 0, 1)
	case k < 18:
		return c.below(3 * p.period)
	case k < 19 && c.oneIn(4):
		return c.one(1e9, 1e12, 1e15)
	case back == 0:
		return c.one(0, 1, p.unit)
	default:
		return -c.one(1, p.unit, c.below(p.unit+1), c.below(p.period+1), p.period, min(back, p.period+1), min(back, c.below(4*p.period)))
	}
}

// law checks a property on random choices. It usually runs a few dozen times, to be quick;
// -quickchecks=10000 runs it a hundred times as often. n is the weight of the law among the
// others.
func law(t *testing.T, n int, holds func(t *testing.T, c *chooser)) {
	t.Helper()
	f := func(seed int64) bool {
		holds(t, &chooser{rng: rand.New(rand.NewSource(seed))})
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
		return !t.Failed()
	}
	if err := quick.Check(f, &quick.Config{MaxCountScale: float64(n) / 250, Rand: rand.New(rand.NewSource(1))}); err != nil {
		t.Fatal(err)
	}
}
