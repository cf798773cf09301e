package vectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
)

// per is a rate of so many a second, which may be a fraction.
func per(n float64) sluice.Rate {
	if n >= 1 || n <= 0 {
		return sluice.PerSecond(int64(n))
	}
	return sluice.Every(time.Duration(math.Round(float64(time.Second) / n)))
}

// serialCalls: eighty calls, each of which waits as it is told, take 79 turns.
func serialCalls(w *world, _ *vector) {
	l := w.limiter("serial", sluice.LeakyBucket{Rate: sluice.PerSecond(40), Queue: 40})
	waited := time.Duration(0)
	for range 80 {
		d := w.allow(l, "")
		if !d.Allowed {
			w.Fatalf("rejected: %+v", d)
		}
		waited += d.Delay
		w.pass(d.Delay)
	}
	if waited < 1960*time.Millisecond || waited > 1999*time.Millisecond {
		w.Errorf("80 calls took %v", waited)
	}
}

// foreignValue: what another program puts under a key is no state of ours: the key starts anew and the limit
// holds from then on, where limit.req fails for ever. All keys begin with a prefix, so that only who
// is given it can write there. Only Redis has others in it.
func foreignValue(w *world, _ *vector) {
	l := w.limiter("foreign", sluice.LeakyBucket{Rate: sluice.PerSecond(2), Queue: 10})
	holds := func(when any) {
		w.Helper()
		for i := range 14 {
			if d := w.allow(l, "k"); d.Allowed != (i < 11) {
				w.Errorf("%q, call %d: %+v", when, i, d)
			}
		}
	}
	holds("at first")
	if w.redis == nil {
		return
	}
	conn, err := w.redis.Dial(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	do := func(command ...string) any {
		w.Helper()
		reply, err := conn.Do(w.Context(), command...)
		if err != nil {
			w.Fatalf("%q: %v", command, err)
		}
		return reply
	}
	keys, _ := do("KEYS", w.name+"*").([]any)
	if len(keys) != 1 {
		w.Fatalf("the keys are %v", keys)
	}
	key := keys[0].(string)
	for _, command := range [][]string{
		{"SET", key, "a"}, {"SET", key, "32"}, {"SET", key, strings.Repeat("\xff", 33)}, {"HSET", key, "f", "1"}, {"RPUSH", key, "1"}, {"ZADD", key, "1", "1"},
	} {
		do("DEL", key)
		do(command...)
		holds(command)
	}
}

// withinAMillisecond: calls a third of a millisecond apart pass at 3,000 a second, for time is counted in microseconds.
func withinAMillisecond(w *world, _ *vector) {
	l := w.limiter("fine", sluice.LeakyBucket{Rate: sluice.PerSecond(3000)})
	passed, calls := 0, 0
	for at := time.Duration(0); at < time.Second; at += 334 * time.Microsecond {
		calls++
		if w.allow(l, "").Allowed {
			passed++
		}
		w.pass(334 * time.Microsecond)
	}
	if passed != calls || calls < 2990 {
		w.Errorf("%d of %d pass", passed, calls)
	}
}

// redisRefused: a server that is not there is an error that says so; a client of the program's own does.
func redisRefused(w *world, _ *vector) {
	l := w.limiter("own", sluice.LeakyBucket{Rate: sluice.PerSecond(2)})
	for i, want := range []bool{true, false, false, true, false} {
		if d := w.allow(l, "k"); d.Allowed != want {
			w.Errorf("call %d: %+v", i, d)
		}
		w.pass(200 * time.Millisecond)
	}
	if w.redis == nil {
		return
	}
	var listen net.ListenConfig
	port, err := listen.Listen(w.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	nobody := port.Addr().String()
	if err := port.Close(); err != nil {
		w.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: nobody, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := goredisstore.New(client, redisstore.Options{})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := sluice.NewLimiter(store, l.Limit()).Allow(w.Context(), sluice.Key{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		w.Errorf("got error %v", err)
	}
}

// banOfHalfASecond ends; in Redis, no key is kept without an end, which the world checks.
func banOfHalfASecond(w *world, _ *vector) {
	limit := sluice.MustLimit("ban", sluice.LeakyBucket{Rate: sluice.PerSecond(2)})
	ask := func() sluice.Decision {
		d, err := w.store.Decide(w.Context(), sluice.Request{
			Limit: limit, Key: sluice.StringKey("k"), Cost: 1, Ban: &sluice.Ban{After: 1, For: 500 * time.Millisecond},
		})
		if err != nil {
			w.Fatal(err)
		}
		return d
	}
	for i, c := range []struct {
		after   time.Duration
		allowed bool
		reason  sluice.Reason
	}{
		{0, true, sluice.ReasonNone},
		{100 * time.Millisecond, false, sluice.ReasonLimited},
		{499 * time.Millisecond, false, sluice.ReasonBanned},
		{time.Millisecond, true, sluice.ReasonNone},
	} {
		w.pass(c.after)
		// The denial that begins a ban tells of it or of the limit.
		if d := ask(); d.Allowed != c.allowed || i != 1 && d.Reason != c.reason {
			w.Errorf("call %d: %+v", i, d)
		}
	}
}

// rollingOptions are checked when the limit is made.
func rollingOptions(w *world, v *vector) {
	for kind, ok := range map[string]bool{"valid": true, "invalid": false} {
		all, _ := v.Config[kind].([]any)
		if len(all) < 3 {
			w.Errorf("%d options are %s", len(all), kind)
		}
		for _, one := range all {
			c := config(one.(map[string]any))
			_, err := sluice.NewLimit("rolling", sluice.SlidingLog{
				Rate:        sluice.Per(c.count("maxInInterval"), time.Duration(c.count("interval"))*time.Millisecond),
				MinInterval: time.Duration(c.count("minDifference")) * time.Millisecond,
			})
			if (err == nil) != ok {
				w.Errorf("%v: %v", c, err)
			}
		}
	}
}

// rollingShared: two limiters of one name share what a user has; of two names, each has its own.
func rollingShared(w *world, v *vector) {
	for _, c := range []struct {
		names  [2]string
		config string
		total  string
		shares bool
	}{{[2]string{"same", "same"}, "same_namespace", "total_per_user", true}, {[2]string{"first", "second"}, "different_namespace", "per_limiter_per_user", false}} {
		settings := config(v.Config[c.config].(map[string]any))
		var all [2]*sluice.Limiter
		for i, name := range c.names {
			all[i] = w.limiter(name, sluice.SlidingLog{Rate: sluice.Per(settings.count("each_max"), 10*time.Second), CountDenied: true})
		}
		for user := range settings.count("users") {
			var passed [2]atomic.Int64
			var group sync.WaitGroup
			for i, l := range all {
				for range 4 {
					group.Go(func() {
						for range settings.count("calls") / 4 {
							d, err := l.Allow(w.Context(), sluice.StringKey(fmt.Sprint("user ", user)))
							if err != nil {
								w.Error(err)
							}
							if d.Allowed {
								passed[i].Add(1)
							}
						}
					})
				}
			}
			group.Wait()
			a, b, want := passed[0].Load(), passed[1].Load(), settings.count(c.total)
			if c.shares && a+b != want || !c.shares && (a != want || b != want) {
				w.Errorf("%v: %d and %d pass of user %d; want %d", c.names, a, b, user, want)
			}
		}
	}
}

// combined: of four limits as one decision, one refuses; the others are as before. There are no
// two phases here, so that the one that refuses has not been charged either.
func combined(w *world, v *vector) {
	refuses := int(v.Config.count("rejects_on_commit")) - 1
	ls := make([]sluice.Request, v.Config.count("mock_limiters"))
	for i := range ls {
		ls[i] = sluice.Request{Limit: sluice.MustLimit(fmt.Sprint("l", i), sluice.FixedWindow{Rate: sluice.PerHour(2)}), Cost: 1}
	}
	ds := make([]sluice.Decision, len(ls))
	for range 2 {
		if d, err := w.store.Decide(w.Context(), ls[refuses]); err != nil || !d.Allowed {
			w.Fatalf("%+v, %v", d, err)
		}
	}
	if err := w.store.DecideAll(w.Context(), ls, ds); err != nil || ds[refuses].Allowed {
		w.Errorf("%+v, %v", ds, err)
	}
	for i := range ls {
		ls[i].Peek = true
		d, err := w.store.Decide(w.Context(), ls[i])
		if err != nil || d.Remaining != 2 && i != refuses || d.Remaining != 0 && i == refuses {
			w.Errorf("limit %d afterwards: %+v, %v", i, d, err)
		}
	}
}

// guavaParameters are refused; but a cost of nothing is free, and tells what one would.
func guavaParameters(w *world, _ *vector) {
	for rate, ok := range map[int64]bool{1: true, 0: false, -10: false} {
		if _, err := sluice.NewLimit("r", sluice.TokenBucket{Rate: sluice.PerSecond(rate)}); (err == nil) != ok {
			w.Errorf("rate %d: %v", rate, err)
		}
	}
	for warmUp, ok := range map[time.Duration]bool{time.Second: true, 0: true, -1: false} {
		if _, err := sluice.NewLimit("r", sluice.TokenBucket{Rate: sluice.PerSecond(1), WarmUp: warmUp}); (err == nil) != ok {
			w.Errorf("warm-up %v: %v", warmUp, err)
		}
	}
	l := w.limiter("r", sluice.TokenBucket{Rate: sluice.PerSecond(3)})
	if _, err := l.AllowN(w.Context(), sluice.Key{}, -1); err == nil {
		w.Error("a negative cost is no error")
	}
	if d, err := l.AllowN(w.Context(), sluice.Key{}, 0); err != nil || d.Remaining != 3 {
		w.Errorf("a cost of nothing: %+v, %v", d, err)
	}
}

// guavaWarmUp: a cold limiter's first permits, however they are split, take the warm-up time.
func guavaWarmUp(w *world, v *vector) {
	rng, permits := rand.New(rand.NewPCG(20, 1)), v.Config.count("permits")
	for _, cold := range v.Config["cold_factors"].([]any) {
		for _, qps := range v.Config["qps"].([]any) {
			c, q := cold.(float64), qps.(float64)
			warmUp := time.Duration((1 + c) * float64(permits) / (2 * q) * float64(time.Second))
			l := w.limiter(fmt.Sprintf("warm-%v-%v", c, q), sluice.TokenBucket{Rate: per(q), Burst: 1 << 20, WarmUp: warmUp, ColdFactor: int64(c)})
			for split := range 3 {
				key, waited := sluice.StringKey(fmt.Sprint(split)), time.Duration(0)
				take := func(n int64) {
					r, err := l.Reserve(w.Context(), key, n, math.MaxInt64)
					if err != nil || !r.OK() {
						w.Fatalf("%v, %v", r, err)
					}
					waited += r.Decision().Delay
					w.pass(r.Decision().Delay)
				}
				for left := permits; left > 0; {
					n := 1 + rng.Int64N(left)
					if split == 0 {
						n = 1
					}
					take(n)
					left -= n
				}
				take(1)
				if off := waited - warmUp; off < -time.Duration(permits)*time.Microsecond || off > time.Duration(permits+1)*time.Microsecond {
					w.Errorf("cold factor %v, %v permits a second, split %d: waited %v; want %v", c, q, split, waited, warmUp)
				}
			}
		}
	}
}
