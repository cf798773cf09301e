package vectors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// driver returns the algorithm of a driver of think-throttle, or nil.
func driver(name string, rate sluice.Rate) sluice.Algorithm {
	switch name {
	case "CounterFixed":
		return sluice.FixedWindow{Rate: rate}
	case "CounterSlider":
		return sluice.SlidingLog{Rate: rate}
	case "LeakyBucket":
		return sluice.LeakyBucket{Rate: rate}
	case "TokenBucket":
		return sluice.TokenBucket{Rate: rate}
	}
	return nil
}

// throttleSteps is think-throttle: "max" requests in "duration" seconds, by one of four drivers. Its
// waits are in whole seconds.
func throttleSteps(w *world) (stepper, error) {
	c := w.v.Config
	rate := sluice.Per(c.count("max", 0), span(c.num("duration", 0), time.Second))
	a := driver(c.text("driver"), rate)
	switch a.(type) {
	case nil:
		return nil, fmt.Errorf("unknown driver: %q", c.text("driver"))
	case sluice.LeakyBucket, sluice.TokenBucket:
		w.back = rate.Period()
	}
	l, err := w.limiter("driver", a)
	if err != nil {
		return nil, err
	}
	plain := takes(w, l)
	return func(s fields) (any, error) {
		if s.text("op") != "take_wait" {
			return plain(s)
		}
		d, err := l.AllowN(w.Context(), s.key(), s.n())
		return fields{"allow": d.Allowed, "wait": up(d.RetryAfter, time.Second)}, err
	}, nil
}

// throttleRate parses rates. An empty rate means that nothing is limited.
func throttleRate(*world) (stepper, error) {
	return func(s fields) (any, error) {
		if s.text("op") != "parse" {
			return unknown(s)
		}
		if s["rate"] == nil || s.text("rate") == "" {
			return oneOf{"off", "none", "unlimited"}, nil
		}
		r, err := sluice.ParseRate(s.text("rate"))
		if err != nil {
			return "error", nil //nolint:nilerr // the refusal of a text is a result
		}
		return []any{r.Count(), r.Period().Seconds()}, nil
	}, nil
}

// throttleHistory is think-throttle's first version. It keeps a log of requests, and counts a request
// before the handler runs.
func throttleHistory(w *world) (stepper, error) {
	rate, err := parseRate(w.v.Config.text("visit_rate"))
	if err != nil {
		return nil, err
	}
	l, err := w.limiter("history", sluice.SlidingLog{Rate: rate})
	if err != nil {
		return nil, err
	}
	return func(s fields) (any, error) {
		d, err := l.Allow(w.Context(), s.key())
		if err != nil {
			return nil, err
		}
		switch op := s.text("op"); {
		case op == "get_status" && d.Allowed:
			return s["handler"], nil
		case op == "get_status":
			return int64(429), nil
		case op != "get":
			return unknown(s)
		case !d.Allowed:
			return fields{"status": int64(429), "Retry-After": up(d.RetryAfter, time.Second)}, nil
		}
		// The reset is when the oldest request leaves the window.
		next, err := l.PeekN(w.Context(), s.key(), d.Remaining+1)
		return fields{
			"status":                 int64(200),
			"X-Rate-Limit-Limit":     d.Limit,
			"X-Rate-Limit-Remaining": d.Remaining,
			"X-Rate-Limit-Reset":     w.now()/1_000_000 + up(next.RetryAfter, time.Second),
		}, err
	}, nil
}

// answer is the handler of requests that pass.
func answer(http.ResponseWriter, *http.Request) {}

// gets matches the requests that think-throttle limits by default.
var gets = policy.Match{Methods: []string{http.MethodGet}}

// visits returns the rule for a rate of think-throttle. Its default key is the address of the client.
// An empty rate gives no rule.
func (w *world) visits(name, rate string, match policy.Match, key ...policy.Part) []policy.Rule {
	w.Helper()
	if rate == "" {
		return nil
	}
	per, err := sluice.ParseRate(rate)
	if err != nil {
		w.Fatal(err)
	}
	if key == nil {
		key = []policy.Part{policy.ClientIP()}
	}
	return []policy.Rule{{
		Name: name, Match: match, Key: key, OnStoreError: sluice.FallbackDeny,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: per})},
	}}
}

// throttleDriver sends many requests at once to one of the four drivers.
func throttleDriver(w *world) {
	v := w.v
	rules := w.visits("visit", v.Config.text("visit_rate"), gets)
	fewest, most, err := v.bounds()
	requests := 0
	if err = errors.Join(err, json.Unmarshal(v.Requests, &requests)); err != nil || len(rules) == 0 {
		w.Fatalf("requests or allowed cannot be read: %+v, %v", v, err)
	}
	per := rules[0].Limits[0].Algorithm().(sluice.FixedWindow).Rate
	a := driver(v.Config.text("driver"), per)
	if a == nil {
		w.Fatalf("unknown driver: %v", v.Config)
	}
	rules[0].Limits[0] = sluice.MustLimit("", a)
	if got := float64(w.serve(answer, rules...).passed(requests, http.MethodGet, "/")); got < fewest || got > most {
		w.Errorf("%v pass; want %v to %v", got, fewest, most)
	}
}

// A throttle is a rate, some requests, and how many of each must pass. If the rate is empty, it is the
// rate of the vector.
type throttle struct {
	rate     string
	requests []request
	want     []int
}

type request struct {
	n      int
	method string // GET if empty
}

// throttled sends the requests of a throttle in turns.
func throttled(c throttle) func(w *world) {
	return func(w *world) {
		v := w.v
		rate := c.rate
		if rate == "" {
			rate = v.Config.text("visit_rate")
		} else if text := v.Config.text("annotation"); !strings.HasPrefix(text, rate+" ") {
			w.Fatalf("the vector's rate is %q", text)
		}
		s, got := w.serve(answer, w.visits("visit", rate, gets)...), make([]int, len(c.want))
		for i := range 200 {
			for j, r := range c.requests {
				if i < r.n {
					got[j] += s.passed(1, cmp.Or(r.method, http.MethodGet), "/")
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			w.Errorf("%v pass; want %v", got, c.want)
		}
	}
}

// throttleRoutes has a key of the route and the client, where routes are known.
func throttleRoutes(w *world) {
	match := policy.Match{Methods: gets.Methods, Paths: []string{"/one", "/two"}}
	s := w.serve(answer, w.visits("visit", w.v.Config.text("visit_rate"), match, policy.Route(), policy.ClientIP())...)
	w.inTurns(s, []string{"/one", "/two"}, []int{100, 100})
}

// throttleGlobally has the same key where routes are unknown. Its parts are missing, and all requests
// share one count.
func throttleGlobally(w *world) {
	key := []policy.Part{policy.Attribute("controller"), policy.Attribute("action"), policy.ClientIP()}
	s := w.serve(answer, w.visits("visit", w.v.Config.text("visit_rate"), gets, key...)...)
	w.inTurns(s, []string{"/one", "/two"}, []int{50, 50})
}

// throttlePaths has other rates for some paths.
func throttlePaths(w *world) {
	var rules []policy.Rule
	for _, c := range []struct{ name, rate string }{{"path1", "10/m"}, {"path2", "20/m"}, {"path3", "30/m"}} {
		rules = append(rules, w.visits(c.name, c.rate, policy.Match{Paths: []string{"/" + c.name}}, policy.Path())...)
	}
	others := policy.Match{Unless: []policy.Match{{Paths: []string{"/path1", "/path2", "/path3"}}}}
	rules = append(rules, w.visits("others", "100/m", others, policy.Path())...)
	for i := range rules {
		per := rules[i].Limits[0].Algorithm().(sluice.FixedWindow).Rate
		rules[i].Limits[0] = sluice.MustLimit("", sluice.SlidingLog{Rate: per})
	}
	w.inTurns(w.serve(answer, rules...), []string{"/", "/path1", "/path2", "/path3"}, []int{100, 10, 20, 30})
}

// inTurns sends 200 requests to each path, in turns.
func (w *world) inTurns(s *site, paths []string, want []int) {
	w.Helper()
	got := make([]int, len(paths))
	for range 200 {
		for i, path := range paths {
			got[i] += s.passed(1, http.MethodGet, path)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%v: %v pass; want %v", paths, got, want)
	}
}

// throttleForSeconds sends requests for 2.9 s. The system counts whole seconds and keeps a request for
// up to two: 18 to 22 pass. Sluice keeps a request for one second, so that ten pass in each second:
// thirty in all.
func throttleForSeconds(w *world) {
	rules := w.visits("visit", w.v.Config.text("visit_rate"), gets)
	rules[0].Limits[0] = sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerSecond(10)})
	s := w.serve(answer, rules...)
	var passed []time.Duration
	const step = 20 * time.Millisecond
	for at := time.Duration(0); at < 2900*time.Millisecond; at += step {
		if s.passed(1, http.MethodGet, "/") == 1 {
			passed = append(passed, at)
		}
		w.pass(step)
	}
	for i := 10; i < len(passed); i++ {
		if passed[i]-passed[i-10] < time.Second {
			w.Errorf("11 pass from %v to %v", passed[i-10], passed[i])
		}
	}
	if len(passed) != 30 {
		w.Errorf("%d pass in 2.9 s; want 30", len(passed))
	}
}

// throttleOwnStore uses a store of the caller.
func throttleOwnStore(w *world) {
	type own struct{ sluice.Store }
	w.store = own{w.store}
	if got := w.serve(answer, w.visits("visit", w.v.Config.text("visit_rate"), gets)...).passed(200, http.MethodGet, "/"); got != 10 {
		w.Errorf("%d pass; want 10", got)
	}
}

// forgetful is a store that keeps no state.
type forgetful struct{ sluice.Store }

func (f forgetful) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	empty, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1})
	if err != nil {
		return sluice.Decision{}, err
	}
	d, err := empty.Decide(ctx, r)
	return d, errors.Join(err, empty.Close())
}

// throttleNoStore uses a store that keeps no state, which limits nothing.
func throttleNoStore(w *world) {
	w.store = forgetful{w.store}
	if got := w.serve(answer, w.visits("visit", w.v.Config.text("visit_rate"), gets)...).passed(200, http.MethodGet, "/"); got != 200 {
		w.Errorf("%d pass; want 200", got)
	}
}

// throttleCoupons gives one coupon per day to each address and a hundred in all, decided together.
func throttleCoupons(w *world) {
	rules := append(w.visits("address", "1/d", gets), w.visits("coupon", "100/d", gets, policy.Constant("coupon"))...)
	s, total := w.serve(answer, rules...), 0
	from := func(i int) string { return fmt.Sprintf("X-Forwarded-For: 198.51.%d.%d", i>>8, i&255) }
	for i := range 3 {
		one := s.passed(10, http.MethodGet, "/", from(i))
		if total += one; one != 1 {
			w.Errorf("one address: %d pass", one)
		}
	}
	for i := range 200 {
		total += s.passed(1, http.MethodGet, "/", from(3+i))
	}
	if total != 100 {
		w.Errorf("%d coupons are given", total)
	}
}

// throttleMobiles has a key of the route and a query parameter.
func throttleMobiles(w *world) {
	s := w.serve(answer, w.visits("send", "5/d", policy.Match{Paths: []string{"/send"}}, policy.Route(), policy.Query("mobile"))...)
	for mobile, n := range map[string]int{"123": 50, "456": 20, "789": 20} {
		if got := s.passed(n, http.MethodGet, "/send?mobile="+mobile); got != 5 {
			w.Errorf("mobile %s: %d pass", mobile, got)
		}
	}
}
