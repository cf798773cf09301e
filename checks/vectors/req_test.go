package vectors

import (
	"errors"
	"math"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
)

// excess returns how many requests are ahead of a request that waits for d, to a thousandth.
func excess(d time.Duration, rate sluice.Rate) float64 {
	return math.Round(1000*d.Seconds()*inSecond(rate)) / 1000
}

// queued returns the result of a call that may be delayed.
func queued(d sluice.Decision, rate sluice.Rate) any {
	return passed(d, fields{"delay": d.Delay.Seconds(), "excess": excess(d.Delay, rate)})
}

// reqLimit is the limit of limit.req.
func reqLimit(c fields) (sluice.LeakyBucket, error) {
	rate, err := c.rate("rate")
	return sluice.LeakyBucket{Rate: rate, Queue: c.count("burst", 0)}, err
}

// restyReq is OpenResty's limit.req.
func restyReq(w *world) (stepper, error) {
	a, err := reqLimit(w.v.Config)
	if err != nil {
		return nil, err
	}
	l, err := w.limiter("req", a)
	if err != nil {
		return nil, err
	}
	w.back = a.Rate.Period()
	q := &reqQueue{world: w, Limiter: l, taken: map[sluice.Key][]takenCall{}}
	return func(s fields) (any, error) {
		k := s.key()
		switch s.text("op") {
		case "incoming":
			if !s.flag("commit", true) {
				d, err := l.PeekN(w.Context(), k, s.n())
				return queued(d, a.Rate), err
			}
			d, err := q.take(k, s.n())
			return queued(d, a.Rate), err
		case "uncommit":
			return true, q.giveBack(k)
		case "set", "set_rate", "set_burst":
			if s["rate"] != nil {
				if a.Rate, err = s.rate("rate"); err != nil {
					return nil, err
				}
			}
			a.Queue = s.count("burst", a.Queue)
			if err := change(l, a); err != nil {
				return nil, err
			}
			// The new rate holds since the last call.
			for k, ts := range q.taken {
				if err := w.convert(l, k, ts[len(ts)-1].at); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}
		return unknown(s)
	}, nil
}

// A taken call is one that passed. It keeps the state before the call.
type takenCall struct {
	*sluice.Reservation
	at     int64
	before sluice.Decision
}

// reqQueue keeps the calls that can be given back.
type reqQueue struct {
	*world
	*sluice.Limiter
	taken map[sluice.Key][]takenCall
}

func (q *reqQueue) take(k sluice.Key, n int64) (sluice.Decision, error) {
	before, err := q.PeekN(q.Context(), k, 0)
	if err != nil {
		return before, err
	}
	// Only the queue bounds the wait.
	r, err := q.ReserveN(q.Context(), k, n, forever)
	if err != nil {
		return sluice.Decision{}, err
	}
	if r.OK() {
		q.taken[k] = append(q.taken[k], takenCall{r, q.now(), before})
	}
	return r.Decision(), nil
}

// giveBack cancels the latest call and compares the state with the one before that call.
func (q *reqQueue) giveBack(k sluice.Key) error {
	n := len(q.taken[k])
	if n == 0 {
		return errors.New("nothing to give back")
	}
	last := q.taken[k][n-1]
	if last.Decision().Delay == 0 {
		// limit.req does not count below zero.
		q.excuse = giveBack
	}
	if err := last.Cancel(q.Context()); err != nil {
		return err
	}
	after, err := q.PeekN(q.Context(), k, 0)
	if err == nil && q.now() == last.at && after != last.before {
		q.Errorf("after giving back: %+v, before takenCall: %+v", after, last.before)
	}
	if q.taken[k] = q.taken[k][:n-1]; n == 1 {
		delete(q.taken, k)
	}
	return err
}

// redisLeaky is the leaky bucket in Redis. Its first denial begins a ban of "duration" seconds.
func redisLeaky(w *world) (stepper, error) {
	a, err := reqLimit(w.v.Config)
	if err != nil {
		return nil, err
	}
	l, err := w.limiter("req", a)
	if err != nil {
		return nil, err
	}
	w.back = a.Rate.Period()
	r := sluice.Request{Limit: l.Limit()}
	if length := span(w.v.Config.num("duration", 0), time.Second); length > 0 {
		r.Ban = &sluice.Ban{After: 1, For: length}
	}
	if truncated(a.Rate) {
		w.excuse = millirate
	}
	return func(s fields) (any, error) {
		r := r
		r.Key, r.Cost, r.Peek = s.key(), s.n(), !s.flag("commit", true)
		d, err := w.store.Decide(w.Context(), r)
		switch op := s.text("op"); {
		case err != nil:
			return nil, err
		case d.Reason == sluice.ReasonBanned:
			return oneOf{"rejected", "forbidden", "banned"}, nil
		case op == "incoming":
			return passed(d, "ok"), nil
		case op == "incoming_full":
			return queued(d, a.Rate), nil
		}
		return unknown(s)
	}, nil
}

// serialCalls makes eighty calls, one after the other. Each waits for its delay, and they take 79
// turns.
func serialCalls(w *world) {
	l := w.mustLimiter("serial", sluice.LeakyBucket{Rate: sluice.PerSecond(40), Queue: 40})
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

// foreignValue overwrites a state in Redis, as another program would. Calls for the key then fail, as in
// limit.req, until somebody deletes it. Our keys begin with a prefix, to which an access list can confine other
// programs.
func foreignValue(w *world) {
	l := w.mustLimiter("foreign", sluice.LeakyBucket{Rate: sluice.PerSecond(2), Queue: 10})
	holds := func(when any) {
		w.Helper()
		for i := range 14 {
			if d := w.allow(l, "k"); d.Allowed != (i < 11) {
				w.Errorf("%q, call %d: %+v", when, i, d)
			}
		}
	}
	holds("before")
	if w.server == nil {
		return
	}
	conn, err := w.server.Dial(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	do := func(command ...string) any {
		w.Helper()
		reply, err := conn.Do(w.Context(), command...)
		if err != nil {
			w.Fatalf("the command %q failed: %v", command, err)
		}
		return reply
	}
	keys, _ := do("KEYS", w.prefix+"*").([]any)
	if len(keys) != 1 {
		w.Fatalf("the keys are %v", keys)
	}
	key := keys[0].(string)
	for _, command := range [][]string{
		{"SET", key, "a"}, {"SET", key, "32"}, {"SET", key, strings.Repeat("\xff", 33)}, {"HSET", key, "f", "1"}, {"RPUSH", key, "1"}, {"ZADD", key, "1", "1"},
	} {
		do("DEL", key)
		do(command...)
		if _, err := l.Allow(w.Context(), sluice.StringKey("k")); !errors.Is(err, sluice.ErrForeignState) {
			w.Errorf("after %q: the error is %v, want ErrForeignState", command, err)
		}
	}
	do("DEL", key)
	holds("after")
}

// withinAMillisecond calls every third of a millisecond. At 3,000 per second all calls pass, because
// Sluice counts microseconds.
func withinAMillisecond(w *world) {
	l := w.mustLimiter("fine", sluice.LeakyBucket{Rate: sluice.PerSecond(3000)})
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

// redisRefused uses a client of the caller. If no server listens, the error is "connection refused".
func redisRefused(w *world) {
	l := w.mustLimiter("own", sluice.LeakyBucket{Rate: sluice.PerSecond(2)})
	for i, want := range []bool{true, false, false, true, false} {
		if d := w.allow(l, "k"); d.Allowed != want {
			w.Errorf("call %d: %+v", i, d)
		}
		w.pass(200 * time.Millisecond)
	}
	if w.server == nil {
		return
	}
	var listen net.ListenConfig
	port, err := listen.Listen(w.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	closed := port.Addr().String()
	if err := port.Close(); err != nil {
		w.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: closed, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := goredisstore.New(client, redisstore.Options{})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := sluice.NewLimiter(store, l.Limit()).Allow(w.Context(), sluice.Key{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		w.Errorf("got error %v", err)
	}
}

// banOfHalfASecond checks that a ban ends. In Redis, every key has a time to live: see worlds.run.
func banOfHalfASecond(w *world) {
	limit := sluice.MustLimit("ban", sluice.LeakyBucket{Rate: sluice.PerSecond(2)})
	take := func() sluice.Decision {
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
		// The denial that begins the ban may have either reason.
		if d := take(); d.Allowed != c.allowed || i != 1 && d.Reason != c.reason {
			w.Errorf("call %d: %+v", i, d)
		}
	}
}
