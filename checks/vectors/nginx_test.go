package vectors

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// truncated reports whether nginx truncates a rate: it counts thousandths of a request per second.
func truncated(r sluice.Rate) bool { return r.Count()*1000%int64(r.Period()/time.Second) != 0 }

// nginxReq is nginx's limit_req with one or several zones. A request needs all of them, and waits for
// the longest delay. An empty key is not limited.
func nginxReq(w *world) (stepper, error) {
	zones := w.v.Config.list("zones")
	if len(zones) == 0 {
		zones = []fields{w.v.Config}
	}
	var all []sluice.Request
	for i, c := range zones {
		a, err := reqLimit(c)
		if err != nil {
			return nil, err
		}
		a.Undelayed = min(c.count("delay", 0), a.Queue)
		if c.flag("nodelay", false) {
			a.Undelayed = a.Queue
		}
		l, err := w.limiter(string(rune('a'+i)), a)
		if err != nil {
			return nil, err
		}
		if truncated(a.Rate) {
			w.excuse = millirate
		}
		w.back = max(w.back, a.Rate.Period())
		all = append(all, sluice.Request{Limit: l.Limit(), Cost: 1})
	}
	return func(s fields) (any, error) {
		if s.text("op") != "req" {
			return unknown(s)
		}
		rs := slices.Clone(all)
		keys, several := s["keys"].([]any)
		for i := range rs {
			rs[i].Key = s.key()
			if several && i < len(keys) {
				rs[i].Key = fields{"key": keys[i]}.key()
			}
		}
		if several || s["key"] != nil {
			rs = slices.DeleteFunc(rs, func(r sluice.Request) bool { return r.Key.Text() == "" })
		}
		ds := make([]sluice.Decision, len(rs))
		if err := w.store.DecideAll(w.Context(), rs, ds); err != nil {
			return nil, err
		}
		longest := time.Duration(0)
		for _, d := range ds {
			if !d.Allowed {
				return int64(503), nil
			}
			longest = max(longest, d.Delay)
		}
		w.also = fields{"delay_ms": float64(longest) / float64(time.Millisecond)}
		return int64(200), nil
	}, nil
}

// zone is limit_req with a key from a query parameter. An empty key is not limited.
func zone(name, parameter string, rate sluice.Rate, match policy.Match) policy.Rule {
	key := policy.Query(parameter).IfMissing(policy.MissingSkip)
	return policy.Rule{
		Name: name, Match: match, Key: []policy.Part{key}, MaxWait: sluice.NoWait, OnStoreError: sluice.FallbackDeny,
		Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: rate})},
		WhenLimited: policy.LimitedAction{Status: http.StatusServiceUnavailable},
	}
}

// nginxZones sends requests to several zones. A request passes if all zones admit it.
func nginxZones(w *world) {
	slow, fast := sluice.PerMinute(1), sluice.PerSecond(1000)
	for _, c := range []struct {
		name    string
		queries []string
		want    []int
	}{
		{"only fast", []string{"fast=a", "fast=a"}, []int{200, 200}},
		{"only slow", []string{"slow=a", "slow=a"}, []int{200, 503}},
		{"both", []string{"slow=b&fast=b", "slow=b&fast=b"}, []int{200, 503}},
		{"an empty key", []string{"slow=&fast=", "slow=&fast=", ""}, []int{200, 200, 200}},
		// A denial of the slow zone charges nothing to the fast one.
		{"one zone's denial", []string{"slow=c", "slow=c&fast=c", "fast=c"}, []int{200, 503, 200}},
	} {
		s := w.serve(answer, zone("slow", "slow", slow, policy.Match{}), zone("fast", "fast", fast, policy.Match{}))
		for i, query := range c.queries {
			if got, body := s.send(http.MethodGet, "/?"+query); got != c.want[i] {
				w.Errorf("%s, request %d: %d %s", c.name, i, got, body)
			}
			if i+1 < len(c.queries) && query != "slow=c" && query != "slow=c&fast=c" {
				w.pass(100 * time.Millisecond)
			}
		}
	}
}

// nginxDryRun checks that a shadow rule decides and counts, but neither denies nor delays.
func nginxDryRun(w *world) {
	rule := func(path string, queue int64, shadow bool) policy.Rule {
		return policy.Rule{
			Name: path[1:], Match: policy.Match{Paths: []string{path}}, Key: []policy.Part{policy.ClientIP()}, Shadow: shadow, OnStoreError: sluice.FallbackDeny,
			Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerMinute(1), Queue: queue})},
			WhenLimited: policy.LimitedAction{Status: http.StatusServiceUnavailable},
		}
	}
	s := w.serve(verdict, rule("/delay", 2, true), rule("/reject", 0, true), rule("/reject-unlimited", 0, false))
	for _, c := range []struct {
		path, state string
		status      int
	}{
		{"/delay", "PASSED_DRY_RUN", 200},
		{"/delay", "DELAYED_DRY_RUN", 200},
		{"/reject", "PASSED_DRY_RUN", 200},
		{"/reject", "REJECTED_DRY_RUN", 200},
		{"/reject-unlimited", "PASSED", 200},
		{"/reject-unlimited", "", 503},
		{"/unlimited", "-", 200},
	} {
		began := time.Now()
		status, body := s.send(http.MethodGet, c.path)
		if status != c.status || c.state != "" && body != c.state {
			w.Errorf("%s: %d %s; want %d %s", c.path, status, body, c.status, c.state)
		}
		if took := time.Since(began); took > patience {
			w.Errorf("%s took %v", c.path, took)
		}
	}
}

// nginxConn is limit_conn: it bounds the open connections of a key.
func nginxConn(w *world) {
	atOnce := func(path string, most int64, status int, shadow bool) policy.Rule {
		return policy.Rule{
			Name: path[1:], Match: policy.Match{Paths: []string{path}}, Key: []policy.Part{policy.Query("k")}, Shadow: shadow, OnStoreError: sluice.FallbackDeny,
			Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: most})},
			WhenLimited: policy.LimitedAction{Status: status},
		}
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	s := w.serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("hold") {
			entered <- struct{}{}
			<-leave
		}
		verdict(rw, r)
	},
		atOnce("/one", w.v.Config.count("limit_conn", 0), 503, false), atOnce("/custom", 1, 501, false), atOnce("/five", 5, 503, false),
		atOnce("/zone", 1, 503, false), atOnce("/dry", 1, 503, true),
	)
	// One connection of each path stays open.
	held := []string{"/one", "/custom", "/five", "/dry"}
	ended := make(chan struct{})
	for _, path := range held {
		go func() {
			defer func() { ended <- struct{}{} }()
			s.send(http.MethodGet, path+"?k=1&hold")
		}()
		<-entered
	}
	for _, c := range []struct {
		path, state string
		status      int
	}{
		{"/one?k=1", "", 503},
		{"/one?k=2", "PASSED", 200},
		{"/zone?k=1", "PASSED", 200},
		{"/custom?k=1", "", 501},
		{"/five?k=1", "PASSED", 200},
		{"/dry?k=1", "REJECTED_DRY_RUN", 200},
	} {
		if status, body := s.send(http.MethodGet, c.path); status != c.status || c.state != "" && body != c.state {
			w.Errorf("%s: %d %s; want %d %s", c.path, status, body, c.status, c.state)
		}
	}
	close(leave)
	for range held {
		<-ended
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C { // a lease ends soon after its response
		if status, _ := s.send(http.MethodGet, "/one?k=1"); status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			w.Fatal("the lease never ends")
		}
	}
}
