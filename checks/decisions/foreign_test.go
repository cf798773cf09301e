package decisions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestForeignStates writes values of other programs to the keys of states. Every call about such a key is an
// error, and the value stays.
func TestForeignStates(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := openOne(t, server)
	second := sluice.PerSecond(5)
	algorithms := []sluice.Algorithm{
		sluice.TokenBucket{Rate: second},
		sluice.TokenBucket{Rate: second, WarmUp: time.Minute},
		sluice.LeakyBucket{Rate: second, Queue: 5},
		sluice.FixedWindow{Rate: second},
		sluice.SlidingWindow{Rate: second},
		sluice.SlidingCounter{Rate: second},
		sluice.SlidingLog{Rate: second},
		sluice.Concurrency{Max: 5},
	}
	values := [][]string{
		{"SET", "a"}, {"SET", "32"}, {"SET", ""}, {"SET", strings.Repeat("\xff", 33)}, {"SET", "\x04"}, {"HSET", "f", "1"}, {"RPUSH", "1"}, {"SADD", "1"}, {"ZADD", "1", "1"},
	}
	for i, a := range algorithms {
		l := sluice.MustLimit(fmt.Sprintf("foreign-%d", i), a)
		other := sluice.MustLimit(fmt.Sprintf("other-%d", i), sluice.TokenBucket{Rate: sluice.PerDay(100)})
		k := sluice.NewKey("k")
		request := sluice.Request{Limit: l, Key: k, Cost: 1, Member: 7}
		if !l.IsConcurrency() {
			request.Member = 0
		}
		d, err := store.Decide(t.Context(), request)
		if err != nil || !d.Allowed {
			t.Fatalf("%v: a fresh state should allow: %+v, %v", a, d, err)
		}
		charge := request.Charge(&d)
		key := onlyKey(t, server, "sluice*foreign*")
		for _, value := range values {
			do(t, server, "DEL", key)
			do(t, server, slices.Insert(slices.Clone(value), 1, key)...)
			dump := do(t, server, "DUMP", key)
			peek, banned := request, request
			peek.Peek, banned.Ban = true, &sluice.Ban{After: 3, For: time.Minute}
			also := sluice.Request{Limit: other, Key: k, Cost: 1}
			alike := request
			alike.Limit = sluice.MustLimit(fmt.Sprintf("alike-%d", i), a)
			for name, call := range map[string]func() error{
				"decide":   func() error { _, err := store.Decide(t.Context(), request); return err },
				"peek":     func() error { _, err := store.Decide(t.Context(), peek); return err },
				"with ban": func() error { _, err := store.Decide(t.Context(), banned); return err },
				"batch": func() error {
					return store.DecideAll(t.Context(), []sluice.Request{also, request}, make([]sluice.Decision, 2))
				},
				"batch of its algorithm": func() error {
					return store.DecideAll(t.Context(), []sluice.Request{alike, request}, make([]sluice.Decision, 2))
				},
				"batch of three": func() error {
					return store.DecideAll(t.Context(), []sluice.Request{also, peek, request}, make([]sluice.Decision, 3))
				},
				"settle or release": func() error {
					if l.IsConcurrency() {
						return store.Release(t.Context(), charge, time.Second)
					}
					return store.Settle(t.Context(), charge, 0)
				},
			} {
				if err := call(); !errors.Is(err, sluice.ErrForeignState) {
					t.Errorf("%v at %.20q: %s: %v", a, value, name, err)
				}
				if got := do(t, server, "DUMP", key); got != dump {
					t.Fatalf("%v at %.20q: %s has overwritten the value", a, value, name)
				}
			}
			if d, err := store.Decide(t.Context(), sluice.Request{Limit: other, Key: k, Cost: 1, Peek: true}); err != nil || d.Remaining != 100 {
				t.Errorf("%v at %.20q: the other limit of the batch was charged: %+v, %v", a, value, d, err)
			}
		}
		// An operator can mend it.
		if err := store.Reset(t.Context(), l, k); err != nil {
			t.Fatal(err)
		}
		if d, err := store.Decide(t.Context(), request); err != nil || !d.Allowed {
			t.Errorf("%v after the reset: %+v, %v", a, d, err)
		}
		do(t, server, "FLUSHALL")
	}
}

// TestForeignBans does the same with the key of a ban.
func TestForeignBans(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := openOne(t, server)
	l := sluice.MustLimit("foreign", sluice.TokenBucket{Rate: sluice.PerDay(100)})
	k := sluice.NewKey("k")
	request := sluice.Request{Limit: l, Key: k, Cost: 1, Ban: &sluice.Ban{After: 3, For: time.Minute}}
	if err := store.BanKey(t.Context(), l, k, time.Hour); err != nil {
		t.Fatal(err)
	}
	key := onlyKey(t, server, "sluice*!foreign")
	do(t, server, "DEL", key)
	do(t, server, "RPUSH", key, "1")
	for name, call := range map[string]func() error{
		"decide": func() error { _, err := store.Decide(t.Context(), request); return err },
		"ban":    func() error { return store.BanKey(t.Context(), l, k, time.Hour) },
	} {
		if err := call(); !errors.Is(err, sluice.ErrForeignState) {
			t.Errorf("%s: the error is %v, want ErrForeignState", name, err)
		}
	}
	if got := do(t, server, "LLEN", key); got != "1" {
		t.Errorf("the value was overwritten: its length is %s", got)
	}
	if err := store.Reset(t.Context(), l, k); err != nil {
		t.Fatal(err)
	}
	if d, err := store.Decide(t.Context(), request); err != nil || d.Remaining != 99 {
		t.Errorf("after the reset: %+v, %v", d, err)
	}
}

func openOne(t *testing.T, server *redistest.Server) (store *redisstore.Store) {
	t.Helper()
	return adapters.Rueidis.Open(t, adapters.To(server.Addr()), redisstore.Options{})
}

// onlyKey returns the only key of the server that one of the patterns matches.
func onlyKey(t *testing.T, server *redistest.Server, patterns ...string) string {
	t.Helper()
	var found []string
	for _, p := range patterns {
		reply, err := server.Do(t.Context(), "KEYS", p)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range reply.([]any) {
			if text := fmt.Sprint(key); !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("the keys are %q", found)
	}
	return found[0]
}

// do runs a command and returns its reply as a text.
func do(t *testing.T, server *redistest.Server, command ...string) string {
	t.Helper()
	reply, err := server.Do(t.Context(), command...)
	if err != nil {
		t.Fatalf("the command %q failed: %v", command, err)
	}
	return fmt.Sprint(reply)
}
