package faults

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// TestPacketLoss loses all packets between a guard and its server for some seconds. The store
// decides again soon after the loss ends, although TCP by itself sends again only after a pause as
// long as the loss: the adapters give up connections that lost packets, and make others.
func TestPacketLoss(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		// TCP sends again 0.2, 0.6, 1.4, 3.0, 6.2 and 12.6 s after a loss begins.
		losses := []time.Duration{3400 * time.Millisecond}
		if redistest.Times(t, 3) > 3 { // with make soak
			losses = append(losses, time.Second, 5*time.Second, 8*time.Second, 12*time.Second)
		}
		for _, lasting := range losses {
			holdRecovery(t, a, lasting)
		}
	})
}

// holdRecovery holds the store to decide again soon after packets were lost for a time.
func holdRecovery(t *testing.T, a adapters.Adapter, lasting time.Duration) {
	t.Helper()
	took, late := losePackets(t, a, lasting)
	if took > recoverWithin+hops*late && late > lossLate {
		t.Logf("the store decided again after %v; the machine was busy, by %v, and the test is repeated", took, late)
		took, late = losePackets(t, a, lasting)
	}
	if want := recoverWithin + hops*late; took > want {
		t.Errorf("the store decided again %v after a loss of %v ended, want %v", took, lasting, want)
	}
	t.Logf("the store decided again %v after a loss of %v ended", took, lasting)
}

// lossLate is how late timers are on a machine so busy that a probe can be late.
const lossLate = 5 * time.Millisecond

// losePackets loses packets for a time. It returns how long after that the store decided again, and how
// late the latest timer was.
func losePackets(t *testing.T, a adapters.Adapter, lasting time.Duration) (took, late time.Duration) {
	t.Helper()
	far := redistest.StartFar(t)
	g, err := guard.New(guard.Options{
		Store:    a.Open(t, adapters.To(far.Addr()), redisstore.Options{}),
		Deadline: loadDeadline, Fallback: loadFallback, Inline: a.Name == "rueidis",
	})
	if err != nil {
		t.Fatal(err)
	}
	l := startVolley(g, 30*time.Second)
	l.await(t, 500*time.Millisecond)
	if err := far.Cut(); err != nil {
		t.Fatal(err)
	}
	cut := l.since()
	l.await(t, lasting)
	if err := far.Mend(); err != nil {
		t.Fatal(err)
	}
	mended := l.since()
	l.await(t, 2*time.Second)
	answers := l.end(t)
	first := time.Duration(-1)
	lost := 0
	for i := range answers {
		n := &answers[i]
		switch {
		case n.err != nil:
			t.Fatalf("a decision failed: %v", n.err)
		case n.first.Degraded:
			lost++
		case n.at > cut+loadDeadline && n.end() < mended:
			t.Fatalf("the store decided %v after the cable was cut", n.at-cut)
		case n.at > cut && n.end() > mended && (first < 0 || n.end() < first):
			first = n.end()
		}
	}
	if lost == 0 {
		t.Error("no packet was lost")
	}
	if first < 0 {
		first = time.Hour
	}
	return first - mended, l.scheduler()
}
