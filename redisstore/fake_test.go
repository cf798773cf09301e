package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// fakeClient answers every script alike. What the scripts do is tested against real
// servers, in checks/redis.
type fakeClient struct {
	reply   string
	errSHA  error // of EvalSHA
	errEval error // of Eval
	info    string
	infoOf  func(key string) (string, error)
	masters []Master // nil: one server
	scan    func(key string, cursor uint64) ([]string, uint64, error)
	shas    atomic.Int64
	evals   atomic.Int64
}

func (c *fakeClient) EvalSHA(context.Context, string, []string, []string) (string, error) {
	c.shas.Add(1)
	return c.reply, c.errSHA
}

func (c *fakeClient) Eval(context.Context, string, []string, []string) (string, error) {
	c.evals.Add(1)
	return c.reply, c.errEval
}

func (c *fakeClient) Masters(context.Context) ([]Master, error) {
	if c.masters == nil {
		return []Master{{}}, c.errSHA
	}
	return c.masters, c.errSHA
}

func (c *fakeClient) Info(_ context.Context, key string) (string, error) {
	if c.infoOf != nil {
		return c.infoOf(key)
	}
	return c.info, c.errSHA
}

func (c *fakeClient) Scan(_ context.Context, key string, cursor uint64, _ string, _ int) ([]string, uint64, error) {
	if c.scan != nil {
		return c.scan(key, cursor)
	}
	return nil, 0, c.errSHA
}

// samples are limits of all algorithms.
func samples() []*sluice.Limit {
	rate := sluice.PerSecond(5)
	var ls []*sluice.Limit
	for name, a := range map[string]sluice.Algorithm{
		"bucket":   sluice.TokenBucket{Rate: rate},
		"warm":     sluice.TokenBucket{Rate: rate, WarmUp: time.Second},
		"leaky":    sluice.LeakyBucket{Rate: rate, Queue: 3},
		"fixed":    sluice.FixedWindow{Rate: rate},
		"opened":   sluice.FixedWindow{Rate: rate, Opened: true},
		"calendar": sluice.FixedWindow{Rate: rate, Calendar: sluice.CalendarDay},
		"cells":    sluice.SlidingWindow{Rate: rate},
		"counter":  sluice.SlidingCounter{Rate: rate},
		"log":      sluice.SlidingLog{Rate: rate},
		"denied":   sluice.SlidingLog{Rate: rate, CountDenied: true},
		"attempts": sluice.SlidingWindow{Rate: rate, CountDenied: true},
		"leases":   sluice.Concurrency{Max: 5, Queue: 5, TTL: time.Second, Latency: time.Second},
	} {
		ls = append(ls, sluice.MustLimit(name, a))
	}
	return ls
}

func request(l *sluice.Limit) sluice.Request {
	return sluice.Request{Limit: l, Key: sluice.StringKey("k"), Cost: 1, Member: 7}
}
