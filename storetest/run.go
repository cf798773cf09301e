package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// Factory makes a fresh store for one test: no other store shares its state, and clock gives its
// time. A Factory registers its clean-up with t.Cleanup. If the store is an [io.Closer], a test
// may close it before the clean-up.
type Factory func(t *testing.T, clock *Clock) sluice.Store

// Option changes what Run checks.
type Option func(*suite)

// TimeGoesBack says that the store follows its clock back. Run then also checks the promises about
// a clock that goes back. A store whose time never goes back does not need it.
func TimeGoesBack() Option {
	return func(s *suite) { s.back = true }
}

// Attempts sets how many requests each of 64 goroutines makes, in the concurrent tests that count
// exactly. It is for stores that are slower than memory. Default: 10,000.
func Attempts(n int) Option {
	return func(s *suite) { s.attempts = n }
}

// Percent sets how many random requests Run makes, in percent of the requests for a store in
// memory. It is for stores that are slower. Default: 100.
func Percent(n int) Option {
	return func(s *suite) { s.percent = n }
}

// Concurrent runs only the clauses that call the store from several goroutines. It is for a run with the race detector,
// which finds nothing where one goroutine calls.
func Concurrent() Option {
	return func(s *suite) { s.concurrent = true }
}

// Holds also tests Request.Hold, for a store that has holds.
func Holds() Option {
	return func(s *suite) { s.holds = true }
}

// suite is one run of the contract.
type suite struct {
	factory  Factory
	attempts int
	percent  int
	back     bool

	concurrent bool
	holds      bool
}

// random returns how many random requests to make if a store in memory gets n.
func (s *suite) random(n int) int { return max(1, n*s.percent/100) }

// clause is one promise of the contract.
type clause struct {
	name string
	test func(s *subject)
}

// contract lists the clauses that hold for every store.
var contract = append([]clause{
	{"Steps", steps},
	{"Laws", laws},
	{"Take", take},
	{"Denial", denial},
	{"Frozen", frozen},
	{"Floor", floor},
	{"FloorBeyondCapacity", floorBeyondCapacity},
	{"Peek", peek},
	{"ZeroCost", zeroCost},
	{"Never", never},
	{"LongTimes", longTimes},
	{"Errors", refused},
	{"Reserve", reserve},
	{"Cancel", cancel},
	{"CancelBound", cancelBound},
	{"CancelLate", cancelLate},
	{"CancelFloor", cancelFloor},
	{"Settle", settle},
	{"SettleLate", settleLate},
	{"Unsupported", unsupported},
	{"EndOnce", endOnce},
	{"Leases", leases},
	{"LeaseQueue", leaseQueue},
	{"LeaseLatency", leaseLatency},
	{"LeaseNever", leaseNever},
	{"MinInterval", minInterval},
	{"CountDenied", countDenied},
	{"CountDeniedNot", countDeniedNot},
	{"CountDeniedBatch", countDeniedBatch},
	{"CountDeniedCharges", countDeniedCharges},
	{"Bans", bans},
	{"BanWindow", banWindow},
	{"BanRetry", banRetry},
	{"BanBatch", banBatch},
	{"BanEscalates", banEscalates},
	{"BanProlonged", banProlonged},
	{"BanByHandOnly", banByHandOnly},
	{"BanByHand", banByHand},
	{"BanLifted", banLifted},
	{"BanRefused", banRefused},
	{"BanList", banList},
	{"Shadow", shadow},
	{"ShadowBatch", shadowBatch},
	{"ShadowsOnly", shadowsOnly},
	{"Batches", batches},
	{"BatchDuplicates", batchDuplicates},
	{"BatchDenials", batchDenials},
	{"BatchPeeks", batchPeeks},
	{"BatchVersions", batchVersions},
	{"BatchErrors", batchErrors},
	{"BatchLarge", batchLarge},
	{"BatchRandom", batchRandom},
	{"DebitSteps", debitSteps},
	{"DebitIsSettled", debitIsSettled},
	{"DebitEnds", debitEnds},
	{"DebitBatch", debitBatch},
	{"DebitKeys", debitKeys},
	{"DebitVersions", debitVersions},
	{"DebitShadow", debitShadow},
	{"DebitBans", debitBans},
	{"DebtRefusesAll", debtRefusesAll},
	{"DebitRefused", debitRefused},
	{"OverdrawSteps", overdrawSteps},
	{"OverdrawFits", overdrawFits},
	{"OverdrawEnds", overdrawEnds},
	{"OverdrawBatch", overdrawBatch},
	{"OverdrawVersions", overdrawVersions},
	{"OverdrawRefused", overdrawRefused},
	{"Convert", convert},
	{"ConvertRandom", convertRandom},
	{"ConvertInTurn", convertInTurn},
	{"ConvertCharge", convertCharge},
	{"ChangeDenials", changeDenials},
	{"ChangeReturns", changeReturns},
	{"ChangeAttack", changeAttack},
	{"ChangePromptly", changePromptly},
	{"Algorithms", algorithms},
	{"AlgorithmsInTurn", algorithmsInTurn},
	{"AlgorithmsEnd", algorithmsEnd},
	{"AlgorithmsBatch", algorithmsBatch},
	{"AlgorithmsBans", algorithmsBans},
	{"Reset", reset},
	{"Keys", keys},
	{"Names", names},
}, concurrent...)

// concurrent lists the clauses that call the store from several goroutines.
var concurrent = []clause{
	{"Exact", exact},
	{"ConcurrentBatches", concurrentBatches},
	{"ConcurrentCancel", concurrentCancel},
	{"ConcurrentLeases", concurrentLeases},
	{"ConcurrentSetLimit", concurrentSetLimit},
	{"DebitConcurrent", debitConcurrent},
	{"OverdrawConcurrent", overdrawConcurrent},
	{"Closed", closed},
}

// backward lists the clauses for stores whose time may go back.
var backward = []clause{
	{"BackSlightly", backSlightly},
	{"BackFar", backFar},
	{"BackLeases", backLeases},
	{"BackBans", backBans},
	{"BackRandom", backRandom},
}

// Run runs the contract against the stores that factory makes, a fresh one for each clause.
func Run(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	s := &suite{factory: factory, attempts: 10_000, percent: 100}
	for _, o := range options {
		o(s)
	}
	clauses := contract
	if s.concurrent {
		clauses = concurrent
	} else if s.back {
		clauses = append(clauses[:len(clauses):len(clauses)], backward...)
	}
	if s.holds && !s.concurrent {
		clauses = append(clauses[:len(clauses):len(clauses)], holding...)
	}
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) { c.test(s.subject(t)) })
	}
}

// epoch is the time at which a Clock starts: the beginning of a day, a month and a year (UTC).
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Clock is a virtual clock. Its time changes only when a test moves it. It is safe for concurrent
// use.
type Clock struct {
	micros atomic.Int64
}

// NewClock returns a clock at the beginning of the year 2030 (UTC).
func NewClock() *Clock {
	c := new(Clock)
	c.micros.Store(epoch.UnixMicro())
	return c
}

// Now returns the time in microseconds since the Unix epoch, as stores count it.
func (c *Clock) Now() int64 { return c.micros.Load() }

// Time returns the time.
func (c *Clock) Time() time.Time { return time.UnixMicro(c.Now()).UTC() }

// Advance lets whole microseconds of d pass; a negative d turns the clock back.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(int64(d / time.Microsecond)) }

// Set sets the clock to a time in microseconds since the Unix epoch.
func (c *Clock) Set(micros int64) { c.micros.Store(micros) }
