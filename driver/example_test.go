package driver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/storetest"
)

// Store is a whole store: it keeps states in maps, and never forgets any.
type Store struct {
	clock  func() int64 // microseconds since the Unix epoch
	mu     sync.Mutex
	states map[id]*driver.State
	bans   map[id]*driver.BanState
}

// id identifies the states of a key.
type id struct {
	limit [2]uint64
	key   sluice.Key
}

func New(clock func() int64) *Store {
	return &Store{clock: clock, states: map[id]*driver.State{}, bans: map[id]*driver.BanState{}}
}

// find returns the states of a key.
func (s *Store) find(l *sluice.Limit, k sluice.Key) (*driver.State, *driver.BanState) {
	state, ban := id{l.ID(), k}, id{l.NameID(), k}
	if s.states[state] == nil {
		s.states[state] = new(driver.State)
	}
	if s.bans[ban] == nil {
		s.bans[ban] = new(driver.BanState)
	}
	return s.states[state], s.bans[ban]
}

func (s *Store) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	var out [1]sluice.Decision
	err := s.DecideAll(ctx, []sluice.Request{r}, out[:])
	return out[0], err
}

func (s *Store) DecideAll(_ context.Context, rs []sluice.Request, out []sluice.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Decide(s.clock(), rs, out, func(r *sluice.Request) (*driver.State, *driver.BanState) { return s.find(r.Limit, r.Key) })
}

// end calls a function with the state of a charge.
func (s *Store) end(c sluice.Charge, f func(now int64, state *driver.State) error) error {
	if c.Limit == nil {
		return &sluice.RequestError{Problem: "the charge has no limit"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state, _ := s.find(c.Limit, c.Key)
	return f(s.clock(), state)
}

func (s *Store) Cancel(_ context.Context, c sluice.Charge) error {
	return s.end(c, func(now int64, state *driver.State) error { return state.Cancel(now, c) })
}

func (s *Store) Settle(_ context.Context, c sluice.Charge, actual int64) error {
	return s.end(c, func(now int64, state *driver.State) error { return state.Settle(now, c, actual) })
}

func (s *Store) Release(_ context.Context, c sluice.Charge, latency time.Duration) error {
	return s.end(c, func(now int64, state *driver.State) error { return state.Release(now, c, latency) })
}

func (s *Store) Reset(_ context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return &sluice.RequestError{Problem: "has no limit"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, id{l.ID(), k})
	delete(s.bans, id{l.NameID(), k})
	return nil
}

// A store of your own keeps a State and a BanState for each key, and calls Decide with them.
func Example() {
	store := New(func() int64 { return time.Now().UnixMicro() })
	limiter := sluice.NewLimiter(store, sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerHour(2)}))
	for range 3 {
		d, err := limiter.Allow(context.Background(), sluice.StringKey("alice"))
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// TestExampleKeepsTheContract runs the contract of stores, as each store has a test to do.
func TestExampleKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock *storetest.Clock) sluice.Store { return New(clock.Now) }, storetest.TimeGoesBack(), storetest.Attempts(500), storetest.Percent(10))
}
