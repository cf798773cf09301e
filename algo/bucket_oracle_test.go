package algo_test

import (
	"maps"
	"math/big"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// bucketOracle holds tokens as a rational number.
type bucketOracle struct {
	burst, debt int64
	rate        *big.Rat // tokens a microsecond
	period      int64
	most        *big.Rat // the most tokens that may be missing

	tokens  *big.Rat
	last    int64
	lent    bool // a part of a reservation was given back, below others, or one waits for a floor
	charges map[int]bucketCharge
}

type bucketCharge struct {
	cost, floor int64
	at          int64
	act         *big.Rat // when it acts, before rounding
}

func newBucketOracle(count, period, burst, debt int64) *bucketOracle {
	o := &bucketOracle{
		burst: burst, debt: debt, rate: rat(count, period),
		tokens: rat(burst, 1), charges: map[int]bucketCharge{},
	}
	full := new(big.Rat).Quo(rat(burst, 1), o.rate)
	o.period = max(period, roundUp(full).Int64())
	// A state counts in ticks, of which a token is the reduced period.
	o.most = new(big.Rat).SetFrac(big.NewInt(algo.MaxTicks), o.rate.Denom())
	if units := rat(algo.MaxUnits, 1); o.most.Cmp(units) > 0 {
		o.most = units
	}
	return o
}

func (o *bucketOracle) clone() oracle {
	c := *o
	c.charges = maps.Clone(o.charges)
	return &c
}

// refilled returns the tokens as of now and the time that is.
func (o *bucketOracle) refilled(now int64) (*big.Rat, int64) {
	switch {
	case now >= o.last:
		n := new(big.Rat).Mul(rat(now-o.last, 1), o.rate)
		n.Add(n, o.tokens)
		if full := rat(o.burst, 1); n.Cmp(full) > 0 {
			n = full
		}
		return n, now
	case o.last-now <= o.period:
		return o.tokens, o.last
	case o.tokens.Sign() > 0: // set back: all is spent
		return new(big.Rat), now
	default:
		return o.tokens, now
	}
}

// advance makes the state that of now.
func (o *bucketOracle) advance(now int64) {
	o.tokens, o.last = o.refilled(now)
	if o.tokens.Cmp(rat(o.burst, 1)) == 0 {
		o.lent = false
	}
}

// over returns by how many tokens a question runs over.
func (o *bucketOracle) over(a algo.Request) (*big.Rat, int64) {
	tokens, at := o.refilled(a.Now)
	over := new(big.Rat).SetInt64(a.Cost)
	if a.Cost > 0 {
		over.Add(over, rat(a.Floor, 1))
	}
	return over.Sub(over, tokens), at
}

func (o *bucketOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	if a.Cost > 0 && a.Cost > o.burst-a.Floor {
		return false, 0, algo.Never
	}
	over, at := o.over(a)
	if over.Sign() <= 0 {
		return true, 0, algo.None
	}
	wait := roundUp(new(big.Rat).Quo(over, o.rate)).Int64() + at - a.Now
	tokens, _ := o.refilled(a.Now)
	missing := new(big.Rat).Sub(rat(o.burst+a.Cost, 1), tokens)
	if wait > a.MaxWait || missing.Cmp(o.most) > 0 {
		return false, 0, algo.Limited
	}
	return true, wait, algo.None
}

func (o *bucketOracle) commit(a algo.Request, allowed bool, id int) {
	if o.last-a.Now > o.period {
		o.advance(a.Now)
	}
	if !allowed {
		return
	}
	if a.Cost == 0 {
		o.charges[id] = bucketCharge{}
		return
	}
	over, at := o.over(a)
	c, waits := bucketCharge{a.Cost, a.Floor, at, rat(at, 1)}, false
	if over.Sign() > 0 {
		c.act.Add(c.act, over.Quo(over, o.rate))
		waits = a.Floor > 0
	} else {
		c.floor = 0 // who acts at once has no floor to wait for
	}
	o.advance(a.Now)
	o.lent = o.lent || waits
	o.tokens = new(big.Rat).Sub(o.tokens, rat(a.Cost, 1))
	o.charges[id] = c
}

func (o *bucketOracle) remaining(a algo.Request) int64 {
	tokens, _ := o.refilled(a.Now)
	n := new(big.Rat).Sub(tokens, rat(a.Floor, 1))
	if n.Sign() < 0 {
		return 0
	}
	return roundDown(n).Int64()
}

func (o *bucketOracle) fresh(now int64) bool {
	tokens, at := o.refilled(now)
	return at == now && o.last-now <= 0 && tokens.Cmp(rat(o.burst, 1)) == 0
}

func (o *bucketOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	o.advance(now)
	tokens := new(big.Rat).Add(o.tokens, rat(c.cost-actual, 1))
	switch least := rat(-o.debt, 1); {
	case actual <= c.cost:
		o.lent = o.lent || o.tokens.Sign() < 0 && actual < c.cost
		o.gain(tokens)
	case tokens.Cmp(least) >= 0:
		o.tokens = tokens
	case o.tokens.Cmp(least) > 0:
		o.tokens = least
	}
}

// gain sets the tokens after some were given back.
func (o *bucketOracle) gain(tokens *big.Rat) {
	if full := rat(o.burst, 1); tokens.Cmp(full) >= 0 {
		tokens, o.lent = full, false
	}
	o.tokens = tokens
}

func (o *bucketOracle) cancel(now int64, id int) {
	c := o.charges[id]
	if c.cost == 0 {
		return
	}
	tokens, at := o.refilled(now)
	if o.last-now > o.period || c.at > at || o.lent && c.act.Cmp(rat(c.at, 1)) == 0 || rat(at, 1).Cmp(new(big.Rat).SetInt(roundUp(c.act))) > 0 {
		return
	}
	// The last reservation acts when the bucket has its floor back; what was
	// refilled between this one and that one is not there twice.
	last := new(big.Rat).Sub(rat(c.floor, 1), tokens)
	last.Add(last.Quo(last, o.rate), rat(at, 1))
	give := rat(c.cost, 1)
	if last.Cmp(c.act) > 0 {
		last.Sub(last, c.act)
		give.Sub(give, last.Mul(last, o.rate))
		if give.Sign() <= 0 || o.lent {
			return
		}
		o.lent = true
	}
	o.advance(now)
	o.gain(give.Add(give, o.tokens))
}

// bucketNumbers makes up the numbers of a bucket.
func bucketNumbers(c *chooser) (count, period, burst, debt int64) {
	count, period = rateNumbers(c)
	burst = c.one(1, 2, count, 1+c.below(count), 1+c.below(20))
	debt = c.one(1, burst, 2*burst)
	for !algo.NewPace(count, period).Fits(uint64(burst + debt)) {
		burst, debt = max(burst/2, 1), max(debt/2, 1)
	}
	return count, period, burst, debt
}

func newBucket(count, period, burst, debt int64) algo.Params {
	return algo.Params{
		Kind: algo.KindBucket, Capacity: burst,
		Bucket: algo.NewBucket(algo.NewPace(count, period), period, burst, debt),
	}
}

// rateNumbers makes up a rate: small ones, where questions meet, and those that
// must be accepted.
func rateNumbers(c *chooser) (count, period int64) {
	const day = 86_400_000_000
	switch c.below(14) {
	case 0:
		return 1 << 30, day // 1 GiB/d
	case 1:
		return 100 << 30, 30 * day // 100 GiB/30d
	case 2:
		return 1_000_000, day
	case 3:
		return 123_457, day
	case 4:
		return 1, 30 * day
	case 5:
		return 100_000_000, 1_000_000
	case 6:
		return 1 + c.below(1000), 60_000_000
	default:
		return 1 + c.below(12), 1 + c.below(60)
	}
}

// bucket is the subject with reservations that end.
func bucket(c *chooser) (algo.Params, oracle, questions) {
	count, period, burst, debt := bucketNumbers(c)
	o := newBucketOracle(count, period, burst, debt)
	return newBucket(count, period, burst, debt), o, questions{
		pace: pace{max(1, period/count), o.period}, capacity: burst,
		floors: true, waits: true, ends: true, back: 5 * o.period,
	}
}

func TestBucketEqualsOracle(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) { agree(t, c, bucket) })
}

func FuzzBucket(f *testing.F) { fuzz(f, bucket) }
