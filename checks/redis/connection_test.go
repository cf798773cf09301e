package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestAdapterCutReply cuts connections after each number of bytes of a reply: the
// script has run once, whatever arrived.
func TestAdapterCutReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	const reply = "$12\r\n1 and more..\r\n"
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		for n := range len(reply) {
			p := redistest.StartProxy(t, s.Addr())
			c := a.Dial(t, adapters.To(p.Addr()))
			key := fmt.Sprint(a.Name, n)
			if _, err := c.Info(redistest.Within(t, redistest.Soon), ""); err != nil { // there is a connection now
				t.Fatal(err)
			}
			if err := p.Cut("EVALSHA", n); err != nil {
				t.Fatal(err)
			}
			_, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{key}, []string{" and more.."})
			wantUnknown(t, err)
			if err := p.Pass(); err != nil {
				t.Fatal(err)
			}
			// A client that repeats scripts had time to: this call came later.
			got, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{key}, []string{""})
			wantReply(t, "2", got, err)
			wantCount(t, s, key, 2)
		}
	})
}

// TestAdapterCutUnderLoad does so with many calls under way on a connection.
func TestAdapterCutUnderLoad(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		p := redistest.StartProxy(t, s.Addr())
		c := a.Dial(t, adapters.To(p.Addr()))
		var callers sync.WaitGroup
		var replied, unknown [16]atomic.Int64
		sum := func(counts *[16]atomic.Int64) (all int64) {
			for i := range counts {
				all += counts[i].Load()
			}
			return all
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for i := range replied {
			callers.Go(func() {
				for ctx.Err() == nil {
					call, cancel := context.WithTimeout(t.Context(), redistest.Soon)
					_, err := c.EvalSHA(call, sha, []string{fmt.Sprint(a.Name, i)}, []string{""})
					cancel()
					var reply *redisstore.ServerError
					switch {
					case err == nil:
						replied[i].Add(1)
					case errors.Is(err, redisstore.ErrNotSent):
					case errors.As(err, &reply):
						t.Errorf("an error reply: %v", err)
					default:
						unknown[i].Add(1)
					}
				}
			})
		}
		cuts := 0
		for ; cuts < 25 || sum(&unknown) < 25; cuts++ {
			was, answered := p.Stats().Cuts, sum(&replied)
			if err := p.Cut("evalsha", 7+cuts%50); err != nil {
				t.Fatal(err)
			}
			process.Eventually(t, "a cut", func() bool { return p.Stats().Cuts > was })
			if err := p.Pass(); err != nil {
				t.Fatal(err)
			}
			process.Eventually(t, "a reply after a cut", func() bool { return sum(&replied) > answered })
		}
		stop()
		callers.Wait()
		for i := range replied {
			n, least := counted(t, s, fmt.Sprint(a.Name, i)), replied[i].Load()
			if most := least + unknown[i].Load(); n < least || n > most {
				t.Errorf("key %d: the script ran %d times for %d replies and %d unknown outcomes", i, n, least, most-least)
			}
		}
		t.Logf("%d outcomes were left open by %d cuts", sum(&unknown), cuts)
	})
}

// punctual checks that calls fail at their deadline, without the time in which a busy machine let no goroutine
// run. A client that forgets the deadline waits for five or ten seconds, in which the machine does nothing.
type punctual struct {
	stalls *process.Stalls
	worst  atomic.Int64
}

const (
	brief = 50 * time.Millisecond
	late  = 2 * time.Second
)

func (p *punctual) call(t *testing.T, c redisstore.Client, sha, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	began, stalled := time.Now(), p.stalls.Total()
	_, err := c.EvalSHA(ctx, sha, []string{key}, []string{""})
	took := int64(time.Since(began) - (p.stalls.Total() - stalled))
	if err == nil {
		t.Error("a server that is silent has answered")
	}
	for worst := p.worst.Load(); worst < took && !p.worst.CompareAndSwap(worst, took); worst = p.worst.Load() {
	}
}

func (p *punctual) check(t *testing.T) {
	t.Helper()
	worst := time.Duration(p.worst.Load())
	t.Logf("the longest call with a deadline of %v took %v, without stalls of the machine, which were %v", brief, worst, p.stalls.Total())
	if worst > late {
		t.Errorf("a call with a deadline of %v took %v", brief, worst)
	}
}

// inFullSwing calls from many goroutines, so that a client pipelines over all its
// connections, and has filled its pool.
func inFullSwing(t *testing.T, c redisstore.Client, sha string) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range 64 {
		wait.Go(func() {
			for range 50 {
				if _, err := c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{fmt.Sprint("swing", i)}, []string{""}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

// TestAdapterPausedServer calls a paused server, until long after queues
// and pools of clients are full.
func TestAdapterPausedServer(t *testing.T) {
	t.Parallel()
	const callers, calls = 400, 12
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		s := redistest.Start(t)
		sha := load(t, s)
		c := a.Dial(t, adapters.To(s.Addr()))
		inFullSwing(t, c, sha)
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		p := punctual{stalls: process.MeasureStalls(t)}
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				for range calls {
					p.call(t, c, sha, "k")
				}
			})
		}
		wait.Wait()
		p.check(t)
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		wantRecovery(t, c, sha)
	})
}

// wantRecovery calls until a call succeeds.
func wantRecovery(t *testing.T, c redisstore.Client, sha string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	until := redistest.Within(t, redistest.Soon)
	for {
		ctx, cancel := context.WithTimeout(until, time.Second)
		_, err := c.EvalSHA(ctx, sha, []string{"recovery"}, []string{""})
		cancel()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-until.Done():
			t.Fatalf("no call succeeds any more: %v", err)
		}
	}
}

// TestAdapterSilentNetwork is a server that cannot be reached any more, while nothing
// says so: neither on old connections nor on new ones.
func TestAdapterSilentNetwork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		p := redistest.StartProxy(t, s.Addr())
		c := a.Dial(t, adapters.To(p.Addr()))
		inFullSwing(t, c, sha)
		if err := p.Hold(); err != nil {
			t.Fatal(err)
		}
		p.Drop()
		calls := punctual{stalls: process.MeasureStalls(t)}
		for range 5 {
			calls.call(t, c, sha, "k")
		}
		calls.check(t)
		if err := p.Pass(); err != nil {
			t.Fatal(err)
		}
		wantRecovery(t, c, sha)
	})
}

// TestAdapterEndedContext is a caller that has gone already.
func TestAdapterEndedContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		c := a.Dial(t, adapters.To(s.Addr()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.EvalSHA(ctx, sha, []string{a.Name}, []string{""})
		wantNotSent(t, err)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the error of a canceled context", err)
		}
		wantCount(t, s, a.Name, 0)
	})
}

func TestAdapterRefusedConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		p := redistest.StartProxy(t, s.Addr())
		c := a.Dial(t, adapters.To(p.Addr()))
		wantRecovery(t, c, sha)
		if err := p.Refuse(); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, c, sha, a.Name)
		wantCount(t, s, a.Name, 0)
		if err := p.Pass(); err != nil {
			t.Fatal(err)
		}
		wantRecovery(t, c, sha)
	})
}

// wantRefused calls until every connection of before has been found to be gone, and
// wants to read then that calls are not sent.
func wantRefused(t *testing.T, c redisstore.Client, sha, key string) {
	t.Helper()
	var err error
	for refused, calls := 0, 0; refused < 5; calls++ {
		if _, err = c.EvalSHA(redistest.Within(t, 50*time.Millisecond), sha, []string{key}, []string{""}); errors.Is(err, redisstore.ErrNotSent) {
			refused++
			continue
		}
		refused = 0
		if calls == 50 {
			t.Fatalf("%v; want one that wraps ErrNotSent", err)
		}
	}
}
