package vectors

import (
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// zone is limit_req: a key from a parameter, of which an empty one is not limited.
func zone(name, parameter string, rate sluice.Rate, match policy.Match) policy.Rule {
	key := policy.Query(parameter).IfMissing(policy.MissingSkip)
	return policy.Rule{
		Name: name, Match: match, Key: []policy.Part{key}, MaxWait: sluice.NoWait, OnStoreError: policy.FallbackDeny,
		Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: rate})},
		WhenLimited: policy.LimitedAction{Status: http.StatusServiceUnavailable},
	}
}

// nginxZones: a request meets several zones, and passes if all let it.
func nginxZones(w *world, _ *vector) {
	slow, fast := sluice.PerMinute(1), sluice.PerSecond(1000)
	for _, c := range []struct {
		name    string
		queries []string
		want    []int
	}{
		{"fast alone", []string{"fast=a", "fast=a"}, []int{200, 200}},
		{"slow alone", []string{"slow=a", "slow=a"}, []int{200, 503}},
		{"both", []string{"slow=b&fast=b", "slow=b&fast=b"}, []int{200, 503}},
		{"an empty key", []string{"slow=&fast=", "slow=&fast=", ""}, []int{200, 200, 200}},
		// What the slow zone refuses takes nothing of the fast one.
		{"one zone's denial", []string{"slow=c", "slow=c&fast=c", "fast=c"}, []int{200, 503, 200}},
	} {
		s := w.serve(answer, zone("slow", "slow", slow, policy.Match{}), zone("fast", "fast", fast, policy.Match{}))
		for i, query := range c.queries {
			if got, body := s.ask(http.MethodGet, "/?"+query); got != c.want[i] {
				w.Errorf("%s, request %d: %d %s", c.name, i, got, body)
			}
			if i+1 < len(c.queries) && query != "slow=c" && query != "slow=c&fast=c" {
				w.pass(100 * time.Millisecond)
			}
		}
	}
}

// nginxDryRun: a rule in shadow decides and counts, and refuses and delays nobody.
func nginxDryRun(w *world, _ *vector) {
	rule := func(path string, queue int64, shadow bool) policy.Rule {
		return policy.Rule{
			Name: path[1:], Match: policy.Match{Paths: []string{path}}, Key: []policy.Part{policy.ClientIP()}, Shadow: shadow, OnStoreError: policy.FallbackDeny,
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
		status, body := s.ask(http.MethodGet, c.path)
		if status != c.status || c.state != "" && body != c.state {
			w.Errorf("%s: %d %s; want %d %s", c.path, status, body, c.status, c.state)
		}
		if took := time.Since(began); took > patience {
			w.Errorf("%s is held for %v", c.path, took)
		}
	}
}

// nginxConn is limit_conn: connections at once, by key.
func nginxConn(w *world, v *vector) {
	places := func(path string, most int64, status int, shadow bool) policy.Rule {
		return policy.Rule{
			Name: path[1:], Match: policy.Match{Paths: []string{path}}, Key: []policy.Part{policy.Query("k")}, Shadow: shadow, OnStoreError: policy.FallbackDeny,
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
		places("/one", v.Config.count("limit_conn"), 503, false), places("/custom", 1, 501, false), places("/five", 5, 503, false),
		places("/zone", 1, 503, false), places("/dry", 1, 503, true),
	)
	// hold keeps one connection of each path open.
	held := []string{"/one", "/custom", "/five", "/dry"}
	ended := make(chan struct{})
	for _, path := range held {
		go func() {
			defer func() { ended <- struct{}{} }()
			s.ask(http.MethodGet, path+"?k=1&hold")
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
		if status, body := s.ask(http.MethodGet, c.path); status != c.status || c.state != "" && body != c.state {
			w.Errorf("%s: %d %s; want %d %s", c.path, status, body, c.status, c.state)
		}
	}
	close(leave)
	for range held {
		<-ended
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C { // a place is free soon after the answer
		if status, _ := s.ask(http.MethodGet, "/one?k=1"); status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			w.Fatal("the place is never free")
		}
	}
}
