package vectors

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// answer is a handler that is reached by those who pass.
func answer(http.ResponseWriter, *http.Request) {}

// gets limits what think-throttle limits unless it is told of other methods.
var gets = policy.Match{Methods: []string{http.MethodGet}}

// visits is a rule with a rate as think-throttle writes it, on the client's address unless keys
// are given. An empty rate is no rule.
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
		Name: name, Match: match, Key: key, OnStoreError: policy.FallbackDeny,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: per})},
	}}
}

// throttleDriver runs the drivers' cases: so many requests at once, by one of four algorithms.
func throttleDriver(w *world, v *vector) {
	rules := w.visits("visit", v.Config.text("visit_rate"), gets)
	least, most, err := v.bounds()
	requests := 0
	if err = firstError(err, json.Unmarshal(v.Requests, &requests)); err != nil || len(rules) == 0 {
		w.Fatalf("not understood: %+v, %v", v, err)
	}
	per := rules[0].Limits[0].Algorithm().(sluice.FixedWindow).Rate
	a, ok := map[string]sluice.Algorithm{
		"CounterFixed":  sluice.FixedWindow{Rate: per},
		"CounterSlider": sluice.SlidingLog{Rate: per},
		"LeakyBucket":   sluice.LeakyBucket{Rate: per},
		"TokenBucket":   sluice.TokenBucket{Rate: per},
	}[v.Config.text("driver")]
	if !ok {
		w.Fatalf("no such driver: %v", v.Config)
	}
	rules[0].Limits[0] = sluice.MustLimit("", a)
	if got := w.serve(answer, rules...).passed(requests, http.MethodGet, "/"); got < least || got > most {
		w.Errorf("%d pass; want %d to %d", got, least, most)
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A throttle is a rate, that of the vector if empty, and requests with what passes of each.
type throttle struct {
	rate     string
	requests []request
	want     []int
}

type request struct {
	n      int
	method string // GET if empty
}

// throttled sends the requests of a throttle by turns.
func throttled(c throttle) func(w *world, v *vector) {
	return func(w *world, v *vector) {
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
					got[j] += s.passed(1, firstOf(r.method, http.MethodGet), "/")
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			w.Errorf("%v pass; want %v", got, c.want)
		}
	}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// throttleRoutes has a key of the route and the client, where routes are known.
func throttleRoutes(w *world, v *vector) {
	match := policy.Match{Methods: gets.Methods, Paths: []string{"/one", "/two"}}
	s := w.serve(answer, w.visits("visit", v.Config.text("visit_rate"), match, policy.Route(), policy.ClientIP())...)
	w.sameOf(s, []string{"/one", "/two"}, []int{100, 100})
}

// throttleGlobally has the same key where they are not: the parts are missing, and all share.
func throttleGlobally(w *world, v *vector) {
	key := []policy.Part{policy.Attribute("controller"), policy.Attribute("action"), policy.ClientIP()}
	s := w.serve(answer, w.visits("visit", v.Config.text("visit_rate"), gets, key...)...)
	w.sameOf(s, []string{"/one", "/two"}, []int{50, 50})
}

// throttlePaths has other numbers for some paths.
func throttlePaths(w *world, _ *vector) {
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
	w.sameOf(w.serve(answer, rules...), []string{"/", "/path1", "/path2", "/path3"}, []int{100, 10, 20, 30})
}

// sameOf sends 200 requests to each of some paths, by turns.
func (w *world) sameOf(s *site, paths []string, want []int) {
	w.Helper()
	got := make([]int, len(paths))
	for range 200 {
		for i, path := range paths {
			got[i] += s.passed(1, http.MethodGet, path)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("of %v %v pass; want %v", paths, got, want)
	}
}

// throttleForSeconds asks for 2.9 s. Its system counts whole seconds, and keeps a request for up to two of
// them: 18 to 22 pass. Ours keeps each for one: ten pass in any second, so thirty here.
func throttleForSeconds(w *world, v *vector) {
	rules := w.visits("visit", v.Config.text("visit_rate"), gets)
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

// throttleOwnStore takes a store of the program's own.
func throttleOwnStore(w *world, v *vector) {
	type own struct{ sluice.Store }
	w.store = own{w.store}
	if got := w.serve(answer, w.visits("visit", v.Config.text("visit_rate"), gets)...).passed(200, http.MethodGet, "/"); got != 10 {
		w.Errorf("%d pass; want 10", got)
	}
}

// forgetful is a store that keeps nothing.
type forgetful struct{ sluice.Store }

func (f forgetful) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	empty, err := memory.New(memory.Options{MaxBytes: 1 << 20, Shards: 1})
	if err != nil {
		return sluice.Decision{}, err
	}
	d, err := empty.Decide(ctx, r)
	return d, firstError(err, empty.Close())
}

// throttleNoStore limits nobody with a store that keeps nothing.
func throttleNoStore(w *world, v *vector) {
	w.store = forgetful{w.store}
	if got := w.serve(answer, w.visits("visit", v.Config.text("visit_rate"), gets)...).passed(200, http.MethodGet, "/"); got != 200 {
		w.Errorf("%d pass; want 200", got)
	}
}

// throttleCoupons: one a day for each address, and a hundred for all, decided as one.
func throttleCoupons(w *world, _ *vector) {
	rules := append(w.visits("address", "1/d", gets), w.visits("coupon", "100/d", gets, policy.Constant("coupon"))...)
	s, total := w.serve(answer, rules...), 0
	from := func(i int) string { return fmt.Sprintf("X-Forwarded-For: 198.51.%d.%d", i>>8, i&255) }
	for i := range 3 {
		one := s.passed(10, http.MethodGet, "/", from(i))
		if total += one; one != 1 {
			w.Errorf("%d pass of one address", one)
		}
	}
	for i := range 200 {
		total += s.passed(1, http.MethodGet, "/", from(3+i))
	}
	if total != 100 {
		w.Errorf("%d coupons are given", total)
	}
}

// throttleMobiles has a key of the method that handles the request and a parameter.
func throttleMobiles(w *world, _ *vector) {
	s := w.serve(answer, w.visits("send", "5/d", policy.Match{Paths: []string{"/send"}}, policy.Route(), policy.Query("mobile"))...)
	for mobile, n := range map[string]int{"123": 50, "456": 20, "789": 20} {
		if got := s.passed(n, http.MethodGet, "/send?mobile="+mobile); got != 5 {
			w.Errorf("%d pass of %s", got, mobile)
		}
	}
}
