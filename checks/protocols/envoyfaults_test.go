package protocols

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// withRedis is a configuration over a Redis, whose answers are awaited for a time.
func withRedis(address, deadline string) string {
	return fmt.Sprintf(`listen: {proxy: 'off', api: 'off', admin: 'off', grpc: '127.0.0.1:0'}
store: {redis: {addresses: ['%s'], deadline: %s, local: {share: 1/2}}}
rules:
  - name: lenient
    descriptor: {domain: edge, entries: [lenient]}
    limit: {algorithm: fixed_window, rate: 100000/d}
  - name: strict
    descriptor: {domain: edge, entries: [strict]}
    limit: {algorithm: fixed_window, rate: 100000/d}
    on_store_error: deny
  - name: local
    descriptor: {domain: edge, entries: [local]}
    limit: {algorithm: fixed_window, rate: 2/d}
    on_store_error: local
`, address, deadline)
}

// codesOf makes calls for a key from several callers at once, and counts the codes of the answers. Each call must have its
// answer before its deadline.
func (e *envoy) codesOf(key string, callers, each int, deadline time.Duration) map[string]int {
	e.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[string]int{}
	for i := range callers {
		all.Go(func() {
			for range each {
				ctx, cancel := context.WithTimeout(e.Context(), deadline)
				v, err := e.limits.ShouldRateLimit(ctx, call(one(key, fmt.Sprint(i%2))))
				cancel()
				mu.Lock()
				if err != nil {
					codes[err.Error()]++
				} else {
					codes[v.GetOverallCode().String()]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return codes
}

// TestStoreFaults stops Redis under load. Each call is answered before its deadline, as the rule says: where the server gives up
// before the caller, and where only the deadline of the call ends the wait.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	const ok, over = ratelimitpb.RateLimitResponse_OK, ratelimitpb.RateLimitResponse_OVER_LIMIT
	for name, deadlines := range map[string][2]string{
		"the server gives up first": {"50ms", "2s"},
		"the caller is impatient":   {"30s", "400ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			e := dialEnvoy(t, serve(t, withRedis(redis.Addr(), deadlines[0])))
			limit, err := time.ParseDuration(deadlines[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"lenient", "strict"} {
				if got := e.codesOf(key, 4, 2, process.Patience); got["OK"] != 8 {
					t.Fatalf("%s, before: %v", key, got)
				}
			}
			if err := redis.Pause(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := redis.Resume(); err != nil {
					t.Error(err)
				}
			}()
			const callers, each = 16, 3
			for key, want := range map[string]ratelimitpb.RateLimitResponse_Code{"lenient": ok, "strict": over} {
				if got := e.codesOf(key, callers, each, limit); got[want.String()] != callers*each {
					t.Errorf("key %s: %v, want %d times %v", key, got, callers*each, want)
				}
			}
			if name == "the caller is impatient" {
				return // a fallback in this process decides only if the server gives up first
			}
			// The part of this server is one hit for each of two keys.
			if got := e.codesOf("local", callers, each, limit); got["OK"] != 2 || got["OVER_LIMIT"] != callers*each-2 {
				t.Errorf("local: %v", got)
			}
		})
	}
}
