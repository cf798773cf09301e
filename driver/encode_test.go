package driver_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/storetest"
)

// bytesStore keeps states as bytes, as a store over a database does.
type bytesStore struct {
	t     *testing.T
	clock func() int64
	mu    sync.Mutex
	kept  map[any][]byte
}

type banID id

// with decodes the states of a key, calls a function with them, and keeps what it has made of them.
func (s *bytesStore) with(f func(find func(l *sluice.Limit, k sluice.Key) (*driver.State, *driver.BanState)) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	states, bans := map[id]*driver.State{}, map[banID]*driver.BanState{}
	err := f(func(l *sluice.Limit, k sluice.Key) (*driver.State, *driver.BanState) {
		i, j := id{l.ID(), k}, banID{l.NameID(), k}
		if states[i] == nil {
			states[i] = new(driver.State)
			if err := states[i].UnmarshalBinary(s.kept[i]); err != nil {
				s.t.Error(err)
			}
		}
		if bans[j] == nil {
			bans[j] = new(driver.BanState)
			if err := bans[j].UnmarshalBinary(s.kept[j]); err != nil {
				s.t.Error(err)
			}
		}
		return states[i], bans[j]
	})
	for i, state := range states {
		s.kept[i], _ = state.AppendBinary(nil)
	}
	for j, ban := range bans {
		s.kept[j], _ = ban.AppendBinary(nil)
	}
	return err
}

func (s *bytesStore) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	var out [1]sluice.Decision
	err := s.DecideAll(ctx, []sluice.Request{r}, out[:])
	return out[0], err
}

func (s *bytesStore) DecideAll(_ context.Context, rs []sluice.Request, out []sluice.Decision) error {
	return s.with(func(find func(*sluice.Limit, sluice.Key) (*driver.State, *driver.BanState)) error {
		return driver.Decide(s.clock(), rs, out, func(r *sluice.Request) (*driver.State, *driver.BanState) { return find(r.Limit, r.Key) })
	})
}

// end calls a function with the state of a charge.
func (s *bytesStore) end(c sluice.Charge, f func(*driver.State) error) error {
	if c.Limit == nil {
		return new(driver.State).Cancel(0, c)
	}
	return s.with(func(find func(*sluice.Limit, sluice.Key) (*driver.State, *driver.BanState)) error {
		state, _ := find(c.Limit, c.Key)
		return f(state)
	})
}

func (s *bytesStore) Cancel(_ context.Context, c sluice.Charge) error {
	return s.end(c, func(state *driver.State) error { return state.Cancel(s.clock(), c) })
}

func (s *bytesStore) Settle(_ context.Context, c sluice.Charge, actual int64) error {
	return s.end(c, func(state *driver.State) error { return state.Settle(s.clock(), c, actual) })
}

func (s *bytesStore) Release(_ context.Context, c sluice.Charge, latency time.Duration) error {
	return s.end(c, func(state *driver.State) error { return state.Release(s.clock(), c, latency) })
}

func (s *bytesStore) Reset(_ context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return &sluice.RequestError{Problem: "has no limit"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, id{l.ID(), k})
	delete(s.kept, banID{l.NameID(), k})
	return nil
}

// TestContractOfBytes: a store decides the same from the bytes of its states.
func TestContractOfBytes(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
		return &bytesStore{t: t, clock: clock.Now, kept: map[any][]byte{}}
	}, storetest.TimeGoesBack(), storetest.Attempts(50), storetest.Percent(soak.Times(t, 3)))
}

// TestDamagedBytes: bytes that were cut, or are of another version, are errors, and the state stays.
func TestDamagedBytes(t *testing.T) {
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerMinute(5)}, sluice.SlidingLog{Rate: sluice.PerMinute(5)}, sluice.Concurrency{Max: 5},
	} {
		l := sluice.MustLimit("l", a)
		var state driver.State
		var out [1]sluice.Decision
		find := func(*sluice.Request) (*driver.State, *driver.BanState) { return &state, new(driver.BanState) }
		if err := driver.Decide(1e15, []sluice.Request{{Limit: l, Cost: 1, Member: 1}}, out[:], find); err != nil || !out[0].Allowed {
			t.Fatal(out, err)
		}
		b, _ := state.AppendBinary(nil)
		for i := 1; i < len(b); i++ {
			err := state.UnmarshalBinary(b[:i])
			if after, _ := state.AppendBinary(nil); err != nil && !bytes.Equal(after, b) {
				t.Fatalf("%v: %d of %d bytes have changed the state", l, i, len(b))
			} else if err == nil {
				t.Errorf("%v: %d of %d bytes are a state", l, i, len(b))
				_ = state.UnmarshalBinary(b)
			}
		}
		b[0]++
		if err := state.UnmarshalBinary(b); err == nil {
			t.Errorf("%v: a state of another version is read", l)
		}
	}
}

// TestStoresWithoutHoldsChargeNothing: a store over Decide has no holds, and says so before it charges anything.
func TestStoresWithoutHoldsChargeNothing(t *testing.T) {
	limit := sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(5)})
	r := sluice.Request{Limit: limit, Cost: 1, Hold: time.Minute}
	var state driver.State
	var ban driver.BanState
	err := driver.Decide(0, []sluice.Request{r}, make([]sluice.Decision, 1), func(*sluice.Request) (*driver.State, *driver.BanState) { return &state, &ban })
	if !errors.Is(err, sluice.ErrUnsupported) || !state.Fresh(0) {
		t.Errorf("%v, fresh %t; want ErrUnsupported and no charge", err, state.Fresh(0))
	}
}
