package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestNothingIsSentTwice: the source is sent only after NOSCRIPT, nothing is sent twice, and an error shows
// whether anything may have changed.
func TestNothingIsSentTwice(t *testing.T) {
	noscript := &ServerError{"NOSCRIPT No matching script. Please use EVAL."}
	oom := &ServerError{"OOM command not allowed when used memory > 'maxmemory'."}
	for _, c := range []struct {
		name          string
		errSHA, err   error
		evals         int64
		want, wantNot error
	}{
		{"noscript, then an answer", noscript, nil, 1, nil, nil},
		{"noscript, then a lost reply", noscript, io.EOF, 1, sluice.ErrUnknownOutcome, nil},
		{"noscript, then out of memory", noscript, oom, 1, oom, sluice.ErrUnknownOutcome},
		{"noscript twice", noscript, noscript, 1, noscript, sluice.ErrUnknownOutcome},
		{"out of memory", oom, nil, 0, oom, sluice.ErrUnknownOutcome},
		{"a lost reply", io.EOF, nil, 0, sluice.ErrUnknownOutcome, nil},
		{"a refused connection", fmt.Errorf("%w: refused", ErrNotSent), nil, 0, ErrNotSent, sluice.ErrUnknownOutcome},
	} {
		l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
		client := &fakeClient{reply: "\x01\x01", errSHA: c.errSHA, errEval: c.err}
		s, err := New(client, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range map[string]func() error{
			"Decide": func() error { _, err := s.Decide(t.Context(), request(l)); return err },
			"Settle": func() error { return s.Settle(t.Context(), sluice.Charge{Limit: l, Cost: 1}, 2) },
			"Reset":  func() error { return s.Reset(t.Context(), l, sluice.StringKey("k")) },
		} {
			client.shas.Store(0)
			client.evals.Store(0)
			err := call()
			if !errors.Is(err, c.want) || c.wantNot != nil && errors.Is(err, c.wantNot) {
				t.Errorf("%s, %s: the error is %v, want %v", what, c.name, err, c.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "redisstore: ") {
				t.Errorf("%s, %s: the error does not say where it is from: %v", what, c.name, err)
			}
			if client.shas.Load() != 1 || client.evals.Load() != c.evals {
				t.Errorf("%s, %s: %d and %d calls", what, c.name, client.shas.Load(), client.evals.Load())
			}
		}
	}
}

// TestVerdictsThatDisagreeAreErrors: a verdict that does not follow from the state is an error, and no
// admission.
func TestVerdictsThatDisagreeAreErrors(t *testing.T) {
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	s := store(t, Options{})
	s.client.(*fakeClient).reply = "\x01\x00" // a fresh bucket denies
	d, err := s.Decide(t.Context(), request(l))
	if !errors.Is(err, sluice.ErrUnknownOutcome) || d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
	s.client.(*fakeClient).reply = "\x01\x00\x92\xa0\xa0"
	err = s.DecideAll(t.Context(), []sluice.Request{request(l), request(l)}, make([]sluice.Decision, 2))
	if !errors.Is(err, sluice.ErrUnknownOutcome) {
		t.Errorf("a batch: got %v", err)
	}
}

// TestBatchIsBounded: a script must not hold up the server for long.
func TestBatchIsBounded(t *testing.T) {
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	rs := make([]sluice.Request, maxBatch+1)
	for i := range rs {
		rs[i] = request(l)
	}
	var problem *sluice.RequestError
	if err := store(t, Options{}).DecideAll(t.Context(), rs, make([]sluice.Decision, len(rs))); !errors.As(err, &problem) {
		t.Errorf("got %v", err)
	}
}

// argsClient keeps the arguments of the last call, which it refuses.
type argsClient struct {
	fakeClient
	args []string
}

func (c *argsClient) EvalSHA(_ context.Context, _ string, _, args []string) (string, error) {
	c.args = slices.Clone(args)
	return "", errors.New("no reply")
}

// TestNoWaitIsPlain checks that a request that refuses delays is sent as one that accepts the limit's own, if the limit
// has none: policies make such requests, and the fast heads of scripts decide them.
func TestNoWaitIsPlain(t *testing.T) {
	c := &argsClient{}
	s, err := New(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sent := func(l *sluice.Limit, n int, wait time.Duration) []string {
		rs := make([]sluice.Request, n)
		for i := range rs {
			rs[i] = request(l)
			rs[i].Key, rs[i].MaxWait = sluice.StringKey(string(rune('a'+i))), wait
		}
		if err := s.DecideAll(t.Context(), rs, make([]sluice.Decision, n)); err == nil {
			t.Fatal("the client has replied")
		}
		return c.args
	}
	for _, l := range samples() {
		queued := l.Name() == "leaky" || l.Name() == "leases"
		for _, n := range []int{1, 3} {
			if got := slices.Equal(sent(l, n, sluice.NoWait), sent(l, n, 0)); got == queued {
				t.Errorf("%d requests of %s: equal arguments is %v", n, l.Name(), got)
			}
		}
	}
}
