package servers

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// A rate so slow that nothing comes back while a test runs.
const shared = `
rules:
  - {name: shared, match: {path: /shared}, key: client_ip, limit: {algorithm: token_bucket, rate: 100/30d}, on_store_error: local}
  - {name: open, match: {path: /open}, key: client_ip, limit: {algorithm: fixed_window, rate: 100/30d}}
  - {name: shut, match: {path: /shut}, key: client_ip, limit: {algorithm: sliding_log, rate: 100/30d}, on_store_error: deny}
`

func storeAt(address string) string {
	return fmt.Sprintf("store: {redis: {addresses: ['%s'], local: {share: 1/2}}}\n", address) + shared
}

// Two servers admit exactly the limit together; that one is killed
// changes nothing.
func TestTwoServersShareALimit(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a, b := serve(t, storeAt(r.Addr())), serve(t, storeAt(r.Addr()))
	for _, path := range []string{"/shared", "/open", "/shut"} {
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for n := range 20 {
					answer, err := []*server{a, b}[(i+n)%2].check(path, "192.0.2.1")
					if err != nil || answer.Degraded {
						t.Errorf("%s: the shared store should decide: %+v, %v", path, answer, err)
						return
					}
					if answer.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		all.Wait()
		if got := allowed.Load(); got != 100 {
			t.Errorf("%s: 320 requests through two servers: %d were admitted, want 100", path, got)
		}
	}
	a.Kill()
	if got := b.mustCheck("/shared", "192.0.2.1"); got.Allowed || got.Degraded {
		t.Errorf("after the other server was killed: %+v", got)
	}
	c := serve(t, storeAt(r.Addr()))
	if got := c.mustCheck("/shared", "192.0.2.1"); got.Allowed || got.Degraded {
		t.Errorf("a new server: %+v", got)
	}
	if code := b.drain(); code != 0 {
		t.Errorf("exit status %d on SIGTERM", code)
	}
}

// standingStill is the answer of /readyz while Redis is stopped.
var standingStill = regexp.MustCompile(`^ok\nstore: degraded since 20\S+, rules answer by on_store_error; it does not answer in time\n(overrides: not read since 20\S+, the last known ones stay in force\n)?$`)

// While Redis is paused, each rule answers by its on_store_error, in time.
func TestRedisStandsStill(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := strings.Replace(storeAt(r.Addr()), "{redis: {", "{redis: {deadline: 50ms, ", 1)
	a, b := serve(t, config), serve(t, config)
	decides := func(s *server) bool {
		got := s.mustCheck("/shut", "192.0.2.2")
		return got.Allowed && !got.Degraded
	}
	before := map[*server]string{}
	for _, s := range []*server{a, b} {
		process.Eventually(t, "a decision of Redis", func() bool { return decides(s) })
		process.Eventually(t, "readiness", func() bool {
			status, text := s.ready()
			return status == http.StatusOK && text == "ok\nstore: ok\n"
		})
		before[s] = s.figure(`sluice_degraded_decisions_total{on_store_error="deny",rule="shut"}`)
	}

	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	var slowest time.Duration
	count := map[string]int{}
	for range 60 {
		for _, s := range []*server{a, b} {
			for _, path := range []string{"/shared", "/open", "/shut"} {
				began := time.Now()
				got := s.mustCheck(path, "192.0.2.1")
				slowest = max(slowest, time.Since(began))
				if !got.Degraded {
					t.Fatalf("%s says nothing of its degradation: %+v", path, got)
				}
				if got.Allowed {
					count[path]++
				}
			}
		}
	}
	// The fallback begins again, with half of the limit in each.
	if count["/shared"] != 100 || count["/open"] != 120 || count["/shut"] != 0 {
		t.Errorf("120 requests each: %v were admitted; want 100 of /shared, all of /open, none of /shut", count)
	}
	// The deadline is 50ms; the rest is for a busy machine. TestFaultsDegradeAndHeal measures it.
	if slowest > 3*time.Second {
		t.Errorf("the slowest answer took %v", slowest)
	}
	t.Logf("the slowest of 360 answers took %v, with a deadline of 50ms", slowest)
	for _, s := range []*server{a, b} {
		status, text := s.ready()
		if status != http.StatusOK || !standingStill.MatchString(text) {
			t.Errorf("/readyz answers %d %q", status, text)
		}
		for series, want := range map[string]string{
			"sluice_store_up": "0",
			`sluice_degraded_decisions_total{on_store_error="local",rule="shared"}`: "60",
			`sluice_degraded_decisions_total{on_store_error="allow",rule="open"}`:   "60",
			`sluice_degraded_decisions_total{on_store_error="deny",rule="shut"}`:    plus60(t, before[s]),
		} {
			if got := s.figure(series); got != want {
				t.Errorf("%s is %s, want %s", series, got, want)
			}
		}
	}

	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*server{a, b} {
		took := process.Eventually(t, "recovery", func() bool { return s.storeIs("ok") })
		t.Logf("recovered %v after Redis went on", took)
		process.Eventually(t, "a decision of Redis", func() bool { return decides(s) })
		process.Eventually(t, "sluice_store_up", func() bool { return s.figure("sluice_store_up") == "1" })
		if log := s.Log(); !strings.Contains(log, "the store does not decide") || !strings.Contains(log, "the store decides again") {
			t.Errorf("the log has no line of it:\n%s", log)
		}
	}
}

// plus60 adds 60 to a figure.
func plus60(t *testing.T, figure string) string {
	t.Helper()
	n, err := strconv.Atoi(figure)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(n + 60)
}

// A server whose Redis is killed connects again, and one that starts without it
// connects when it is there.
func TestRedisIsStartedAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := serve(t, storeAt(r.Addr()))
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	b := serve(t, storeAt(r.Addr()))
	for _, s := range []*server{a, b} {
		// There are no requests: the server finds out by itself.
		process.Eventually(t, "the loss of Redis", func() bool { return s.storeIs("degraded") })
		if got := s.mustCheck("/open", "192.0.2.1"); !got.Allowed || !got.Degraded {
			t.Errorf("without Redis: %+v", got)
		}
	}
	if err := r.Restart(); err != nil {
		t.Fatal(err)
	}
	for i, s := range []*server{a, b} {
		took := process.Eventually(t, "recovery", func() bool { return s.storeIs("ok") })
		t.Logf("server %d recovered %v after Redis answered", i+1, took)
		// A client may have further connections that it does not yet know to be lost.
		process.Eventually(t, "a decision of Redis", func() bool {
			got := s.mustCheck("/open", "192.0.2.1")
			return got.Allowed && !got.Degraded
		})
	}
	if got := b.mustCheck("/open", "192.0.2.1"); *got.Remaining != 97 {
		t.Errorf("%d remain after three requests through two servers, want 97", *got.Remaining)
	}
}

// Servers end in time while Redis is paused.
func TestEndsWhileRedisStandsStill(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := serve(t, storeAt(r.Addr()))
	s.mustCheck("/open", "192.0.2.1")
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	s.mustCheck("/open", "192.0.2.1")
	began := time.Now()
	if code := s.drain(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
}
