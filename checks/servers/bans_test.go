package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// banning are rules whose denials ban, each in its own way.
const banning = `
on_store_error: deny
rules:
  - {name: hand, match: {path: /hand}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000/s}, ban: {by_hand: true}}
  - {name: hour, match: {path: /hour}, key: client_ip, limit: {algorithm: fixed_window, rate: 2/30d, starts: first_request}, ban: {after: 2, for: 1h}}
  - name: escalating
    match: {path: /escalating}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/30d, starts: first_request}
    ban: {after: 1, for: [200ms, 400ms, 1h], forget: 1h}
  - {name: fixed, match: {path: /fixed}, key: client_ip, limit: {algorithm: token_bucket, rate: 10/s, burst: 1}, ban: {after: 1, for: 1s}}
  - {name: prolonged, match: {path: /prolonged}, key: client_ip, limit: {algorithm: token_bucket, rate: 10/s, burst: 1}, ban: {after: 1, for: 2s, prolong: true}}
`

// overBoth runs a test with one server that keeps its state in memory, which is both, and
// with two that share a Redis.
func overBoth(t *testing.T, config string, test func(t *testing.T, a, b *server)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s := serve(t, config)
		test(t, s, s)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		config := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", redistest.Start(t).Addr()) + config
		test(t, serve(t, config), serve(t, config))
	})
}

// banned is a ban as /v1/bans lists it.
type banned struct {
	Rule   string
	Key    []string
	LeftMS int64 `json:"left_ms"`
	InRow  int   `json:"in_row"`
	ByHand bool  `json:"by_hand"`
}

// bans returns the bans of a rule.
func (s *server) bans(rule string) []banned {
	s.tb.Helper()
	var all []banned
	for from := ""; ; {
		status, text := s.request("admin", http.MethodGet, "/v1/bans?from="+from, "")
		var page struct {
			Bans []banned
			Next string
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
			s.tb.Fatalf("/v1/bans answers %d %s", status, text)
		}
		for _, b := range page.Bans {
			if b.Rule == rule {
				all = append(all, b)
			}
		}
		if from = page.Next; from == "" {
			return all
		}
	}
}

// sluice runs a command about a server, as an operator does.
func (s *server) sluice(args ...string) string {
	s.tb.Helper()
	cmd := exec.CommandContext(s.tb.Context(), process.Program(), args...)
	cmd.Env = append(process.Environ(), "SLUICE_SERVER="+s.URLs["admin"])
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.tb.Fatalf("sluice %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestABanByHandHoldsEverywhereAtOnce: made at one server, it is in force at the other when the
// command has ended, and lifted from there.
func TestABanByHandHoldsEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	overBoth(t, banning, func(t *testing.T, a, b *server) {
		for _, s := range []*server{a, b} {
			if status, text := s.request("proxy", http.MethodGet, "/hand", ""); status != http.StatusOK {
				t.Fatalf("before: %d %s", status, text)
			}
		}
		for range 3 {
			a.sluice("ban", "hand", "127.0.0.1", "--for", "1h")
			for _, s := range []*server{b, a} {
				if status, text := s.request("proxy", http.MethodGet, "/hand", ""); status != http.StatusTooManyRequests {
					t.Errorf("banned: %d %s", status, text)
				}
			}
			if got := b.mustCheck("/hand", "127.0.0.1"); got.Allowed || got.Reason != "banned" {
				t.Errorf("banned: %+v", got)
			}
			if got := b.mustCheck("/hand", "192.0.2.1"); !got.Allowed {
				t.Errorf("another key: %+v", got)
			}
			if out := b.sluice("bans"); !strings.Contains(out, "by hand  hand  127.0.0.1") {
				t.Errorf("sluice bans prints\n%s", out)
			}
			b.sluice("unban", "hand", "127.0.0.1")
			for _, s := range []*server{a, b} {
				if status, text := s.request("proxy", http.MethodGet, "/hand", ""); status != http.StatusOK {
					t.Errorf("lifted: %d %s", status, text)
				}
			}
		}
	})
}

// TestABanByDenialsHoldsEverywhereAtOnce: denials at any server add up.
func TestABanByDenialsHoldsEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	overBoth(t, banning, func(t *testing.T, a, b *server) {
		const client = "192.0.2.7"
		for i, want := range []string{"", "", "limited", "limited", "banned", "banned"} {
			if got := []*server{a, b}[i%2].mustCheck("/hour", client); got.Reason != want {
				t.Fatalf("request %d: %+v, want %q", i+1, got, want)
			}
		}
		for _, s := range []*server{a, b} {
			all := s.bans("hour")
			if len(all) != 1 || all[0].Key[0] != client || all[0].ByHand || all[0].LeftMS < 3_500_000 {
				t.Errorf("listed %+v", all)
			}
		}
		// The budget stays used when the ban is lifted.
		b.sluice("unban", "hour", client)
		if got := a.mustCheck("/hour", client); got.Reason != "limited" {
			t.Errorf("lifted: %+v", got)
		}
	})
}

// TestBansEscalate: the second ban in a row lasts longer than the first, and the third than that.
func TestBansEscalate(t *testing.T) {
	t.Parallel()
	overBoth(t, banning, func(t *testing.T, a, b *server) {
		const client = "192.0.2.8"
		if got := a.mustCheck("/escalating", client); !got.Allowed {
			t.Fatalf("the first request: %+v", got)
		}
		for i, least := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond} {
			// One denial is enough, and comes again when the ban has ended.
			began := time.Now()
			if got := a.mustCheck("/escalating", client); got.Reason != "limited" {
				t.Fatalf("the denial that leads to ban %d: %+v", i+1, got)
			}
			process.Eventually(t, "the end of a ban", func() bool { return len(b.bans("escalating")) == 0 })
			if took := time.Since(began); took < least {
				t.Errorf("ban %d lasted for %v, want %v", i+1, took, least)
			}
		}
		a.mustCheck("/escalating", client)
		all := b.bans("escalating")
		if len(all) != 1 || all[0].InRow != 3 || all[0].LeftMS < 3_500_000 {
			t.Errorf("the third ban: %+v", all)
		}
		if out := a.sluice("bans"); !strings.Contains(out, "denials, 3 in a row  escalating  192.0.2.8") {
			t.Errorf("sluice bans prints\n%s", out)
		}
	})
}

// TestAttemptsDoNotProlongABan: a client that tries all the time is let in when the ban has ended.
func TestAttemptsDoNotProlongABan(t *testing.T) {
	t.Parallel()
	overBoth(t, banning, func(t *testing.T, a, b *server) {
		const client = "192.0.2.9"
		banAtOnce(t, a, "/fixed", client)
		attempts := 0
		process.Eventually(t, "the end of the ban under attempts", func() bool {
			attempts++
			return []*server{a, b}[attempts%2].mustCheck("/fixed", client).Allowed
		})
		if attempts < 3 {
			t.Errorf("only %d attempts were made", attempts)
		}
	})
}

// TestAttemptsProlongABanWithProlong: a client that tries all the time stays out for longer
// than the ban lasts, and a client that is quiet for so long does not.
func TestAttemptsProlongABanWithProlong(t *testing.T) {
	t.Parallel()
	overBoth(t, banning, func(t *testing.T, a, b *server) {
		const client, lasts = "192.0.2.10", 2 * time.Second
		banAtOnce(t, a, "/prolonged", client)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		last := time.Now()
		for began := last; time.Since(began) < lasts+lasts/2; <-tick.C {
			got := b.mustCheck("/prolonged", client)
			if quiet := time.Since(last); got.Reason != "banned" && quiet < lasts {
				t.Fatalf("%v after the ban began, and %v after the last attempt: %+v", time.Since(began), quiet, got)
			}
			last = time.Now()
		}
		process.Eventually(t, "the end of the ban without attempts", func() bool { return len(a.bans("prolonged")) == 0 })
		if got := a.mustCheck("/prolonged", client); !got.Allowed {
			t.Errorf("after the ban: %+v", got)
		}
	})
}

// banAtOnce runs a client over its limit, for which one denial bans.
func banAtOnce(t *testing.T, s *server, path, client string) {
	t.Helper()
	process.Eventually(t, "a ban", func() bool { return s.mustCheck(path, client).Reason == "banned" })
}
