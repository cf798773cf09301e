package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/describe"
)

// modesOf returns the modes of the rules of a file over a store in Redis.
func modesOf(t *testing.T, rules string) string {
	t.Helper()
	p, err := parse(t, free+"store: {redis: {addresses: ['127.0.0.1:6379']}}\n"+rules).Policy()
	if err != nil {
		t.Fatal(err)
	}
	return describe.Modes(p.Rules())
}

// A server with hybrid rules lists the mode of each rule, a bounded number of them.
func TestModesOfHybridRulesAreListed(t *testing.T) {
	t.Parallel()
	const two = `
rules:
  - {name: login, match: {path: /login}, key: client_ip, limit: {algorithm: sliding_log, rate: 5/m}}
  - name: hot
    match: {path: /hot}
    key: client_ip
    limits:
      - {algorithm: token_bucket, rate: 1000/s}
      - {name: daily, algorithm: fixed_window, rate: 100000/d}
    hybrid: {credit: 100%}
  - {name: paced, match: {path: /paced}, key: client_ip, bandwidth: {down: 1MB/s}}
  - {name: search, match: {path: /search}, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}}
`
	const want = `hybrid hot: never more than 1000 + 1000/s·t, and n × 1000 (credit) for n servers; up to 50 may be left unused, and what the limit gives in 100ms
hybrid hot/daily: never more than 100000 in each day, and n × 100000 (credit) for n servers; up to 5000 may be left unused
exact  login, search
`
	if got := modesOf(t, two); got != want {
		t.Errorf("prints\n%s\nwant\n%s", got, want)
	}
	if got := modesOf(t, strings.Replace(two, "hybrid: {credit: 100%}", "hybrid: false", 1)); got != "" {
		t.Errorf("prints %q without a hybrid rule", got)
	}
	many := "rules:\n"
	for i := range 25 {
		many += fmt.Sprintf("  - {name: h%d, match: {path: /h%[1]d}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000/s}, hybrid: true}\n", i)
		many += fmt.Sprintf("  - {name: e%d, match: {path: /e%[1]d}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000/s}}\n", i)
	}
	got := modesOf(t, many)
	if n := strings.Count(got, "\n"); n != 22 || !strings.Contains(got, "\n       and 5 more limits\n") || !strings.HasSuffix(got, "e19, and 5 more\n") {
		t.Errorf("prints %d lines:\n%s", n, got)
	}
}

// The memory store has no modes.
func TestMemoryHasNoModes(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"rules: [{name: hot, key: client_ip, limit: {algorithm: token_bucket, rate: 1000/s}, hybrid: true}]\n"), nil)
	var out bytes.Buffer
	if err := r.Announce(&out, false); err != nil || strings.Contains(out.String(), "hybrid") {
		t.Errorf("prints %q, %v", out.String(), err)
	}
}
