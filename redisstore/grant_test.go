package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
)

// claimOf returns a claim for one unit of a key.
func claimOf(tb testing.TB, name, key string, a sluice.Algorithm) driver.Claim {
	tb.Helper()
	l, err := sluice.MustLimit(name, a).WithHybrid(sluice.Hybrid{Stranded: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return driver.Claim{Limit: l, Key: sluice.StringKey(key), Seq: 1, Want: 1}
}

// TestClaimsAreSentOnce: a claim is sent once, whatever fails, except to a server that does not have the
// script. After an error, the outcome is unknown if the call may have reached the server.
func TestClaimsAreSentOnce(t *testing.T) {
	broken := errors.New("broken")
	for _, step := range []struct {
		name        string
		client      *fakeClient
		shas, evals int64
		unknown     bool
	}{
		{"the reply is lost", &fakeClient{errSHA: broken}, 1, 0, true},
		{"the server does not have the script, and the reply is lost", &fakeClient{errSHA: &ServerError{"NOSCRIPT"}, errEval: broken}, 1, 1, true},
		{"nothing was sent", &fakeClient{errSHA: fmt.Errorf("%w: refused", ErrNotSent)}, 1, 0, false},
		{"the server refuses", &fakeClient{errSHA: &ServerError{"OOM"}}, 1, 0, false},
		{"the reply is of another program", &fakeClient{reply: "\x93\x01\x02"}, 1, 0, true},
		{"the reply is cut off", &fakeClient{reply: "\x01\x91\x9c\x00\x00"}, 1, 0, true},
		{"the script refuses the claim", &fakeClient{reply: "\x01\x91\xa3OOM"}, 1, 0, false},
	} {
		s, err := New(step.client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		out := make([]driver.Grant, 1)
		s.Grant(t.Context(), 7, []driver.Claim{claimOf(t, "l", "k", sluice.TokenBucket{Rate: sluice.PerSecond(5)})}, out)
		if g := out[0]; g.Err == nil || errors.Is(g.Err, sluice.ErrUnknownOutcome) != step.unknown {
			t.Errorf("%s: the error is %v, want an unknown outcome: %v", step.name, g.Err, step.unknown)
		}
		if step.client.shas.Load() != step.shas || step.client.evals.Load() != step.evals {
			t.Errorf("%s: %d calls by digest and %d by source", step.name, step.client.shas.Load(), step.client.evals.Load())
		}
	}
}

// keysClient keeps the keys of each call, and fails the calls with some key.
type keysClient struct {
	fakeClient
	mu    sync.Mutex
	calls [][]string
	fail  string
}

func (c *keysClient) EvalSHA(_ context.Context, _ string, keys, _ []string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, keys)
	if slices.Contains(keys, c.fail) {
		return "", errors.New("broken")
	}
	return "", &ServerError{"BUSY"}
}

// TestGrantCalls: claims of a slot travel together, in calls of bounded size; a failed call fails
// its claims only.
func TestGrantCalls(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		c := &keysClient{fail: "sluice{7}fixed:l"}
		s, err := New(c, Options{Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		var cs []driver.Claim
		bySlot := map[uint16]int{}
		for i := range 150 {
			for _, a := range []sluice.Algorithm{sluice.TokenBucket{Rate: sluice.PerSecond(5)}, sluice.FixedWindow{Rate: sluice.PerSecond(5)}} {
				cs = append(cs, claimOf(t, "l", fmt.Sprint(i), a))
			}
			bySlot[s.names.slot(cs[len(cs)-1].Key)]++
		}
		out := make([]driver.Grant, len(cs))
		s.Grant(t.Context(), 7, cs, out)
		want := (len(cs) + maxClaims - 1) / maxClaims
		if cluster {
			want = len(bySlot)
		}
		total, together := 0, 0
		for _, keys := range c.calls {
			total += len(keys)
			if len(keys) > maxClaims {
				t.Errorf("a call has %d keys", len(keys))
			}
			if slices.Contains(keys, c.fail) {
				together = len(keys)
			}
		}
		if len(c.calls) != want || total != len(cs) {
			t.Errorf("cluster %v: %d keys in %d calls, want %d in %d", cluster, total, len(c.calls), len(cs), want)
		}
		unknown := 0
		for _, g := range out {
			if g.Err == nil {
				t.Fatal("a claim has no error")
			}
			if errors.Is(g.Err, sluice.ErrUnknownOutcome) {
				unknown++
			}
		}
		if unknown != together {
			t.Errorf("cluster %v: %d claims have an unknown outcome, and the failed call had %d", cluster, unknown, together)
		}
	}
}

// FuzzGrantReply: whatever replies, nothing panics, and no reply that cannot be read is an answer.
func FuzzGrantReply(f *testing.F) {
	claim := claimOf(f, "l", "k", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	s, err := New(&fakeClient{}, Options{})
	if err != nil {
		f.Fatal(err)
	}
	call := s.split([]driver.Claim{claim}, make([]driver.Grant, 1))[0]
	good := appendList(appendInt(nil, 1_750_000_000_000_000), 1)
	good = appendList(good, 12)
	good = appendText(appendInt(appendInt(good, 0), 0), call.limits[0].blob)
	for range 9 {
		good = appendInt(good, 3)
	}
	f.Add(string(good))
	f.Add("\x01\x91\xa3OOM")
	f.Fuzz(func(t *testing.T, reply string) {
		out := make([]driver.Grant, 1)
		if err := call.read(reply, out); err == nil && out[0].Err == nil && out[0].Now > exact {
			t.Errorf("reply %q became a grant with an inexact time: %+v", reply, out[0])
		}
	})
}

// TestGrantableKinds: an algorithm has hybrid terms if and only if its scripts can grant it.
func TestGrantableKinds(t *testing.T) {
	for _, l := range samples() {
		_, err := l.WithHybrid(sluice.Hybrid{Stranded: 1})
		kind := l.Params().Kind
		if can := grantable&(1<<kind) != 0; err == nil && !can || err != nil && can && !l.Params().CountsDenied() {
			t.Errorf("%v: WithHybrid disagrees with the scripts: %v", l, err)
		}
	}
	if grantable&(1<<algo.KindConcurrency) != 0 {
		t.Error("leases are granted")
	}
}
